-- Tables that are derived from turns, messages and events: rebuilt for the sessions of a delta; small tables as a whole.

-- 1. Visits of actions: each entry and skip, with the event that ended it.
CREATE OR REPLACE TEMP TABLE told AS
    SELECT e.session_id, e.seq, e.turn, e.kind, e.recorded_at, e.action_id, d.*
    FROM events AS e SEMI JOIN touched USING (session_id),
    LATERAL (SELECT unnest(from_json(e.data, '{"action_type": "VARCHAR", "rounds": "INTEGER", "skill": "VARCHAR",
        "interrupt": "VARCHAR", "detector": "VARCHAR", "scope": "VARCHAR", "id": "VARCHAR", "source": "VARCHAR", "reason": "VARCHAR",
        "what": "VARCHAR", "wait": {"kind": "VARCHAR"}, "label": "VARCHAR", "score": "DOUBLE",
        "severity": "DOUBLE", "by": "VARCHAR", "verdict": "VARCHAR", "old_place": "VARCHAR", "new_place": "VARCHAR", "message": "JSON", "experiment": "VARCHAR", "arm": "VARCHAR", "name": "VARCHAR"}'))) AS d
    WHERE e.kind IN ('action_entered', 'action_left', 'action_skipped', 'exit', 'scope_entered', 'scope_left', 'scope_skipped', 'wait', 'ended',
        'intervention', 'detected', 'exposed', 'milestone', 'migrated');
CREATE OR REPLACE TEMP TABLE placed AS
    SELECT *,
        last_value(CASE WHEN kind = 'scope_entered' AND scope = 'phase' THEN id WHEN kind = 'migrated' THEN nullif(split_part(new_place, '/', 1), '') END
            IGNORE NULLS) OVER so_far AS phase_id,
        last_value(CASE WHEN kind = 'scope_entered' AND scope = 'topic' THEN id WHEN kind = 'migrated' THEN nullif(split_part(new_place, '/', 2), '') END
            IGNORE NULLS) OVER so_far AS topic_id,
        -- the conversation goes back: by a rewind, or by the undo of a migration that had changed its position
        (kind = 'intervention' AND what = 'rewind') OR (kind = 'migrated' AND verdict = 'undone' AND old_place != new_place) AS goes_back,
        -- the event at which the conversation went elsewhere: open visits are cut short there
        min(CASE WHEN kind IN ('scope_left', 'ended') OR goes_back THEN seq END)
            OVER (PARTITION BY session_id ORDER BY seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS elsewhere_seq
    FROM told
    WINDOW so_far AS (PARTITION BY session_id ORDER BY seq ROWS UNBOUNDED PRECEDING);
-- Going back puts the session at an action without an event of its entry, so the visit is added here. After a migration
-- this is not necessary: the current question continues, under its new name, or the topic starts again with events.
CREATE OR REPLACE TEMP TABLE put_back AS
    SELECT b.* REPLACE ('action_entered' AS kind, t.action_id AS action_id, t.action_type AS action_type,
        e.skill AS skill, e.interrupt AS interrupt, e.detector AS detector, t.phase_id AS phase_id, t.topic_id AS topic_id,
        {'kind': t.wait_kind} AS wait)
    FROM (FROM placed SEMI JOIN (FROM placed WHERE goes_back) USING (session_id, turn)
        QUALIFY row_number() OVER (PARTITION BY session_id, turn ORDER BY seq DESC) = 1) AS b  -- the last event of such a turn
    JOIN turns AS t ON t.session_id = b.session_id AND t.turn = b.turn AND t.action_id IS NOT NULL
    ASOF LEFT JOIN (FROM placed WHERE kind = 'action_entered') AS e
        ON e.session_id = t.session_id AND e.action_id = t.action_id AND e.seq <= b.seq;
-- A migration may give the current phase, topic and action other names. A visit has the names that it ends with, so that it
-- counts once. The migrations between which an action goes on have the same `chain`; `last_action_id` is its name after them.
CREATE OR REPLACE TEMP TABLE renamed AS
    SELECT session_id, seq, action_id, new_action_id, chain, last(new_action_id) OVER same AS last_action_id, last(seq) OVER same AS last_seq,
        last(turn) OVER same AS last_turn
    FROM (
        SELECT *, count(*) FILTER (begins) OVER (PARTITION BY session_id ORDER BY seq) AS chain FROM (
            SELECT m.*, (lag(m.new_action_id) OVER so_far IS DISTINCT FROM m.action_id OR e.seq > lag(m.seq) OVER so_far) AS begins
            FROM (
                SELECT session_id, seq, turn, string_split(old_place, '/')[3] AS action_id, string_split(new_place, '/')[3] AS new_action_id
                FROM placed WHERE kind = 'migrated' AND verdict = 'mapped' AND string_split(old_place, '/')[3] != string_split(new_place, '/')[3]
            ) AS m
            ASOF LEFT JOIN (FROM placed WHERE kind IN ('action_entered', 'action_left')) AS e
                ON e.session_id = m.session_id AND e.action_id = m.action_id AND e.seq < m.seq
            WINDOW so_far AS (PARTITION BY m.session_id ORDER BY m.seq)
        )
    )
    WINDOW same AS (PARTITION BY session_id, chain ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);
CREATE OR REPLACE TEMP TABLE paired AS
    SELECT p.* REPLACE (coalesce(p.renaming.last_action_id, p.action_id) AS action_id,
            coalesce(l.kind, p.next_kind) AS next_kind, coalesce(l.seq, p.next_seq) AS next_seq,
            coalesce(l.rounds, p.next_rounds) AS next_rounds, coalesce(l.turn, p.next_turn) AS next_turn,
            coalesce(l.recorded_at, p.next_at) AS next_at),
        p.action_id AS first_action_id, p.renaming.last_turn AS renamed_turn
    FROM (
        SELECT v.*, CASE WHEN r.seq < least(coalesce(v.next_seq, 2147483647), coalesce(v.elsewhere_seq, 2147483647)) THEN r END AS renaming
        FROM (
            SELECT *, lead(kind) OVER same AS next_kind, lead(seq) OVER same AS next_seq, lead(rounds) OVER same AS next_rounds,
                lead(turn) OVER same AS next_turn, lead(recorded_at) OVER same AS next_at
            FROM (FROM placed WHERE kind IN ('action_entered', 'action_left') UNION ALL FROM put_back)
            WINDOW same AS (PARTITION BY session_id, action_id, skill, interrupt, detector ORDER BY seq)
        ) AS v
        ASOF LEFT JOIN renamed AS r ON r.session_id = v.session_id AND r.action_id = v.action_id AND v.seq < r.seq
    ) AS p
    ASOF LEFT JOIN (SELECT session_id, action_id, kind, seq, rounds, turn, recorded_at FROM placed WHERE kind IN ('action_entered', 'action_left')) AS l
        ON l.session_id = p.session_id AND l.action_id = p.renaming.last_action_id AND p.renaming.last_seq < l.seq;

-- Of the actions around the current one, such as a call, only the end has the new name. Ends without an entry belong to visits
-- without an end, as brackets do.
CREATE OR REPLACE TEMP TABLE renamed_ends AS
    WITH mapped AS (SELECT session_id, seq, turn FROM placed WHERE kind = 'migrated' AND verdict = 'mapped'), nested AS (
        SELECT *, sum(if(is_end, -1, 1)) OVER (PARTITION BY session_id ORDER BY seq) + if(is_end, 1, 0) AS depth FROM (
            SELECT session_id, seq, elsewhere_seq, false AS is_end FROM paired SEMI JOIN mapped USING (session_id)
            WHERE kind = 'action_entered' AND next_kind IS DISTINCT FROM 'action_left'
            UNION ALL BY NAME
            SELECT session_id, seq, action_id, rounds, turn, recorded_at, true AS is_end FROM placed SEMI JOIN mapped USING (session_id)
            ANTI JOIN (SELECT session_id, next_seq AS seq FROM paired WHERE kind = 'action_entered' AND next_kind = 'action_left')
                USING (session_id, seq)
            WHERE kind = 'action_left'
        )
    )
    SELECT v.session_id, v.seq AS visit_seq, m.turn AS renamed_turn, l.seq, l.action_id, l.rounds, l.turn, l.recorded_at
    FROM (FROM nested WHERE is_end) AS l
    ASOF JOIN (FROM nested WHERE NOT is_end) AS v ON v.session_id = l.session_id AND v.depth = l.depth AND v.seq < l.seq
    ASOF JOIN mapped AS m ON m.session_id = l.session_id AND m.seq < l.seq
    WHERE v.seq < m.seq AND l.seq < coalesce(v.elsewhere_seq, 2147483647);
UPDATE paired SET action_id = r.action_id, next_kind = 'action_left', next_seq = r.seq, next_rounds = r.rounds, next_turn = r.turn,
        next_at = r.recorded_at, renamed_turn = r.renamed_turn
    FROM renamed_ends AS r WHERE r.session_id = paired.session_id AND r.visit_seq = paired.seq AND paired.kind = 'action_entered';

CREATE OR REPLACE TEMP TABLE moved AS
    SELECT session_id, seq, turn, verdict, phase_id, topic_id FROM placed
    WHERE kind = 'migrated' AND string_split(old_place, '/')[:2] != string_split(new_place, '/')[:2];
DELETE FROM action_visits USING touched AS t WHERE action_visits.session_id = t.session_id;
CREATE OR REPLACE TEMP TABLE new_visits AS
    SELECT v.* REPLACE (if(m.seq > v.seq, m.phase_id, v.phase_id) AS phase_id, if(m.seq > v.seq, m.topic_id, v.topic_id) AS topic_id),
        greatest(v.entered_turn, if(m.seq > v.seq, m.turn, NULL), v.renamed_turn) AS named_turn
    FROM (
        SELECT v.session_id, v.phase_id, v.topic_id, v.action_id, v.action_type, v.skill, v.interrupt, v.detector, v.seq,
            v.turn AS entered_turn, v.recorded_at AS entered_at,
            CASE WHEN v.next_kind = 'action_left' THEN 'done' WHEN e.seq IS NOT NULL THEN 'cut_short' ELSE 'open' END AS outcome,
            CASE WHEN v.next_kind = 'action_left' THEN v.next_seq ELSE e.seq END AS left_seq,
            CASE WHEN v.next_kind = 'action_left' THEN v.next_turn ELSE e.turn END AS left_turn,
            CASE WHEN v.next_kind = 'action_left' THEN v.next_at ELSE e.recorded_at END AS left_at,
            CASE WHEN v.next_kind = 'action_left' THEN v.next_rounds END AS rounds, v.first_action_id, v.renaming, v.renamed_turn
        FROM paired AS v
        LEFT JOIN placed AS e ON e.session_id = v.session_id
            AND e.seq = CASE WHEN v.next_kind = 'action_entered' THEN least(v.next_seq, v.elsewhere_seq) ELSE v.elsewhere_seq END
            AND v.next_kind IS DISTINCT FROM 'action_left'
        WHERE v.kind = 'action_entered'
        UNION ALL BY NAME
        SELECT session_id, phase_id, topic_id, action_id, action_type, skill, interrupt, detector, seq, turn AS entered_turn,
            recorded_at AS entered_at, 'skipped' AS outcome, seq AS left_seq, turn AS left_turn, recorded_at AS left_at, 0 AS rounds
        FROM placed WHERE kind = 'action_skipped'
    ) AS v
    -- a topic that starts again leaves an action that its new version may not have
    ASOF LEFT JOIN (FROM moved WHERE verdict != 'restart_topic') AS m ON m.session_id = v.session_id AND m.seq < coalesce(v.left_seq, 2147483647);

-- Visits of phases and topics: a session is in one at a time, so the next visit ends the one before.
DELETE FROM scope_visits USING touched AS t WHERE scope_visits.session_id = t.session_id;
INSERT INTO scope_visits BY NAME
    SELECT v.session_id, t.user_id, t.script_id, t.script_version, t.digest, v.scope, v.phase_id, v.topic_id, v.seq,
        CASE WHEN v.is_skipped THEN 0
            ELSE row_number() OVER (PARTITION BY v.session_id, v.scope, v.phase_id, v.topic_id, v.is_skipped ORDER BY v.seq) END AS visit,
        v.turn AS entered_turn, v.recorded_at AS entered_at, CASE WHEN v.is_skipped THEN v.seq ELSE v.next_seq END AS left_seq,
        CASE WHEN v.is_skipped THEN v.turn ELSE v.next_turn END AS left_turn,
        CASE WHEN v.is_skipped THEN v.recorded_at ELSE v.next_at END AS left_at, epoch_us(left_at - v.recorded_at) / 1e6 AS seconds,
        CASE WHEN v.is_skipped THEN 'skipped' WHEN v.next_seq IS NULL THEN 'open' ELSE 'left' END AS outcome
    FROM (
        SELECT p.* REPLACE (if(m.seq > p.seq, m.phase_id, p.phase_id) AS phase_id,
                if(m.seq > p.seq AND p.scope = 'topic', m.topic_id, p.topic_id) AS topic_id),
            if(m.seq > p.seq, m.turn, p.turn) AS named_turn
        FROM (
            SELECT session_id, kind, scope, CASE WHEN scope = 'phase' THEN id ELSE phase_id END AS phase_id,
                CASE WHEN scope = 'topic' THEN id END AS topic_id, seq, turn, recorded_at, kind = 'scope_skipped' AS is_skipped,
                lead(seq) OVER following AS next_seq, lead(turn) OVER following AS next_turn, lead(recorded_at) OVER following AS next_at
            FROM placed WHERE kind IN ('scope_entered', 'scope_left', 'scope_skipped')
            WINDOW following AS (PARTITION BY session_id, scope, kind = 'scope_skipped' ORDER BY seq)
        ) AS p
        ASOF LEFT JOIN moved AS m ON m.session_id = p.session_id AND m.seq < if(p.is_skipped, p.seq, coalesce(p.next_seq, 2147483647))
    ) AS v
    JOIN turns AS t ON t.session_id = v.session_id AND t.turn = v.named_turn
    WHERE v.kind != 'scope_left';

-- 2. Waits, each with its reply: the next turn with a message of the user, unless another wait came before it. Messages that an
-- application appended are no replies, nor those to a person who has taken the session over.
CREATE OR REPLACE TEMP TABLE replies AS
    SELECT m.session_id, m.turn
    FROM (SELECT DISTINCT session_id, turn FROM messages SEMI JOIN touched USING (session_id) WHERE role = 'user') AS m
    ANTI JOIN (FROM placed WHERE kind = 'intervention' AND what = 'append') AS a ON a.session_id = m.session_id AND a.turn = m.turn
    ASOF LEFT JOIN (FROM placed WHERE kind = 'intervention' AND what IN ('take_over', 'give_back')) AS h
        ON h.session_id = m.session_id AND h.turn <= m.turn
    WHERE h.what IS DISTINCT FROM 'take_over';
CREATE OR REPLACE TEMP TABLE visits_by_name AS
    SELECT * REPLACE (first_action_id AS action_id), action_id AS last_action_id, seq AS named_seq FROM new_visits WHERE outcome != 'skipped'
    UNION ALL BY NAME
    SELECT v.* REPLACE (r.new_action_id AS action_id), v.action_id AS last_action_id, r.seq AS named_seq FROM new_visits AS v
        JOIN renamed AS r ON r.session_id = v.session_id AND r.chain = v.renaming.chain AND r.seq >= v.renaming.seq;
-- A form that is displayed again because one of its values has changed is not a repeated question.
CREATE OR REPLACE TEMP TABLE redrawn AS SELECT DISTINCT session_id, turn FROM placed
    WHERE (kind = 'migrated' AND verdict != 'restart_topic') OR (kind = 'intervention' AND what = 'set_variables');
CREATE OR REPLACE TEMP TABLE new_waits AS
    SELECT w.session_id, w.seq, w.turn, coalesce(v.phase_id, w.phase_id) AS phase_id, coalesce(v.topic_id, w.topic_id) AS topic_id,
        coalesce(v.last_action_id, w.action_id) AS action_id, w.wait.kind AS kind, w.recorded_at AS asked_at,
        v.seq AS visit_seq, v.action_type,
        lead(w.turn) OVER (PARTITION BY w.session_id ORDER BY w.seq) AS next_wait
    FROM (FROM placed ANTI JOIN redrawn USING (session_id, turn) WHERE kind = 'wait'
        UNION ALL FROM put_back WHERE wait.kind IS NOT NULL) AS w
    ASOF LEFT JOIN visits_by_name AS v ON v.session_id = w.session_id AND v.action_id = w.action_id AND v.named_seq <= w.seq;
CREATE OR REPLACE TEMP TABLE answered_waits AS
    SELECT w.*, CASE WHEN w.next_wait IS NULL OR r.turn <= w.next_wait THEN r.turn END AS answered_turn,
        row_number() OVER (PARTITION BY w.session_id, w.visit_seq ORDER BY w.seq) AS round
    FROM new_waits AS w ASOF LEFT JOIN replies AS r ON r.session_id = w.session_id AND r.turn > w.turn;
DELETE FROM waits USING touched AS t WHERE waits.session_id = t.session_id;
INSERT INTO waits BY NAME
    SELECT w.session_id, t.user_id, t.script_id, t.script_version, w.turn, w.answered_turn, w.phase_id, w.topic_id, w.action_id,
        w.action_type, w.kind, w.round, w.asked_at, a.started_at AS answered_at,
        epoch_us(a.started_at - w.asked_at) / 1e6 AS seconds,
        CASE WHEN w.answered_turn IS NOT NULL THEN 'answered'
            WHEN w.next_wait IS NULL AND last.status IN ('active', 'paused') THEN 'open' ELSE 'ended' END AS outcome
    FROM answered_waits AS w
    JOIN turns AS t ON t.session_id = w.session_id AND t.turn = w.turn
    LEFT JOIN turns AS a ON a.session_id = w.session_id AND a.turn = w.answered_turn
    JOIN (SELECT session_id, arg_max(status, turn) AS status FROM turns SEMI JOIN touched USING (session_id) GROUP BY session_id) AS last
        ON last.session_id = w.session_id;

INSERT INTO action_visits BY NAME
    SELECT v.session_id, t.user_id, t.script_id, t.script_version, t.digest,
        v.visit, v.phase_id, v.topic_id, v.action_id,
        v.action_type, v.skill, v.interrupt, v.detector, v.seq, v.entered_turn, v.entered_at, v.left_seq, v.left_turn, v.left_at,
        epoch_us(v.left_at - v.entered_at) / 1e6 AS seconds,
        coalesce(v.rounds, w.rounds, 0) AS rounds, v.outcome, x.source AS exit_source, unmasked(x.reason) AS exit_reason
    FROM (
        SELECT *, CASE WHEN outcome = 'skipped' THEN 0 ELSE row_number() OVER (PARTITION BY session_id, phase_id, topic_id, action_id,
            skill, interrupt, detector, outcome = 'skipped' ORDER BY seq) END AS visit
        FROM new_visits
    ) AS v
    JOIN turns AS t ON t.session_id = v.session_id AND t.turn = v.named_turn
    LEFT JOIN (SELECT session_id, visit_seq, count(answered_turn)::INTEGER AS rounds FROM answered_waits GROUP BY ALL) AS w
        ON w.session_id = v.session_id AND w.visit_seq = v.seq
    LEFT JOIN (SELECT session_id, action_id, seq, source, reason FROM placed WHERE kind = 'exit') AS x
        ON x.session_id = v.session_id AND x.action_id = v.action_id AND x.seq > v.seq AND x.seq < v.left_seq
    QUALIFY row_number() OVER (PARTITION BY v.session_id, v.seq ORDER BY x.seq DESC) = 1;

-- 3. Messages that a rewind or clear removed from the conversation.
UPDATE messages SET is_taken_back = len(list_filter(gaps, lambda gap: seq BETWEEN gap[1] AND gap[2])) > 0
    FROM (SELECT session_id, arg_max(from_json(gaps, '[["INTEGER"]]'), turn) AS gaps FROM delta_turns WHERE gaps IS NOT NULL
        GROUP BY session_id) AS changed
    WHERE messages.session_id = changed.session_id;

-- 4. Detectors and experiments.
DELETE FROM detections USING touched AS t WHERE detections.session_id = t.session_id;
INSERT INTO detections BY NAME
    SELECT d.session_id, t.user_id, t.script_id, t.script_version, d.turn, d.seq, d.id AS detector, d.label, d.score, d.severity,
        d.by AS seen_by, d.message::INTEGER AS message, d.recorded_at AS detected_at
    FROM (SELECT * REPLACE (detector AS id) FROM placed WHERE kind = 'detected') AS d
    JOIN turns AS t ON t.session_id = d.session_id AND t.turn = d.turn;
DELETE FROM exposures USING touched AS t WHERE exposures.session_id = t.session_id;
INSERT INTO exposures BY NAME
    SELECT d.session_id, t.user_id, t.script_id, t.script_version, d.experiment, d.arm, d.turn, d.seq,
        nullif(d.action_id, '') AS action_id, coalesce(d.by, 'user') AS unit, d.recorded_at AS exposed_at
    FROM placed AS d JOIN turns AS t ON t.session_id = d.session_id AND t.turn = d.turn WHERE d.kind = 'exposed';
DELETE FROM milestones USING touched AS t WHERE milestones.session_id = t.session_id;
INSERT INTO milestones BY NAME
    SELECT d.session_id, t.user_id, t.script_id, t.script_version, d.name AS milestone, d.turn, d.seq, d.phase_id, d.topic_id,
        nullif(d.action_id, '') AS action_id, d.recorded_at AS reached_at
    FROM placed AS d JOIN turns AS t ON t.session_id = d.session_id AND t.turn = d.turn WHERE d.kind = 'milestone';

-- 5. Sessions.
DELETE FROM sessions USING touched AS t WHERE sessions.session_id = t.session_id;
CREATE OR REPLACE TEMP TABLE lasts AS
    SELECT session_id, max(turn) AS turn, coalesce(max(turn) FILTER (status != 'completed') + 1, 0) AS ended_turn,
        sum(messages)::INTEGER AS message_count, sum(events)::INTEGER AS event_count
    FROM turns SEMI JOIN touched USING (session_id) GROUP BY session_id;
INSERT INTO sessions BY NAME
    SELECT s.session_id, s.user_id, 0 AS number, s.key, coalesce(m.script_uuid, s.script_uuid) AS script_uuid, t.script_id,
        t.script_version, t.digest, s.script_version AS first_version, s.locale, s.metadata, s.forked_from, s.created_at,
        greatest(t.finished_at, s.created_at) AS updated_at,
        CASE WHEN t.status = 'completed' THEN greatest(d.finished_at, s.created_at) END AS completed_at,
        epoch_us(updated_at - s.created_at) / 1e6 AS seconds, t.status,
        CASE WHEN f.session_id IS NULL THEN t.execution_status ELSE 'error' END AS execution_status, 
        e.last.reason AS end_reason, e.last.outcome AS outcome, e.last.ended_by AS ended_by, e.last.action_id AS end_action_id,
        t.phase_id, t.topic_id, t.action_id, t.action_type, t.wait_kind, t.turn, l.message_count,
        coalesce(u.user_messages, 0) AS user_messages, l.event_count, s.is_redacted
    FROM internal.starts AS s SEMI JOIN touched USING (session_id)
    JOIN lasts AS l USING (session_id)
    JOIN turns AS t ON t.session_id = s.session_id AND t.turn = l.turn
    LEFT JOIN turns AS d ON d.session_id = s.session_id AND d.turn = l.ended_turn -- a person may give it back after its end
    LEFT JOIN (SELECT session_id, arg_max(script_uuid, turn) AS script_uuid FROM moves GROUP BY session_id) AS m ON m.session_id = s.session_id
    LEFT JOIN (SELECT session_id, arg_max({'reason': reason, 'outcome': outcome, 'ended_by': ended_by, 'action_id': action_id}, seq) AS last
        FROM internal.ends SEMI JOIN touched USING (session_id) GROUP BY session_id) AS e
        ON e.session_id = s.session_id AND t.status = 'completed'
    LEFT JOIN (SELECT session_id, count(*)::INTEGER AS user_messages FROM messages SEMI JOIN touched USING (session_id)
        WHERE role = 'user' GROUP BY session_id) AS u ON u.session_id = s.session_id
    LEFT JOIN (SELECT DISTINCT session_id, turn_attempted - 1 AS turn FROM failed_turns) AS f ON f.session_id = s.session_id AND f.turn = t.turn;
UPDATE sessions SET number = n.number FROM (
        SELECT session_id, row_number() OVER (PARTITION BY user_id ORDER BY created_at, session_id)::INTEGER AS number FROM sessions
    ) AS n WHERE n.session_id = sessions.session_id AND n.number != sessions.number;

-- 6. Variables that have a value: the last write, unless its scope was left since. Variables of skills are not included.
-- The current phase and topic may have had other names when a variable was written.
CREATE OR REPLACE TEMP TABLE renamed_writes AS
    SELECT h.session_id, h.seq, v.phase_id, v.topic_id
    FROM (FROM variable_history SEMI JOIN moved USING (session_id) WHERE scope IN ('phase', 'topic')) AS h
    ASOF JOIN placed AS p ON p.session_id = h.session_id AND p.seq <= h.seq
    JOIN (FROM scope_visits WHERE outcome = 'open') AS v ON v.session_id = h.session_id AND v.scope = h.scope AND v.seq <= h.seq
    WHERE h.phase_id = p.phase_id AND (h.scope = 'phase' OR h.topic_id = p.topic_id);
DELETE FROM variables_current USING touched AS t WHERE variables_current.session_id = t.session_id;
DELETE FROM variables_current WHERE session_id IS NULL;
INSERT INTO variables_current BY NAME
    SELECT w.session_id, w.user_id, w.scope, CASE WHEN w.scope != 'session' THEN w.phase_id END AS phase_id,
        CASE WHEN w.scope = 'topic' THEN w.topic_id END AS topic_id, w.name, w.type, w.new AS value, w.new_text AS value_text,
        w.new_number AS value_number, w.source, w.turn, w.written_at, w.is_pii
    FROM (
        SELECT h.* REPLACE (coalesce(r.phase_id, h.phase_id) AS phase_id, coalesce(r.topic_id, h.topic_id) AS topic_id)
        FROM variable_history AS h SEMI JOIN touched USING (session_id) LEFT JOIN renamed_writes AS r ON r.session_id = h.session_id AND r.seq = h.seq
        WHERE scope != 'global'
        QUALIFY row_number() OVER (PARTITION BY h.session_id, scope, CASE WHEN scope != 'session' THEN coalesce(r.phase_id, h.phase_id) END,
            CASE WHEN scope = 'topic' THEN coalesce(r.topic_id, h.topic_id) END, name ORDER BY turn DESC, h.seq DESC) = 1
    ) AS w
    JOIN sessions AS s ON s.session_id = w.session_id
    LEFT JOIN (SELECT session_id, scope, id, max(seq) AS seq FROM placed WHERE kind = 'scope_left' GROUP BY ALL) AS x
        ON x.session_id = w.session_id AND x.scope = w.scope AND x.id = CASE w.scope WHEN 'phase' THEN w.phase_id ELSE w.topic_id END
    WHERE w.type != 'null' AND CASE w.scope WHEN 'session' THEN true WHEN 'phase' THEN w.phase_id = s.phase_id AND coalesce(x.seq, 0) < w.seq
        ELSE w.phase_id = s.phase_id AND w.topic_id = s.topic_id AND coalesce(x.seq, 0) < w.seq END;
INSERT INTO variables_current BY NAME
    SELECT who(user_id) AS user_id, 'global' AS scope, name, type, CASE WHEN NOT hidden THEN value::JSON END AS value,
        CASE WHEN NOT hidden THEN as_text(value) END AS value_text, CASE WHEN NOT hidden THEN as_number(value) END AS value_number,
        source, updated_at AS written_at, is_pii
    FROM (SELECT *, is_personal('global', name, NULL) AS is_pii, is_hidden(is_pii, type, value) AS hidden
        FROM delta_globals);

-- 7. Calls of models: of sessions with new turns, of turns that are not committed, and for memories. The delta of a session
-- with only another key, other metadata or a failed turn does not contain its calls, so these are not deleted.
DELETE FROM llm_calls USING (SELECT session_id FROM delta_turns UNION FROM delta_gone) AS t WHERE llm_calls.session_id = t.session_id;
DELETE FROM llm_calls WHERE session_id IS NULL OR used IS NULL;
INSERT INTO llm_calls BY NAME
    SELECT * EXCLUDE (parameters, reply, failures, withheld), parameters::JSON AS parameters, reply::JSON AS reply FROM shown_calls;

-- 8. Users.
DELETE FROM users;
INSERT INTO users BY NAME
    SELECT user_id, min(created_at) AS first_seen_at, max(updated_at) AS last_seen_at, count(session_id)::INTEGER AS sessions,
        count(completed_at)::INTEGER AS completed_sessions, coalesce(sum(turn + 1), 0)::BIGINT AS turns,
        coalesce(sum(user_messages), 0)::BIGINT AS user_messages
    FROM (SELECT user_id, session_id, created_at, updated_at, completed_at, turn, user_messages FROM sessions
        UNION ALL BY NAME SELECT DISTINCT user_id FROM variables_current WHERE session_id IS NULL)
    GROUP BY user_id;

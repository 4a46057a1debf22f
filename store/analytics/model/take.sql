-- Insert the rows of a delta: convert the JSON of the database to native columns, and mask them in a masked file. This runs
-- in one transaction. It is idempotent: rows that the delta contains are deleted first.

CREATE OR REPLACE TEMP MACRO who(id) AS
    CASE WHEN getvariable('is_masked') THEN 'u_' || left(sha256(getvariable('salt') || id), 16) ELSE id END;
CREATE OR REPLACE TEMP MACRO unmasked(word) AS CASE WHEN getvariable('is_masked') THEN NULL ELSE word END;
-- Mask ids that an application chose, since they may be names of persons; ids of sessions and messages and random ids are not.
CREATE OR REPLACE TEMP MACRO named(id) AS CASE WHEN getvariable('is_masked')
    AND NOT regexp_full_match(id, '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:[0-9]+)?') AND id != 'notes'
    THEN 'm_' || left(sha256(getvariable('salt') || id), 16) ELSE id END;
-- A value as text: a text without quotes, all other values as JSON.
CREATE OR REPLACE TEMP MACRO as_text(value) AS nullif(value::JSON, 'null'::JSON) ->> '$';
CREATE OR REPLACE TEMP MACRO as_number(value) AS
    CASE WHEN json_type(value::JSON) IN ('UBIGINT', 'BIGINT', 'DOUBLE', 'HUGEINT') THEN try_cast(value AS DOUBLE) END;

CREATE OR REPLACE TEMP TABLE touched AS
    SELECT DISTINCT session_id FROM delta_turns UNION SELECT session_id FROM delta_starts UNION FROM delta_gone
    UNION SELECT session_id FROM delta_failures ANTI JOIN failed_turns USING (session_id, turn_attempted, failed_at);
CREATE OR REPLACE TEMP TABLE first_turns AS SELECT session_id, min(turn) AS first FROM delta_turns GROUP BY session_id;

-- Delete sessions that no longer exist, and turns that the delta contains again.
DELETE FROM turns USING delta_gone AS g WHERE turns.session_id = g.session_id;
DELETE FROM messages USING delta_gone AS g WHERE messages.session_id = g.session_id;
DELETE FROM events USING delta_gone AS g WHERE events.session_id = g.session_id;
DELETE FROM variable_history USING delta_gone AS g WHERE variable_history.session_id = g.session_id;
DELETE FROM internal.ends USING delta_gone AS g WHERE internal.ends.session_id = g.session_id;
DELETE FROM internal.starts USING delta_gone AS g WHERE internal.starts.session_id = g.session_id;
CREATE OR REPLACE TEMP TABLE again AS FROM first_turns SEMI JOIN turns ON turns.session_id = first_turns.session_id AND turns.turn >= first;
DELETE FROM turns USING again AS a WHERE turns.session_id = a.session_id AND turn >= first;
DELETE FROM messages USING again AS a WHERE messages.session_id = a.session_id AND turn >= first;
DELETE FROM events USING again AS a WHERE events.session_id = a.session_id AND turn >= first;
DELETE FROM variable_history USING again AS a WHERE variable_history.session_id = a.session_id AND turn >= first;
DELETE FROM internal.ends USING again AS a WHERE internal.ends.session_id = a.session_id AND turn >= first;

-- Small tables are replaced as a whole.
DELETE FROM scripts;
INSERT INTO scripts BY NAME FROM delta_scripts;
INSERT INTO script_actions BY NAME FROM delta_actions ANTI JOIN internal.outlines USING (digest);
INSERT INTO script_variables BY NAME FROM delta_variables ANTI JOIN internal.outlines USING (digest);
INSERT INTO script_arms BY NAME FROM delta_arms ANTI JOIN internal.outlines USING (digest);
INSERT INTO internal.labels BY NAME FROM delta_labels ANTI JOIN internal.outlines USING (digest);
INSERT INTO internal.end_reasons BY NAME FROM delta_end_reasons ANTI JOIN internal.outlines USING (digest);
INSERT INTO script_milestones BY NAME FROM delta_milestones ANTI JOIN internal.outlines USING (digest);
INSERT INTO internal.outlines FROM delta_outlines ANTI JOIN internal.outlines USING (digest);
DELETE FROM ratings;
INSERT INTO ratings BY NAME
    SELECT review_id, review, session_id, turn, who(rater) AS rater, question, kind,
        CASE WHEN kind != 'text' THEN as_text(answer) END AS answer, as_number(answer) AS number,
        CASE WHEN kind = 'text' THEN unmasked(as_text(answer)) END AS text, rated_at
    FROM delta_ratings;
DELETE FROM failed_turns;
INSERT INTO failed_turns BY NAME
    SELECT session_id, turn_attempted, code, message, phase_id, topic_id, action_id, failed_at FROM shown_failures;
DELETE FROM session_migrations;
INSERT INTO session_migrations BY NAME
    SELECT session_id, turn, kind, verdict, from_version, script_version AS to_version, script_id, migrated_at FROM delta_migrations;
CREATE OR REPLACE TEMP TABLE moves AS SELECT session_id, turn, script_uuid, script_id, script_version, digest FROM delta_migrations;

DELETE FROM internal.starts USING delta_starts AS s WHERE internal.starts.session_id = s.session_id;
INSERT INTO internal.starts BY NAME
    SELECT session_id, who(user_id) AS user_id, unmasked(key) AS key, script_uuid, script_id, script_version, digest, locale,
        unmasked(metadata::VARCHAR)::JSON AS metadata, try_cast(metadata::JSON ->> '$.forkedFrom.sessionId' AS UUID) AS forked_from,
        created_at, redacted_at IS NOT NULL AS is_redacted
    FROM delta_starts;

INSERT INTO turns BY NAME
    SELECT t.session_id, who(t.user_id) AS user_id, t.turn, coalesce(m.script_id, s.script_id) AS script_id,
        coalesce(m.script_version, s.script_version) AS script_version, coalesce(m.digest, s.digest) AS digest,
        t.started_at, t.finished_at, epoch_us(t.finished_at - t.started_at) / 1e6 AS seconds, t.status, t.execution_status,
        t.phase_id, t.topic_id, t.action_id, t.action_type, t.wait_kind, json_array_length(t.messages) AS messages,
        json_array_length(t.variables) AS writes, json_array_length(t.events) AS events
    FROM delta_turns AS t JOIN internal.starts AS s USING (session_id)
    ASOF LEFT JOIN moves AS m ON m.session_id = t.session_id AND m.turn <= t.turn;

INSERT INTO messages BY NAME
    SELECT session_id, user_id, turn, seq, message_id, role, CASE WHEN characters IS NULL THEN unmasked(content) END AS content,
        coalesce(characters, length(content)) AS characters,
        action_id, false AS is_taken_back, unmasked(metadata::VARCHAR)::JSON AS metadata, created_at
    FROM (
        SELECT session_id, who(user_id) AS user_id, turn, unnest(from_json(messages, '[{"seq": "INTEGER", "message_id": "VARCHAR",
            "role": "VARCHAR", "content": "VARCHAR", "action_id": "VARCHAR", "metadata": "JSON", "created_at": "TIMESTAMPTZ",
            "characters": "INTEGER"}]'), max_depth := 2)
        FROM delta_turns
    );

CREATE OR REPLACE TEMP TABLE new_events AS
    SELECT session_id, who(user_id) AS user_id, turn, finished_at AS recorded_at,
        unnest(from_json(events, '[{"seq": "INTEGER", "kind": "VARCHAR", "data": "JSON"}]'), max_depth := 2)
    FROM delta_turns;
SET VARIABLE labels = (SELECT coalesce(list(DISTINCT label), []) FROM internal.labels);
-- A model may invent a label, which may quote the user: then the label is replaced by the name of the detector.
CREATE OR REPLACE TEMP MACRO named_things(kind, data) AS
    CASE WHEN kind = 'detected' AND data ->> '$.by' = 'model' AND NOT list_contains(getvariable('labels'), data ->> '$.label')
        THEN json_merge_patch(data, json_object('label', data -> '$.detector'))
    WHEN kind = 'recalled' AND json_type(data, '$.units') = 'ARRAY' THEN json_merge_patch(data, json_object('units',
        list_transform(json_extract(data, '$.units[*]'),
            lambda each: json_merge_patch(each, json_object('unit_id', named(each ->> '$.unit_id')))))) ELSE data END;
INSERT INTO events BY NAME
    SELECT session_id, user_id, turn, seq, kind, data ->> '$.action_id' AS action_id,
        CASE WHEN getvariable('is_masked') THEN kept_data(kind, named_things(kind, data)) ELSE data END AS data, recorded_at
    FROM new_events;

-- How conversations ended. A masked file contains only reasons that are in a script, since an application may use any text
-- as a reason. Older versions did not record `by` and `outcome`: then they follow from the other events of the turn and the reasons of the
-- runtime, which retention may have removed.
SET VARIABLE end_reasons = (SELECT coalesce(list(DISTINCT reason), []) FROM internal.end_reasons);
INSERT INTO internal.ends BY NAME
    SELECT e.session_id, e.turn, e.seq,
        coalesce(e.data ->> '$.by', CASE WHEN a.session_id IS NOT NULL THEN 'application' WHEN x.session_id IS NOT NULL THEN 'end_action'
            WHEN e.reason = '' THEN 'script' WHEN e.reason = 'the user ended it' THEN 'user'
            WHEN regexp_matches(e.reason, '^no (valid )?answer to ') THEN 'rounds' END) AS ended_by,
        CASE WHEN json_exists(e.data, '$.by') THEN nullif(e.data ->> '$.action_id', '') WHEN a.session_id IS NULL
            THEN coalesce(x.action_id, nullif(regexp_extract(e.reason, '^no (?:valid )?answer to (.+)$', 1), '')) END AS action_id,
        CASE WHEN NOT getvariable('is_masked') OR list_contains(getvariable('end_reasons'), e.reason) THEN nullif(e.reason, '') END AS reason,
        coalesce(nullif(e.data ->> '$.outcome', ''), CASE WHEN ended_by = 'script' THEN 'completed' END) AS outcome
    FROM (SELECT *, data ->> '$.reason' AS reason FROM new_events WHERE kind = 'ended') AS e
    LEFT JOIN (SELECT DISTINCT session_id, turn FROM new_events WHERE kind = 'intervention' AND data ->> '$.what' = 'end') AS a
        ON a.session_id = e.session_id AND a.turn = e.turn
    ASOF LEFT JOIN (SELECT session_id, turn, seq, data ->> '$.action_id' AS action_id FROM new_events
        WHERE kind = 'action_entered' AND data ->> '$.action_type' = 'end') AS x
        ON x.session_id = e.session_id AND x.turn = e.turn AND x.seq <= e.seq;

-- Names of personal variables, in any scope: a name with two meanings in a script is masked in both. A script that can no
-- longer be read has a row with the name *, since it is unknown which variables it marks.
CREATE OR REPLACE TEMP TABLE personal AS SELECT digest, list(DISTINCT name) AS names FROM script_variables WHERE is_pii GROUP BY digest;
SET VARIABLE personal_everywhere = (SELECT coalesce(list(DISTINCT name), []) FROM script_variables WHERE is_pii);
CREATE OR REPLACE TEMP MACRO is_personal(scope, name, names) AS
    list_has_any(CASE WHEN scope = 'global' THEN getvariable('personal_everywhere') ELSE coalesce(names, []) END, [name, '*']);
-- Texts, lists and records may contain what a user wrote, so they are masked; choices, numbers and dates are not.
CREATE OR REPLACE TEMP MACRO is_hidden(is_pii, type, value) AS getvariable('is_masked') AND (is_pii OR CASE json_type(value::JSON)
    WHEN 'VARCHAR' THEN type NOT IN ('choice', 'date', 'time', 'datetime') WHEN 'ARRAY' THEN true WHEN 'OBJECT' THEN true ELSE false END);
CREATE OR REPLACE TEMP TABLE new_writes AS
    SELECT w.*, e.seq FROM (
        SELECT session_id, who(user_id) AS user_id, turn, finished_at AS written_at,
            generate_subscripts(from_json(variables, '["JSON"]'), 1) - 1 AS place, unnest(from_json(variables, '[{"scope": "VARCHAR",
            "name": "VARCHAR", "old": "JSON", "new": "JSON", "type": "VARCHAR", "action_id": "VARCHAR", "source": "VARCHAR",
            "phase_id": "VARCHAR", "topic_id": "VARCHAR"}]'), max_depth := 2)
        FROM delta_turns
    ) AS w
    LEFT JOIN (SELECT session_id, turn, seq, (data ->> '$.variable')::INT AS place FROM new_events WHERE kind = 'variable') AS e
        USING (session_id, turn, place)
    UNION ALL BY NAME
    SELECT who(user_id) AS user_id, written_at, 'global' AS scope, name, old, new, type, source FROM delta_global_writes;
DELETE FROM variable_history WHERE session_id IS NULL;
INSERT INTO variable_history BY NAME
    SELECT session_id, user_id, turn, seq, written_at, scope, phase_id, topic_id, name, type,
        old, new, as_text(old) AS old_text, as_text(new) AS new_text, as_number(old) AS old_number, as_number(new) AS new_number,
        source, action_id, is_pii
    FROM (
        SELECT * REPLACE (
            CASE WHEN NOT is_hidden(is_pii, type, old) THEN old END AS old, CASE WHEN NOT is_hidden(is_pii, type, new) THEN new END AS new
        ) FROM (
            SELECT w.*, is_personal(scope, name, p.names) AS is_pii
            FROM new_writes AS w
            LEFT JOIN (SELECT session_id, turn, digest FROM turns SEMI JOIN delta_turns USING (session_id)) USING (session_id, turn)
            LEFT JOIN personal AS p USING (digest)
        )
    );

-- Values that were written before their name was marked as personal are masked now: the mark may come from another version
-- of the session's script or, for a global variable, from any script.
UPDATE variable_history SET is_pii = true, old = unmasked(old::VARCHAR)::JSON, new = unmasked(new::VARCHAR)::JSON, old_text = unmasked(old_text),
    new_text = unmasked(new_text), old_number = unmasked(old_number), new_number = unmasked(new_number)
    FROM (
        SELECT session_id, flatten(list(names)) AS names
        FROM (SELECT DISTINCT session_id, digest FROM turns SEMI JOIN touched USING (session_id)) JOIN personal USING (digest)
        GROUP BY session_id
    ) AS marked
    WHERE variable_history.session_id = marked.session_id AND NOT is_pii AND scope != 'global' AND list_has_any(marked.names, [name, '*']);
UPDATE variable_history SET is_pii = true, old = unmasked(old::VARCHAR)::JSON, new = unmasked(new::VARCHAR)::JSON, old_text = unmasked(old_text),
    new_text = unmasked(new_text), old_number = unmasked(old_number), new_number = unmasked(new_number)
    WHERE scope = 'global' AND NOT is_pii AND is_personal('global', name, NULL);

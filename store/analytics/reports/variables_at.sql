-- The variables of a session after a turn, including those of its user; without a turn, after its latest.
-- They are computed from the writes: the last write of a name counts, unless the phase or topic of the write has been left since,
-- or the write unset the variable. A rewind is stored as leaving, entering and writing, so it needs no special rule.
-- In a running skill, interrupt or detector, the writes since the session last acted outside it count.
-- A user's variables have the values that all sessions and the application had set by the time the turn finished.
CREATE OR REPLACE MACRO variables_at(session, turn := NULL) AS TABLE
WITH stood AS MATERIALIZED (FROM session_at(session, turn)),
visits AS MATERIALIZED (
    SELECT v.seq, coalesce(v.skill, v.interrupt, v.detector) AS within, v.left_turn IS NULL OR v.left_turn > s.turn AS is_open
    FROM action_visits AS v JOIN stood AS s USING (session_id) WHERE v.entered_turn <= s.turn AND v.outcome != 'skipped'
), writes AS (
    SELECT h.scope, h.name, h.type, h.new, h.new_text, h.new_number, h.source, h.session_id, h.turn, h.seq, h.written_at, h.is_pii,
        CASE WHEN h.scope = 'phase' OR h.scope = 'topic' THEN s.phase_id END AS phase_id,
        -- a later version may have renamed the topic, so only writes of other topics have their own name
        CASE WHEN h.scope = 'topic' THEN CASE WHEN h.topic_id IN (SELECT within FROM visits) THEN h.topic_id ELSE s.topic_id END END AS topic_id,
        h.scope = 'topic' AND h.topic_id IN (SELECT within FROM visits) AS is_within
    FROM variable_history AS h JOIN stood AS s
        ON CASE WHEN h.scope = 'global' THEN h.user_id = s.user_id AND (h.written_at <= s.finished_at OR h.session_id = s.session_id)
            ELSE h.session_id = s.session_id END
    WHERE h.session_id IS DISTINCT FROM s.session_id OR h.turn <= s.turn
), lasts AS (
    SELECT r.* FROM writes AS r QUALIFY row_number() OVER (
        PARTITION BY r.scope, r.name, r.topic_id
        ORDER BY CASE WHEN r.scope = 'global' THEN r.written_at END DESC, r.turn DESC NULLS FIRST, r.seq DESC
    ) = 1
), ended AS (
    SELECT v.scope, max(v.left_seq) AS seq FROM scope_visits AS v JOIN stood AS s USING (session_id)
    WHERE v.left_turn <= s.turn AND v.outcome != 'skipped' GROUP BY v.scope
)
SELECT w.scope, w.phase_id, w.topic_id, w.name, w.type, w.new AS value, w.new_text AS value_text, w.new_number AS value_number,
    w.source, w.turn, w.written_at, w.is_pii
FROM lasts AS w
WHERE w.type != 'null' AND CASE
    WHEN w.scope IN ('global', 'session') THEN true
    WHEN w.is_within THEN w.topic_id IN (SELECT within FROM visits WHERE is_open)
        AND w.seq > (SELECT coalesce(max(seq), 0) FROM visits WHERE within IS NULL)
    ELSE w.seq > coalesce((SELECT e.seq FROM ended AS e WHERE e.scope = w.scope), 0) END
ORDER BY w.scope, w.topic_id, w.name;

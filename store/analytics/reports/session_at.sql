-- The position and status of a session after a turn; without a turn, after its latest.
-- messages, user_messages, writes, events: their numbers up to and including the turn.
CREATE OR REPLACE MACRO session_at(session, turn := NULL) AS TABLE
WITH asked AS MATERIALIZED (
    SELECT CASE WHEN s.turn IS NULL THEN error('there is no session `' || session::VARCHAR || '`')
        WHEN turn IS NULL OR turn::INTEGER BETWEEN 0 AND s.turn THEN true
        ELSE error('the session has no turn ' || turn::VARCHAR || '; its turns are 0 to ' || s.turn::VARCHAR) END AS is_valid
    FROM (SELECT max(k.turn) AS turn FROM turns AS k WHERE k.session_id = session::UUID) AS s
), taken AS (
    SELECT t.* FROM turns AS t WHERE t.session_id = session::UUID AND (turn IS NULL OR t.turn <= turn::INTEGER)
)
SELECT t.session_id, t.user_id, t.turn, t.finished_at, t.script_id, t.script_version, t.status, t.execution_status,
    t.phase_id, t.topic_id, t.action_id, t.action_type, t.wait_kind, (SELECT sum(messages)::BIGINT FROM taken) AS messages,
    (SELECT count(*) FROM messages AS m WHERE m.session_id = t.session_id AND m.turn <= t.turn AND m.role = 'user') AS user_messages,
    (SELECT sum(writes)::BIGINT FROM taken) AS writes, (SELECT sum(events)::BIGINT FROM taken) AS events
FROM taken AS t
WHERE (SELECT is_valid FROM asked) AND (turn IS NULL OR t.turn = turn::INTEGER)
ORDER BY t.turn DESC LIMIT 1;

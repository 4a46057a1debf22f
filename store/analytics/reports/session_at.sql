-- Where a session stood after a turn, and what had happened by then; without a turn, after its latest.
-- messages, user_messages, writes, events: how many there had been.
CREATE OR REPLACE MACRO session_at(session, turn := NULL) AS TABLE
WITH taken AS (
    SELECT t.* FROM turns AS t WHERE t.session_id = session::UUID AND (turn IS NULL OR t.turn <= turn::INTEGER)
)
SELECT t.session_id, t.user_id, t.turn, t.finished_at, t.script_id, t.script_version, t.status, t.execution_status,
    t.phase_id, t.topic_id, t.action_id, t.action_type, t.wait_kind, (SELECT sum(messages)::BIGINT FROM taken) AS messages,
    (SELECT count(*) FROM messages AS m WHERE m.session_id = t.session_id AND m.turn <= t.turn AND m.role = 'user') AS user_messages,
    (SELECT sum(writes)::BIGINT FROM taken) AS writes, (SELECT sum(events)::BIGINT FROM taken) AS events
FROM taken AS t
WHERE turn IS NULL OR t.turn = turn::INTEGER
ORDER BY t.turn DESC LIMIT 1;

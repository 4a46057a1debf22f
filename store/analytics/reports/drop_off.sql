-- Abandoned sessions by their position: active sessions (not completed, failed or paused) whose latest turn is at least
-- `idle_days` before the time of the file.
-- share_of_started: share of the selected sessions of the script; share_of_dropped: share of the abandoned ones of these.
-- says: the text that the author wrote for the action.
CREATE OR REPLACE MACRO drop_off(
    script := NULL, level := 'action', version := NULL, since := NULL, until := NULL, idle_days := 7
) AS TABLE
WITH asked AS MATERIALIZED (
    SELECT is_script(script) AND is_version(script, version) AND is_one_of('level', level, ['phase', 'topic', 'action'])
        AND is_not_negative('idle_days', idle_days) AS is_valid
), chosen AS MATERIALIZED (
    SELECT c.script_id, c.phase_id, CASE WHEN level != 'phase' THEN c.topic_id END AS topic_id,
        CASE WHEN level = 'action' THEN c.action_id END AS action_id, c.status = 'active' AND is_idle(c.updated_at, idle_days) AS is_dropped
    FROM chosen_sessions(script, version, since, until) AS c
), totals AS (
    SELECT script_id, count(*) AS started, count(*) FILTER (is_dropped) AS dropped FROM chosen GROUP BY ALL
), places AS (
    SELECT script_id, phase_id, topic_id, action_id, count(*) AS sessions FROM chosen WHERE is_dropped GROUP BY ALL
)
SELECT p.script_id, concat_ws('/', p.phase_id, p.topic_id, p.action_id) AS step, p.sessions,
    p.sessions / t.started AS share_of_started, p.sessions / t.dropped AS share_of_dropped, w.says
FROM places AS p JOIN totals AS t USING (script_id) LEFT JOIN script_steps(script, 'action') AS w
    ON w.script_id = p.script_id AND w.phase_id = p.phase_id AND w.topic_id = p.topic_id AND w.action_id = p.action_id
WHERE (SELECT is_valid FROM asked)
ORDER BY p.sessions DESC, p.script_id, step;

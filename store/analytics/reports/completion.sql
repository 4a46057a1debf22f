-- Outcomes of the sessions that started with each version of a script.
-- completed: sessions whose conversation ended, in any way. Of those, finished: it came to the end of the script;
-- ended_by_action: an `end` of the script; ended_by_user: an interrupt or a repair; ended_by_application; ended_by_rounds: a
-- question got no usable reply in its rounds; ended_by_expiry: a question expired. reached: sessions that reached
-- the milestone, or entered the action or topic; without one, the finished ones. failed and paused: sessions with that status;
-- abandoned: active sessions whose latest turn is at least `idle_days` before the time of the file; going_on: other active
-- sessions. silent: started sessions without a message of the user. completion_rate and abandonment_rate: reached / started
-- and abandoned / started.
CREATE OR REPLACE MACRO completion(
    script := NULL, version := NULL, since := NULL, until := NULL, idle_days := 7, milestone := NULL
) AS TABLE
WITH asked AS MATERIALIZED (
    SELECT is_script(script) AND is_version(script, version) AND is_not_negative('idle_days', idle_days)
        AND is_milestone(script, milestone) AS is_valid
), chosen AS (
    SELECT c.script_id, c.first_version, c.user_messages, c.status, is_idle(c.updated_at, idle_days) AS was_idle,
        is_finished(c.status, c.ended_by) AS is_finished, c.ended_by, r.session_id IS NOT NULL AS has_reached
    FROM chosen_sessions(script, version, since, until) AS c LEFT JOIN reached_sessions(milestone) AS r ON r.session_id = c.session_id
)
SELECT script_id, first_version AS script_version, count(*) AS started, count(*) FILTER (status = 'completed') AS completed,
    count(*) FILTER (is_finished) AS finished, count(*) FILTER (status = 'completed' AND ended_by = 'end_action') AS ended_by_action,
    count(*) FILTER (status = 'completed' AND ended_by = 'user') AS ended_by_user,
    count(*) FILTER (status = 'completed' AND ended_by = 'application') AS ended_by_application,
    count(*) FILTER (status = 'completed' AND ended_by = 'rounds') AS ended_by_rounds,
    count(*) FILTER (status = 'completed' AND ended_by = 'expired') AS ended_by_expiry,
    count(*) FILTER (has_reached) AS reached, count(*) FILTER (status = 'active' AND was_idle) AS abandoned,
    count(*) FILTER (status = 'active' AND NOT was_idle) AS going_on,
    count(*) FILTER (status = 'paused') AS paused, count(*) FILTER (status = 'failed') AS failed,
    count(*) FILTER (user_messages = 0) AS silent, count(*) FILTER (has_reached) / count(*) AS completion_rate,
    count(*) FILTER (status = 'active' AND was_idle) / count(*) AS abandonment_rate
FROM chosen WHERE (SELECT is_valid FROM asked)
GROUP BY script_id, first_version ORDER BY script_id, script_version;

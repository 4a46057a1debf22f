-- Time from the creation of a session to the end of its script, or until it reached the milestone or entered the action or topic,
-- by the version of the script that it started with.
-- completed: the sessions that came there; p50_seconds, p90_seconds, p95_seconds and mean_seconds: the percentiles, interpolated,
-- and the mean of their times in seconds.
-- median_turns and median_replies: turns after the creation, and messages of the user, until then.
CREATE OR REPLACE MACRO time_to_complete(script := NULL, version := NULL, since := NULL, until := NULL, milestone := NULL) AS TABLE
WITH asked AS MATERIALIZED (
    SELECT is_script(script) AND is_version(script, version) AND is_milestone(script, milestone) AS is_valid
), reached AS MATERIALIZED (
    SELECT c.session_id, c.script_id, c.first_version, epoch_us(r.reached_at - c.created_at) / 1e6 AS seconds, r.reached_turn,
        c.user_messages
    FROM chosen_sessions(script, version, since, until) AS c JOIN reached_sessions(milestone) AS r ON r.session_id = c.session_id
), replies AS (  -- those after the milestone do not count
    SELECT m.session_id, count(*) AS later FROM messages AS m JOIN reached AS r ON r.session_id = m.session_id
    WHERE milestone IS NOT NULL AND m.role = 'user' AND m.turn > r.reached_turn GROUP BY m.session_id
)
SELECT script_id, script_version, completed, times[1] AS p50_seconds, times[2] AS p90_seconds, times[3] AS p95_seconds,
    mean_seconds, median_turns, median_replies
FROM (
    SELECT r.script_id, r.first_version AS script_version, count(*) AS completed, quantile_cont(r.seconds, [0.5, 0.9, 0.95]) AS times,
        avg(r.seconds) AS mean_seconds, quantile_cont(r.reached_turn, 0.5) AS median_turns,
        quantile_cont(r.user_messages - coalesce(l.later, 0), 0.5) AS median_replies
    FROM reached AS r LEFT JOIN replies AS l ON l.session_id = r.session_id
    GROUP BY ALL
)
WHERE (SELECT is_valid FROM asked)
ORDER BY script_id, script_version;

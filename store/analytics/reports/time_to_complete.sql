-- How long completed sessions took, from their creation to their end, by the version of the script they began with. Half
-- of them took no more than p50 seconds, nine of ten no more than p90; between two sessions a percentile is interpolated.
-- median_turns and median_replies: turns after the creation, and messages the user sent.
CREATE OR REPLACE MACRO time_to_complete(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
SELECT script_id, script_version, completed, times[1] AS p50_seconds, times[2] AS p90_seconds, times[3] AS p95_seconds,
    mean_seconds, median_turns, median_replies
FROM (
    SELECT c.script_id, c.first_version AS script_version, count(*) AS completed,
        quantile_cont(epoch_us(c.completed_at - c.created_at) / 1e6, [0.5, 0.9, 0.95]) AS times,
        avg(epoch_us(c.completed_at - c.created_at) / 1e6) AS mean_seconds, quantile_cont(c.turn, 0.5) AS median_turns,
        quantile_cont(c.user_messages, 0.5) AS median_replies
    FROM chosen_sessions(script, version, since, until) AS c WHERE c.completed_at IS NOT NULL
    GROUP BY ALL
)
ORDER BY script_id, script_version;

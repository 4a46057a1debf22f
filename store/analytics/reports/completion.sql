-- What became of the sessions that began with each version of a script.
-- completed: they came to an end, by the script or by the application; failed and paused: that is their status;
-- abandoned: active, and their latest turn is at least `idle_days` before the moment the file shows; going_on: active otherwise.
-- silent: of all started, those in which the user never said anything.
-- completion_rate and abandonment_rate: of all started.
CREATE OR REPLACE MACRO completion(script := NULL, version := NULL, since := NULL, until := NULL, idle_days := 7) AS TABLE
WITH chosen AS (
    SELECT c.script_id, c.first_version, c.user_messages, c.status, is_idle(c.updated_at, idle_days) AS was_idle
    FROM chosen_sessions(script, version, since, until) AS c
)
SELECT script_id, first_version AS script_version, count(*) AS started, count(*) FILTER (status = 'completed') AS completed,
    count(*) FILTER (status = 'active' AND was_idle) AS abandoned, count(*) FILTER (status = 'active' AND NOT was_idle) AS going_on,
    count(*) FILTER (status = 'paused') AS paused, count(*) FILTER (status = 'failed') AS failed,
    count(*) FILTER (user_messages = 0) AS silent, count(*) FILTER (status = 'completed') / count(*) AS completion_rate,
    count(*) FILTER (status = 'active' AND was_idle) / count(*) AS abandonment_rate
FROM chosen GROUP BY script_id, first_version ORDER BY script_id, script_version;

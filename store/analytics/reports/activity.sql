-- Activity by day, week (from Monday) or month in a time zone, including periods without activity.
-- begun: sessions created; completed: sessions whose conversation ended, in any way; finished: completed sessions that
-- came to the end of their script; sessions and users: those with a turn; turns; messages.
-- `since` and `until` refer to the time of the activity.
CREATE OR REPLACE MACRO activity(script := NULL, since := NULL, until := NULL, period := 'day', zone := 'UTC') AS TABLE
WITH asked AS MATERIALIZED (SELECT is_script(script) AND is_period(period) AS is_valid), taken AS (
    SELECT period_of(min(t.finished_at), period, zone) AS begins, t.session_id, any_value(t.user_id) AS user_id, count(*) AS turns,
        sum(t.messages) AS messages
    FROM turns AS t ANTI JOIN (FROM sessions WHERE forked_from IS NOT NULL) AS f ON f.session_id = t.session_id
    WHERE (script IS NULL OR t.script_id = script) AND (since IS NULL OR t.finished_at >= since::TIMESTAMPTZ)
        AND (until IS NULL OR t.finished_at < until::TIMESTAMPTZ)
    GROUP BY t.session_id, time_bucket(INTERVAL 15 MINUTES, t.finished_at)
), by_period AS (
    SELECT begins, count(DISTINCT session_id) AS sessions, count(DISTINCT user_id) AS users, sum(turns)::BIGINT AS turns,
        sum(messages)::BIGINT AS messages
    FROM taken GROUP BY begins
), begun AS (
    SELECT period_of(c.created_at, period, zone) AS begins, count(*) AS begun
    FROM chosen_sessions(script, NULL, since, until) AS c GROUP BY ALL
), ended AS (
    SELECT period_of(c.completed_at, period, zone) AS begins, count(*) AS completed,
        count(*) FILTER (is_finished(c.status, c.ended_by)) AS finished FROM chosen_sessions(script) AS c
    WHERE c.completed_at IS NOT NULL AND (since IS NULL OR c.completed_at >= since::TIMESTAMPTZ)
        AND (until IS NULL OR c.completed_at < until::TIMESTAMPTZ)
    GROUP BY ALL
), periods AS (
    SELECT unnest(generate_series(min(begins), max(begins), ('1 ' || period)::INTERVAL))::DATE AS begins
    FROM (SELECT begins FROM by_period UNION ALL SELECT begins FROM begun UNION ALL SELECT begins FROM ended)
)
SELECT p.begins, coalesce(b.begun, 0) AS begun, coalesce(e.completed, 0) AS completed,
    coalesce(e.finished, 0) AS finished, coalesce(t.sessions, 0) AS sessions,
    coalesce(t.users, 0) AS users, coalesce(t.turns, 0) AS turns, coalesce(t.messages, 0) AS messages
FROM periods AS p LEFT JOIN by_period AS t USING (begins) LEFT JOIN begun AS b USING (begins) LEFT JOIN ended AS e USING (begins)
WHERE (SELECT is_valid FROM asked)
ORDER BY p.begins;

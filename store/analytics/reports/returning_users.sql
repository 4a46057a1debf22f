-- New and returning users by day, week (from Monday) or month in a time zone, including periods without sessions.
-- sessions: sessions started in the period; users: their users; new_users: users whose first session (of the script, if one
-- is named) started in the period; returning_users: users whose first session started in an earlier period.
CREATE OR REPLACE MACRO returning_users(script := NULL, since := NULL, until := NULL, period := 'week', zone := 'UTC') AS TABLE
WITH asked AS MATERIALIZED (SELECT is_script(script) AND is_period(period) AS is_valid), firsts AS (
    SELECT c.user_id, min(c.created_at) AS first_at FROM chosen_sessions(script) AS c GROUP BY ALL
), begun AS MATERIALIZED (
    SELECT period_of(c.created_at, period, zone) AS begins, c.user_id, period_of(f.first_at, period, zone) AS first_begins
    FROM chosen_sessions(script, NULL, since, until) AS c JOIN firsts AS f USING (user_id)
), periods AS (
    SELECT unnest(generate_series(min(begins), max(begins), ('1 ' || period)::INTERVAL))::DATE AS begins FROM begun
)
SELECT p.begins, count(b.user_id) AS sessions, count(DISTINCT b.user_id) AS users,
    count(DISTINCT b.user_id) FILTER (b.first_begins = p.begins) AS new_users,
    count(DISTINCT b.user_id) FILTER (b.first_begins < p.begins) AS returning_users
FROM periods AS p LEFT JOIN begun AS b USING (begins)
WHERE (SELECT is_valid FROM asked)
GROUP BY p.begins ORDER BY p.begins;

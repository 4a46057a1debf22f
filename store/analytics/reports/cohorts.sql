-- User retention: users by the week (day, month) of their first session, and how many of them started a session `later`
-- weeks later, up to the week of the file's time; `later` 0 is the week of the first session.
-- users: number of users in the cohort; came: those who started a session in that week; share: came / users.
-- `since` and `until` refer to the first session. Weeks start on Monday in the time zone.
CREATE OR REPLACE MACRO cohorts(script := NULL, since := NULL, until := NULL, period := 'week', zone := 'UTC') AS TABLE
WITH asked AS MATERIALIZED (SELECT is_script(script) AND is_period(period) AS is_valid), firsts AS (
    SELECT c.user_id, period_of(min(c.created_at), period, zone) AS cohort FROM chosen_sessions(script) AS c GROUP BY c.user_id
    HAVING (since IS NULL OR min(c.created_at) >= since::TIMESTAMPTZ) AND (until IS NULL OR min(c.created_at) < until::TIMESTAMPTZ)
), begun AS (
    SELECT DISTINCT c.user_id, period_of(c.created_at, period, zone) AS begins FROM chosen_sessions(script) AS c
), came AS (
    SELECT f.cohort, date_diff(period, f.cohort, b.begins) AS later, count(*) AS came
    FROM firsts AS f JOIN begun AS b USING (user_id) GROUP BY ALL
), sizes AS (
    SELECT cohort, count(*) AS users, greatest(0,
        date_diff(period, cohort, period_of((SELECT a.as_of FROM about AS a), period, zone))) AS last
    FROM firsts GROUP BY cohort
)
SELECT s.cohort, s.later, s.users, coalesce(c.came, 0) AS came, coalesce(c.came, 0) / s.users AS share
FROM (SELECT cohort, users, unnest(range(last + 1)) AS later FROM sizes) AS s LEFT JOIN came AS c USING (cohort, later)
WHERE (SELECT is_valid FROM asked)
ORDER BY s.cohort, s.later;

-- Completed sessions by the version of the script that they started with, and by their outcome: that of the `end` of the script;
-- completed at the end of the script, abandoned if a question expired, and null if nothing gave one. share: of the completed
-- sessions of that version. median_seconds: from the creation to the end.
CREATE OR REPLACE MACRO outcomes(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
WITH asked AS MATERIALIZED (
    SELECT is_script(script) AND is_version(script, version) AS is_valid
), chosen AS (
    SELECT c.script_id, c.first_version, c.outcome, epoch_us(c.completed_at - c.created_at) / 1e6 AS seconds
    FROM chosen_sessions(script, version, since, until) AS c
    WHERE c.status = 'completed'
)
SELECT script_id, first_version AS script_version, outcome, count(*) AS sessions,
    count(*) / sum(count(*)) OVER (PARTITION BY script_id, first_version) AS share, quantile_cont(seconds, 0.5) AS median_seconds
FROM chosen WHERE (SELECT is_valid FROM asked)
GROUP BY script_id, first_version, outcome
ORDER BY script_id, script_version, sessions DESC, outcome;

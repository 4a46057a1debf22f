-- Detections: number of hits, sessions and users by detector and label; seen_by: rule, measure or model.
-- share: share of the selected sessions of the script; mean_score: mean confidence; mean_severity and max_severity.
CREATE OR REPLACE MACRO detector_hits(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
WITH asked AS MATERIALIZED (SELECT is_script(script) AND is_version(script, version) AS is_valid), chosen AS MATERIALIZED (
    SELECT c.session_id, c.script_id FROM chosen_sessions(script, version, since, until) AS c
), totals AS (SELECT script_id, count(*) AS started FROM chosen GROUP BY ALL)
SELECT c.script_id, d.detector, d.label, d.seen_by, count(*) AS hits, count(DISTINCT d.session_id) AS sessions,
    count(DISTINCT d.user_id) AS users, count(DISTINCT d.session_id) / any_value(t.started) AS share, avg(d.score) AS mean_score,
    avg(d.severity) AS mean_severity, max(d.severity) AS max_severity
FROM detections AS d JOIN chosen AS c USING (session_id) JOIN totals AS t ON t.script_id = c.script_id
WHERE (SELECT is_valid FROM asked)
GROUP BY c.script_id, d.detector, d.label, d.seen_by
ORDER BY hits DESC, c.script_id, d.detector, d.label, d.seen_by;

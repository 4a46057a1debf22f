-- Where sessions go from each phase or topic: to which other one, to their end (`completed`), or nowhere yet (`stands`).
-- times: how often; sessions: how many sessions did; share: of all the times a session was there. Those it skipped are left out.
CREATE OR REPLACE MACRO next_steps(script, level := 'topic', version := NULL, since := NULL, until := NULL) AS TABLE
WITH moves AS (
    SELECT v.session_id, concat_ws('/', v.phase_id, v.topic_id) AS step, v.seq,
        coalesce(lead(concat_ws('/', v.phase_id, v.topic_id)) OVER (PARTITION BY v.session_id ORDER BY v.seq),
            CASE WHEN c.status = 'completed' THEN 'completed' ELSE 'stands' END) AS next_step
    FROM scope_visits AS v JOIN chosen_sessions(script, version, since, until) AS c USING (session_id)
    WHERE v.scope = level AND v.outcome != 'skipped'
)
SELECT step, next_step, count(*) AS times, count(DISTINCT session_id) AS sessions,
    count(*) / sum(count(*)) OVER (PARTITION BY step) AS share
FROM moves GROUP BY step, next_step ORDER BY step, times DESC, next_step;

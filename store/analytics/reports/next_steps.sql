-- Transitions from each phase or topic: to another one, to the end of the script (`completed`), to another end
-- (`ended by user` and so on, as in `sessions.ended_by`), or none yet (`stands`).
-- times: number of transitions; sessions: number of sessions; share: share of all visits of the step. Skipped steps are left out.
CREATE OR REPLACE MACRO next_steps(script, level := 'topic', version := NULL, since := NULL, until := NULL) AS TABLE
WITH asked AS MATERIALIZED (SELECT is_script(script) AND is_version(script, version)
    AND is_one_of('level', level, ['phase', 'topic']) AS is_valid), moves AS (
    SELECT v.session_id, concat_ws('/', v.phase_id, v.topic_id) AS step, v.seq,
        coalesce(lead(concat_ws('/', v.phase_id, v.topic_id)) OVER (PARTITION BY v.session_id ORDER BY v.seq),
            CASE WHEN is_finished(c.status, c.ended_by) THEN 'completed'
                WHEN c.status = 'completed' THEN 'ended by ' || replace(replace(c.ended_by, '_', ' '), 'expired', 'expiry')
                ELSE 'stands' END) AS next_step
    FROM scope_visits AS v JOIN chosen_sessions(script, version, since, until) AS c USING (session_id)
    WHERE v.scope = level AND v.outcome != 'skipped'
)
SELECT step, next_step, count(*) AS times, count(DISTINCT session_id) AS sessions,
    count(*) / sum(count(*)) OVER (PARTITION BY step) AS share
FROM moves WHERE (SELECT is_valid FROM asked) GROUP BY step, next_step ORDER BY step, times DESC, next_step;

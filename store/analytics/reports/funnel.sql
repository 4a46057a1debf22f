-- How far the sessions of a script come: its phases, topics or actions as they are written, those that nobody reached too.
-- reached: sessions that entered the step at least once, whatever became of it (a rewind takes nothing back here);
-- skipped: sessions that never entered it because its condition did not hold when they came by;
-- stopped: sessions that are not completed and stand at it, in a skill or interrupt that came up at it too;
-- share_of_started: of all chosen sessions; share_of_previous: reached against the step before, above 1 where the script branches.
-- Skills, interrupts and detectors are no steps. A step that no known version of the script has stands at the end, unnumbered.
CREATE OR REPLACE MACRO funnel(script, level := 'phase', version := NULL, since := NULL, until := NULL) AS TABLE
WITH chosen AS MATERIALIZED (SELECT c.session_id, c.status FROM chosen_sessions(script, version, since, until) AS c),
visited AS NOT MATERIALIZED (
    SELECT v.session_id, v.phase_id, v.topic_id, NULL AS action_id, v.seq, v.visit, v.outcome
    FROM scope_visits AS v WHERE level != 'action' AND v.scope = level
    UNION ALL
    SELECT v.session_id, v.phase_id, v.topic_id, v.action_id, v.seq, v.visit, v.outcome
    FROM action_visits AS v WHERE level = 'action' AND v.skill IS NULL AND v.interrupt IS NULL AND v.detector IS NULL
), entered AS (
    SELECT phase_id, topic_id, action_id, count(*) AS reached FROM visited SEMI JOIN chosen USING (session_id) WHERE visit = 1 GROUP BY ALL
), passed AS (
    SELECT phase_id, topic_id, action_id, count(*) AS skipped FROM (
        SELECT DISTINCT session_id, phase_id, topic_id, action_id FROM visited SEMI JOIN chosen USING (session_id) WHERE visit = 0
    ) AS p WHERE NOT EXISTS (
        FROM visited AS v WHERE v.visit = 1 AND v.session_id = p.session_id AND v.phase_id = p.phase_id
            AND v.topic_id IS NOT DISTINCT FROM p.topic_id AND v.action_id IS NOT DISTINCT FROM p.action_id
    ) GROUP BY ALL
), counted AS (
    SELECT phase_id, topic_id, action_id, sum(reached)::BIGINT AS reached, sum(skipped)::BIGINT AS skipped
    FROM (FROM entered UNION ALL BY NAME FROM passed) GROUP BY ALL
), stand AS (
    SELECT place.phase_id, place.topic_id, place.action_id, count(*) AS stopped FROM (
        SELECT arg_max({'phase_id': phase_id, 'topic_id': topic_id, 'action_id': action_id}, seq) AS place
        FROM visited SEMI JOIN (FROM chosen WHERE status != 'completed') AS c USING (session_id)
        WHERE outcome = 'open' GROUP BY session_id
    ) GROUP BY ALL
), steps AS (
    SELECT w.position, w.action_type, coalesce(w.phase_id, c.phase_id) AS phase_id, coalesce(w.topic_id, c.topic_id) AS topic_id,
        coalesce(w.action_id, c.action_id) AS action_id, coalesce(c.reached, 0) AS reached, coalesce(c.skipped, 0) AS skipped
    FROM script_steps(script, level, version) AS w FULL JOIN counted AS c
        ON w.phase_id = c.phase_id AND w.topic_id IS NOT DISTINCT FROM c.topic_id AND w.action_id IS NOT DISTINCT FROM c.action_id
)
SELECT CASE WHEN s.position IS NOT NULL THEN row_number() OVER in_order END AS position,
    concat_ws('/', s.phase_id, s.topic_id, s.action_id) AS step, s.action_type, s.reached, s.skipped,
    coalesce(t.stopped, 0) AS stopped, s.reached / nullif((SELECT count(*) FROM chosen), 0) AS share_of_started,
    s.reached / nullif(lag(s.reached) OVER in_order, 0) AS share_of_previous
FROM steps AS s LEFT JOIN stand AS t
    ON s.phase_id = t.phase_id AND s.topic_id IS NOT DISTINCT FROM t.topic_id AND s.action_id IS NOT DISTINCT FROM t.action_id
WINDOW in_order AS (ORDER BY s.position NULLS LAST, s.phase_id, s.topic_id, s.action_id)
ORDER BY s.position NULLS LAST, s.phase_id, s.topic_id, s.action_id;

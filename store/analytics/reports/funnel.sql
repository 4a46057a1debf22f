-- Progress of the sessions of a script: its phases, topics or actions in order, including steps that no session reached.
-- reached: sessions that entered the step at least once, whatever its outcome (a rewind does not change this);
-- skipped: sessions that never entered it because its condition did not hold;
-- stopped: sessions that are not completed and whose current position is this step, or a skill or interrupt called from it;
-- previous: sessions that reached an earlier step of the script from which sessions went directly to this one;
-- share_of_started: reached / selected sessions; share_of_previous: the share of `previous` that reached this step. Null for a
-- step that no session entered from an earlier one, such as the first.
-- converted: of reached, sessions that reached the milestone, or entered the action or topic, before or after; without one,
-- sessions that came to the end of the script; conversion_rate: converted / reached.
-- Skills, interrupts and detectors are not steps. Steps that no known version of the script has are last, without a number.
CREATE OR REPLACE MACRO funnel(
    script, level := 'phase', version := NULL, since := NULL, until := NULL, milestone := NULL
) AS TABLE
WITH asked AS MATERIALIZED (
    SELECT is_script(script) AND is_version(script, version) AND is_one_of('level', level, ['phase', 'topic', 'action'])
        AND is_milestone(script, milestone) AS is_valid
), chosen AS MATERIALIZED (SELECT c.session_id, c.status FROM chosen_sessions(script, version, since, until) AS c),
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
), numbered AS MATERIALIZED (
    SELECT *, (row_number() OVER (ORDER BY position NULLS LAST, phase_id, topic_id, action_id))::INTEGER AS number FROM steps
), walked AS MATERIALIZED (
    SELECT v.session_id, n.number, v.visit = 1 AS is_first, n.position IS NOT NULL AS is_step,
        lag(n.number) OVER (PARTITION BY v.session_id ORDER BY v.seq) AS came_from
    FROM visited AS v SEMI JOIN chosen USING (session_id) JOIN numbered AS n ON v.phase_id = n.phase_id
        AND v.topic_id IS NOT DISTINCT FROM n.topic_id AND v.action_id IS NOT DISTINCT FROM n.action_id
    WHERE v.visit > 0
), ways AS (
    SELECT DISTINCT came_from, number FROM walked WHERE is_step AND came_from < number
), previous AS (
    SELECT c.number, count(*) AS sessions, count(r.session_id) AS reached FROM (
        SELECT DISTINCT b.number, w.session_id FROM walked AS w JOIN ways AS b ON b.came_from = w.number WHERE w.is_first
    ) AS c LEFT JOIN (FROM walked WHERE is_first) AS r ON r.session_id = c.session_id AND r.number = c.number
    GROUP BY c.number
), converted AS (
    SELECT number, count(*) AS sessions FROM walked SEMI JOIN reached_sessions(milestone) AS r ON r.session_id = walked.session_id
    WHERE is_first GROUP BY number
)
SELECT CASE WHEN s.position IS NOT NULL THEN s.number::BIGINT END AS position,
    concat_ws('/', s.phase_id, s.topic_id, s.action_id) AS step, s.action_type, s.reached, s.skipped,
    coalesce(t.stopped, 0) AS stopped, p.sessions AS previous, s.reached / nullif((SELECT count(*) FROM chosen), 0) AS share_of_started,
    p.reached / p.sessions AS share_of_previous, coalesce(v.sessions, 0) AS converted,
    coalesce(v.sessions, 0) / nullif(s.reached, 0) AS conversion_rate
FROM numbered AS s LEFT JOIN stand AS t
    ON s.phase_id = t.phase_id AND s.topic_id IS NOT DISTINCT FROM t.topic_id AND s.action_id IS NOT DISTINCT FROM t.action_id
LEFT JOIN previous AS p ON p.number = s.number LEFT JOIN converted AS v ON v.number = s.number
WHERE (SELECT is_valid FROM asked)
ORDER BY s.number;

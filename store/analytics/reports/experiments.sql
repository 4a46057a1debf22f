-- The arms of experiments, and whether they differ. `unit` says what is counted: sessions that met the experiment, or the
-- users of those, each once in every arm that they met.
-- reached: a session reached the goal when, after it met the experiment, it was completed; or, where goals are named, when it
-- entered the phase, entered the topic, entered the action and gave the variable a value (that value), all that are named. A
-- user reached it when one of their sessions did. rate: reached of counted; low and high: its 95 % confidence interval (Wilson).
-- difference: rate less that of the base arm, which is the first by name unless `base` names it. p_value: the chance of a
-- difference this large or larger, either way, if there were none: a z-test of two proportions with the pooled variance,
-- null for the base arm and where nobody or everybody reached the goal. It is sound for some 10 or more of each in each arm.
CREATE OR REPLACE MACRO experiments(
    experiment := NULL, script := NULL, version := NULL, since := NULL, until := NULL, unit := 'session', base := NULL,
    goal_phase := NULL, goal_topic := NULL, goal_action := NULL, goal_variable := NULL, goal_value := NULL
) AS TABLE
WITH met AS MATERIALIZED (
    SELECT x.experiment, x.arm, x.session_id, x.user_id, x.seq, c.status
    FROM exposures AS x JOIN chosen_sessions(script, version, since, until) AS c USING (session_id)
    WHERE experiment IS NULL OR x.experiment = experiment
), came AS (
    SELECT DISTINCT m.experiment, m.session_id, 'phase' AS goal FROM met AS m JOIN scope_visits AS v USING (session_id)
    WHERE v.scope = 'phase' AND v.phase_id = goal_phase AND v.outcome != 'skipped' AND v.seq > m.seq
    UNION ALL
    SELECT DISTINCT m.experiment, m.session_id, 'topic' FROM met AS m JOIN scope_visits AS v USING (session_id)
    WHERE v.scope = 'topic' AND v.topic_id = goal_topic AND v.outcome != 'skipped' AND v.seq > m.seq
    UNION ALL
    SELECT DISTINCT m.experiment, m.session_id, 'action' FROM met AS m JOIN action_visits AS v USING (session_id)
    WHERE v.action_id = goal_action AND v.outcome != 'skipped' AND v.seq > m.seq
    UNION ALL
    SELECT DISTINCT m.experiment, m.session_id, 'variable' FROM met AS m JOIN variable_history AS h USING (session_id)
    WHERE h.name = goal_variable AND h.type != 'null' AND (goal_value IS NULL OR h.new_text = goal_value::VARCHAR) AND h.seq > m.seq
), wanted AS (
    SELECT count(goal) AS goals
    FROM (SELECT unnest([goal_phase::VARCHAR, goal_topic::VARCHAR, goal_action::VARCHAR, goal_variable::VARCHAR]) AS goal)
), achieved AS (
    SELECT m.experiment, m.arm, CASE WHEN unit = 'user' THEN m.user_id ELSE m.session_id::VARCHAR END AS counted_id,
        bool_or(CASE WHEN w.goals = 0 THEN m.status = 'completed' ELSE coalesce(g.goals, 0) = w.goals END) AS has_reached
    FROM met AS m CROSS JOIN wanted AS w
    LEFT JOIN (SELECT k.experiment, k.session_id, count(*) AS goals FROM came AS k GROUP BY ALL) AS g
        ON g.experiment = m.experiment AND g.session_id = m.session_id
    GROUP BY ALL
), arms AS (
    SELECT d.experiment, d.arm, count(*) AS counted, count(*) FILTER (d.has_reached) AS reached FROM achieved AS d GROUP BY ALL
), compared AS (
    SELECT a.*, b.arm AS base_arm, b.counted AS base_counted, b.reached AS base_reached,
        (a.reached + b.reached) / (a.counted + b.counted) AS pooled
    FROM arms AS a LEFT JOIN (
        FROM arms QUALIFY row_number() OVER (PARTITION BY arms.experiment ORDER BY arm IS DISTINCT FROM base, arm) = 1
    ) AS b ON b.experiment = a.experiment
)
SELECT c.experiment, c.arm, c.counted, c.reached, c.reached / c.counted AS rate, wilson_low(c.reached, c.counted) AS low,
    wilson_high(c.reached, c.counted) AS high,
    CASE WHEN c.arm != c.base_arm THEN c.reached / c.counted - c.base_reached / c.base_counted END AS difference,
    CASE WHEN c.arm != c.base_arm AND c.pooled > 0 AND c.pooled < 1 THEN two_sided_p(
        (c.reached / c.counted - c.base_reached / c.base_counted)
        / sqrt(c.pooled * (1 - c.pooled) * (1 / c.counted + 1 / c.base_counted))) END AS p_value
FROM compared AS c
ORDER BY c.experiment, c.arm != c.base_arm, c.arm;

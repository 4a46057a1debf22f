-- Comparison of the arms of experiments. `unit` is what is counted: sessions that were exposed to the experiment, or the users of
-- these, each once in every arm that they were exposed to. The default is the unit that the experiment assigns to arms: sessions
-- of one user are similar, so counting sessions if users are assigned would overstate the significance of differences.
-- reached: a session reached the goal if, after the exposure, it came to the end of the script; or, if goals are named, if it met
-- all of them: it entered the phase, entered the topic, entered the action, gave the variable a value (that value). A user reached
-- the goal if one of their sessions did. If the values of the variable are masked, a value cannot be a goal.
-- rate: reached / counted; low and high: its 95 % confidence interval (Wilson). difference: rate minus the rate of the base arm,
-- which is the first one in the script unless `base` names another; difference_low and difference_high: its 95 % confidence
-- interval (Newcombe, from Wilson's). p_value: the probability of a difference this large or larger, in either direction, if there
-- is none, by the `test`: fisher, the exact test, if fewer than ten cases of either arm are expected to reach the goal or not to;
-- otherwise z, for two proportions with the pooled variance.
CREATE OR REPLACE MACRO experiments(
    experiment := NULL, script := NULL, version := NULL, since := NULL, until := NULL, unit := NULL, base := NULL,
    goal_phase := NULL, goal_topic := NULL, goal_action := NULL, goal_variable := NULL, goal_value := NULL
) AS TABLE
WITH arms_there AS (
    SELECT x.experiment, x.arm FROM exposures AS x UNION SELECT w.experiment, w.arm FROM script_arms AS w
), asked AS MATERIALIZED (
    SELECT is_script(script) AND is_version(script, version) AND is_one_of('unit', unit, ['session', 'user'])
        AND is_known('experiment', experiment, (SELECT list(DISTINCT n.experiment) FROM arms_there AS n))
        AND is_known('arm', base, (SELECT list(DISTINCT n.arm) FROM arms_there AS n WHERE experiment IS NULL OR n.experiment = experiment))
        AND is_known('phase', goal_phase, (SELECT list(DISTINCT w.phase_id) FROM script_actions AS w WHERE script IS NULL OR w.script_id = script))
        AND is_known('topic', goal_topic, (SELECT list(DISTINCT w.topic_id) FROM script_actions AS w WHERE script IS NULL OR w.script_id = script))
        AND is_known('action', goal_action, (SELECT list(DISTINCT w.action_id) FROM script_actions AS w WHERE script IS NULL OR w.script_id = script))
        AND is_known('variable', goal_variable, (SELECT list(DISTINCT n.name) FROM (
            SELECT w.name FROM script_variables AS w UNION ALL SELECT DISTINCT h.name FROM variable_history AS h) AS n))
        AND CASE WHEN goal_value IS NOT NULL AND goal_variable IS NULL THEN error('`goal_value` is the value of a variable: name it as `goal_variable`')
            WHEN goal_value IS NOT NULL AND (SELECT a.is_masked FROM about AS a) AND EXISTS (
                FROM (SELECT h.name FROM variable_history AS h WHERE h.new IS NULL AND h.type != 'null'
                    UNION ALL SELECT w.name FROM script_variables AS w WHERE w.is_pii OR w.type IN ('text', 'list', 'record')) AS n
                WHERE n.name = goal_variable)
            THEN error('the values of `' || goal_variable || '` are masked here: ask with --unmasked, over HTTP with masked=false')
            ELSE true END AS is_valid
), met AS MATERIALIZED (
    SELECT x.experiment, x.arm, x.session_id, x.user_id, x.seq, is_finished(c.status, c.ended_by) AS is_finished,
        coalesce(unit, max(x.unit) OVER (PARTITION BY x.experiment)) AS unit
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
    SELECT m.experiment, m.arm, m.unit, CASE WHEN m.unit = 'user' THEN m.user_id ELSE m.session_id::VARCHAR END AS counted_id,
        bool_or(CASE WHEN w.goals = 0 THEN m.is_finished ELSE coalesce(g.goals, 0) = w.goals END) AS has_reached
    FROM met AS m CROSS JOIN wanted AS w
    LEFT JOIN (SELECT k.experiment, k.session_id, count(*) AS goals FROM came AS k GROUP BY ALL) AS g
        ON g.experiment = m.experiment AND g.session_id = m.session_id
    GROUP BY ALL
), arms AS (
    SELECT d.experiment, d.arm, d.unit, count(*) AS counted, count(*) FILTER (d.has_reached) AS reached FROM achieved AS d GROUP BY ALL
), written AS (
    SELECT w.experiment, w.arm, arg_max(w.position, k.number) AS position
    FROM script_arms AS w JOIN (
        SELECT s.digest, s.version AS number FROM scripts AS s UNION SELECT s.digest, s.script_version FROM sessions AS s
    ) AS k USING (digest)
    GROUP BY ALL
), compared AS (
    SELECT a.*, b.arm AS base_arm, b.counted AS base_counted, b.reached AS base_reached,
        (a.reached + b.reached) / (a.counted + b.counted) AS pooled
    FROM arms AS a LEFT JOIN (
        SELECT arms.* FROM arms LEFT JOIN written AS w ON w.experiment = arms.experiment AND w.arm = arms.arm
        QUALIFY row_number() OVER (PARTITION BY arms.experiment
            ORDER BY arms.arm IS DISTINCT FROM base, w.position NULLS LAST, arms.arm) = 1
    ) AS b ON b.experiment = a.experiment
), tested AS (
    SELECT *, CASE WHEN arm != base_arm THEN CASE WHEN least(counted, base_counted) * least(pooled, 1 - pooled) < 10 THEN 'fisher' ELSE 'z' END
        END AS test
    FROM compared
)
SELECT c.experiment, c.arm, c.unit, c.counted, c.reached, c.reached / c.counted AS rate, wilson_low(c.reached, c.counted) AS low,
    wilson_high(c.reached, c.counted) AS high,
    CASE WHEN c.test IS NOT NULL THEN c.reached / c.counted - c.base_reached / c.base_counted END AS difference,
    CASE WHEN c.test IS NOT NULL THEN newcombe_low(c.reached, c.counted, c.base_reached, c.base_counted) END AS difference_low,
    CASE WHEN c.test IS NOT NULL THEN newcombe_high(c.reached, c.counted, c.base_reached, c.base_counted) END AS difference_high,
    CASE c.test WHEN 'fisher' THEN fisher_p(c.reached, c.counted, c.base_reached, c.base_counted) WHEN 'z' THEN two_sided_p(
        (c.reached / c.counted - c.base_reached / c.base_counted)
        / sqrt(c.pooled * (1 - c.pooled) * (1 / c.counted + 1 / c.base_counted))) END AS p_value, c.test
FROM tested AS c WHERE (SELECT is_valid FROM asked)
ORDER BY c.experiment, c.arm != c.base_arm, c.arm;

-- Repeated questions of `ask`, `ai_ask`, `choose` and `form`, by how often they were repeated.
-- visits: number of visits in which a session waited at the question; asked_again: visits with more than one wait, because the
-- reply was not usable or something interrupted; share: asked_again / visits; mean_rounds and most_rounds: the mean and the
-- largest number of waits of a visit.
-- says: the text of the author in the newest version. A question of a skill counts at the position that called the skill.
CREATE OR REPLACE MACRO re_asked(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
WITH valid AS MATERIALIZED (SELECT is_script(script) AND is_version(script, version) AS is_valid), asked AS (
    SELECT w.script_id, w.phase_id, w.topic_id, w.action_id, w.action_type, count(*) FILTER (w.round = 1) AS visits,
        count(*) FILTER (w.round = 2) AS asked_again, count(*) AS rounds, max(w.round) AS most_rounds
    FROM waits AS w SEMI JOIN chosen_sessions(script, version, since, until) AS c ON c.session_id = w.session_id
    WHERE w.action_type IN ('ask', 'ai_ask', 'choose', 'form')
    GROUP BY ALL
)
SELECT a.script_id, concat_ws('/', a.phase_id, a.topic_id, a.action_id) AS step, a.action_type, a.visits, a.asked_again,
    a.asked_again / nullif(a.visits, 0) AS share, a.rounds / nullif(a.visits, 0) AS mean_rounds, a.most_rounds, w.says
FROM asked AS a LEFT JOIN script_steps(script, 'action') AS w
    ON w.script_id = a.script_id AND w.phase_id = a.phase_id AND w.topic_id = a.topic_id AND w.action_id = a.action_id
WHERE (SELECT is_valid FROM valid)
ORDER BY a.asked_again DESC, share DESC NULLS LAST, a.script_id, step;

-- The variables that the questions of a script fill. A question fills a variable if the variable gets a value from the user or
-- from a model while the session is at the question.
-- asked: sessions that came to the question; filled: those in which it filled the variable at least once; share: filled / asked; rounds: mean number
-- of replies in a visit with at least one; asked_again: visits with more than one reply. Variables that were never filled are
-- not listed.
CREATE OR REPLACE MACRO slots(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
WITH valid AS MATERIALIZED (SELECT is_script(script) AND is_version(script, version) AS is_valid), chosen AS MATERIALIZED (SELECT c.session_id FROM chosen_sessions(script, version, since, until) AS c),
visited AS NOT MATERIALIZED (
    SELECT v.session_id, v.script_id, v.phase_id, v.topic_id, coalesce(v.skill, v.interrupt, v.detector) AS within, v.action_id,
        v.seq, v.left_seq, v.visit, v.rounds
    FROM action_visits AS v SEMI JOIN chosen USING (session_id)
    WHERE v.visit > 0 AND v.action_type IN ('ask', 'ai_ask', 'choose', 'form', 'chat')
), asked AS (
    SELECT script_id, phase_id, topic_id, within, action_id, count(*) FILTER (visit = 1) AS asked,
        avg(rounds) FILTER (rounds > 0) AS rounds, count(*) FILTER (rounds > 1) AS asked_again
    FROM visited GROUP BY ALL
), filled AS (
    SELECT v.script_id, v.phase_id, v.topic_id, v.within, v.action_id, h.scope, h.name, count(DISTINCT v.session_id) AS filled
    FROM variable_history AS h JOIN visited AS v
        ON v.session_id = h.session_id AND v.action_id = h.action_id AND h.seq > v.seq AND h.seq < coalesce(v.left_seq, 2147483647)
    WHERE h.source IN ('user', 'model') AND h.type != 'null'
    GROUP BY ALL
)
SELECT f.script_id, f.scope, f.name, concat_ws('/', f.phase_id, f.topic_id, f.within, f.action_id) AS step, a.asked, f.filled,
    f.filled / a.asked AS share, a.rounds, a.asked_again
FROM filled AS f JOIN asked AS a
    ON a.script_id = f.script_id AND a.action_id = f.action_id AND a.phase_id IS NOT DISTINCT FROM f.phase_id
        AND a.topic_id IS NOT DISTINCT FROM f.topic_id AND a.within IS NOT DISTINCT FROM f.within
WHERE (SELECT is_valid FROM valid)
ORDER BY f.script_id, share, f.name, step, f.scope;

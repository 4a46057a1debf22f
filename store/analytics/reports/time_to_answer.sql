-- Response times of users by action, the longest first.
-- waits: number of waits; answered: waits with a reply; still_open: waits that have not ended (the others ended because the
-- question expired, the application ended or rewound the session, a person took it over, or its topic began again);
-- answered_share: answered / waits; p50_seconds, p90_seconds, p95_seconds and mean_seconds: the percentiles, interpolated, and the
-- mean of the seconds from the end of the turn that began the wait to the reply. Messages that an application appended are no
-- replies, nor those to a person who has taken the session over. A wait in a skill counts at the position that called the skill.
-- The action `wait` waits for a moment, not for the user, and is left out.
CREATE OR REPLACE MACRO time_to_answer(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
WITH asked AS MATERIALIZED (SELECT is_script(script) AND is_version(script, version) AS is_valid)
SELECT script_id, concat_ws('/', phase_id, topic_id, action_id) AS step, kind, waits, answered, still_open,
    answered / waits AS answered_share, times[1] AS p50_seconds, times[2] AS p90_seconds, times[3] AS p95_seconds, mean_seconds
FROM (
    SELECT w.script_id, w.phase_id, w.topic_id, w.action_id, w.kind, count(*) AS waits,
        count(*) FILTER (w.outcome = 'answered') AS answered, count(*) FILTER (w.outcome = 'open') AS still_open,
        quantile_cont(w.seconds, [0.5, 0.9, 0.95]) FILTER (w.outcome = 'answered') AS times,
        avg(w.seconds) FILTER (w.outcome = 'answered') AS mean_seconds
    FROM waits AS w SEMI JOIN chosen_sessions(script, version, since, until) AS c ON c.session_id = w.session_id
    WHERE w.kind != 'time'
    GROUP BY ALL
)
WHERE (SELECT is_valid FROM asked)
ORDER BY p50_seconds DESC NULLS LAST, script_id, step, kind;

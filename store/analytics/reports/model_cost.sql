-- What language models cost, by the version of the script that asked, the model and what for. `script`, `version`, `since`
-- and `until` are about the call itself. A call for a memory, off the turn, has no script. Calls of forks count.
-- failed: gave no reply; in_doubt: nobody knows what came of it, the server was stopped; lost: made for a turn that was
-- not taken with it, so it was paid for in vain; estimated: of the tokens, those of calls that the endpoint did not count.
-- cost: in the currency of the prices that are set, null where none are; cost_per_session: for each session that called.
CREATE OR REPLACE MACRO model_cost(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
WITH asked AS MATERIALIZED (SELECT is_script(script) AND is_version(script, version) AS is_valid)
SELECT c.script_id, c.script_version, c.model, c.purpose, count(*) AS calls, count(*) FILTER (c.outcome = 'failed') AS failed,
    count(*) FILTER (c.outcome = 'in_doubt') AS in_doubt, count(*) FILTER (c.used = false) AS lost,
    coalesce(sum(c.input_tokens), 0)::BIGINT AS input_tokens, coalesce(sum(c.cached_tokens), 0)::BIGINT AS cached_tokens,
    coalesce(sum(c.output_tokens), 0)::BIGINT AS output_tokens,
    coalesce(sum(coalesce(c.input_tokens, 0) + coalesce(c.output_tokens, 0)) FILTER (c.counted = false), 0)::BIGINT AS estimated,
    sum(c.cost) AS cost, sum(c.cost) FILTER (c.used = false) AS lost_cost, count(DISTINCT c.session_id) AS sessions,
    sum(c.cost) / nullif(count(DISTINCT c.session_id), 0) AS cost_per_session
FROM llm_calls AS c
WHERE (SELECT is_valid FROM asked) AND (script IS NULL OR c.script_id = script) AND (version IS NULL OR c.script_version = version::INTEGER)
    AND (since IS NULL OR c.started_at >= since::TIMESTAMPTZ) AND (until IS NULL OR c.started_at < until::TIMESTAMPTZ)
GROUP BY c.script_id, c.script_version, c.model, c.purpose
ORDER BY cost DESC NULLS LAST, calls DESC, c.script_id NULLS LAST, c.script_version, c.model, c.purpose;

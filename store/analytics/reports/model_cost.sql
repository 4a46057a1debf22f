-- Cost of language models by the version of the script that made the call, the model and the purpose. `script`, `version`,
-- `since` and `until` refer to the call. A call for a memory outside a turn has no script. Calls of forks count.
-- failed: calls without a reply; in_doubt: calls whose result is unknown, because the server was stopped; lost: calls that the
-- committed turn did not use, so their cost, lost_cost, was wasted; input_tokens and output_tokens: sent and received;
-- cached_tokens: of those sent, the ones that the endpoint had cached; estimated: tokens of calls that the endpoint did not count.
-- cost: in the currency of the configured prices, null if there are none; sessions: those that made calls; cost_per_session:
-- cost / sessions.
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

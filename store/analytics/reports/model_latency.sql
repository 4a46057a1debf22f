-- Latency of language models by model and purpose. `script`, `version`, `since` and `until` refer to the call.
-- Times are those of calls with a reply, in milliseconds: p50_ms, p90_ms, p95_ms and mean_ms to the end of the reply,
-- first_words_p50_ms and first_words_p95_ms to the first words of a streamed reply; percentiles are interpolated. failed_share: share of all calls; attempts: mean number of attempts of a call
-- with a reply; degraded: calls whose reply was used as plain text.
CREATE OR REPLACE MACRO model_latency(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
WITH asked AS MATERIALIZED (SELECT is_script(script) AND is_version(script, version) AS is_valid)
SELECT model, purpose, calls, failed_share, times[1] AS p50_ms, times[2] AS p90_ms, times[3] AS p95_ms, mean_ms,
    firsts[1] AS first_words_p50_ms, firsts[2] AS first_words_p95_ms, attempts, degraded
FROM (
    SELECT c.model, c.purpose, count(*) AS calls, count(*) FILTER (c.outcome = 'failed') / count(*) AS failed_share,
        quantile_cont(c.latency_ms, [0.5, 0.9, 0.95]) FILTER (c.outcome = 'done') AS times,
        avg(c.latency_ms) FILTER (c.outcome = 'done') AS mean_ms,
        quantile_cont(c.first_words_ms, [0.5, 0.95]) FILTER (c.outcome = 'done') AS firsts,
        avg(c.attempts) FILTER (c.outcome = 'done') AS attempts,
        count(*) FILTER (c.outcome = 'done' AND c.degraded != '') AS degraded
    FROM llm_calls AS c
    WHERE (script IS NULL OR c.script_id = script) AND (version IS NULL OR c.script_version = version::INTEGER)
        AND (since IS NULL OR c.started_at >= since::TIMESTAMPTZ) AND (until IS NULL OR c.started_at < until::TIMESTAMPTZ)
    GROUP BY ALL
)
WHERE (SELECT is_valid FROM asked)
ORDER BY calls DESC, model, purpose;

-- The prompts of calls, as they were sent. The messages of a session repeat in each of its prompts, so ZSTD stores them in a
-- small part of their size; it is named because DuckDB would choose a method that needs many times as much. Reports do
-- not read prompts, so the view of calls is without them.

ALTER TABLE settled_calls ADD COLUMN prompt VARCHAR USING COMPRESSION zstd;
COMMENT ON COLUMN settled_calls.prompt IS 'The prompt as it was sent, as JSON: messages and schema of the reply; null where it is not stored';

CREATE OR REPLACE VIEW llm_calls AS
SELECT * EXCLUDE (prompt) FROM settled_calls
UNION ALL BY NAME
SELECT * REPLACE (NULL::JSON AS reply) FROM call_journal QUALIFY row_number() OVER (PARTITION BY call_id ORDER BY ended_at NULLS LAST) = 1
UNION ALL BY NAME
SELECT *, true AS withheld FROM memory_calls;
COMMENT ON VIEW llm_calls IS 'One row a call of a language model, also of turns that failed or are not taken yet, and for memories.';
COMMENT ON COLUMN llm_calls.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN llm_calls.session_id IS 'The session; one that was killed before its first turn was kept is in no other table; null: made for a memory, off the turn';
COMMENT ON COLUMN llm_calls.user_id IS 'The user of the session, or whose memory it was made for';
COMMENT ON COLUMN llm_calls.script_id IS 'The id the author gave the script that asked; null for a memory';
COMMENT ON COLUMN llm_calls.script_version IS 'Number of the version of that script; null for a memory';
COMMENT ON COLUMN llm_calls.turn IS 'The turn it was made for; null for a memory';
COMMENT ON COLUMN llm_calls.number IS 'Number of the call in that turn, over all attempts at it, from 1; null for a memory';
COMMENT ON COLUMN llm_calls.call_id IS 'The call';
COMMENT ON COLUMN llm_calls.purpose IS 'What was asked: say, ask, extract, think, chat, route, detect, summarise, memo';
COMMENT ON COLUMN llm_calls.action_id IS 'The action that asked; empty for the script itself; null for a memory';
COMMENT ON COLUMN llm_calls.round IS 'Round of that action: 0 opens the conversation, n judges the nth reply; null for a memory';
COMMENT ON COLUMN llm_calls.model IS 'The model asked, by the name the server knows it';
COMMENT ON COLUMN llm_calls.request_digest IS 'SHA-256 of the request: the same for two calls that ask the same';
COMMENT ON COLUMN llm_calls.started_at IS 'When it was about to be made';
COMMENT ON COLUMN llm_calls.ended_at IS 'When what came of it was known; null where the server died before';
COMMENT ON COLUMN llm_calls.outcome IS 'done, failed, or in_doubt: nobody knows whether the endpoint carried it out';
COMMENT ON COLUMN llm_calls.error IS 'Why there is no reply';
COMMENT ON COLUMN llm_calls.used IS 'Whether the turn was taken with it; false: a failed attempt made it; null: the turn is not taken (yet)';
COMMENT ON COLUMN llm_calls.endpoint_model IS 'The model that answered, as the endpoint calls it';
COMMENT ON COLUMN llm_calls.prompt_digest IS 'SHA-256 of the prompt as it was sent';
COMMENT ON COLUMN llm_calls.parameters IS 'What else was sent: temperature and the like, as a JSON object';
COMMENT ON COLUMN llm_calls.input_tokens IS 'Tokens sent; null where unknown';
COMMENT ON COLUMN llm_calls.cached_tokens IS 'Those of the tokens sent that the endpoint had kept';
COMMENT ON COLUMN llm_calls.output_tokens IS 'Tokens received; null where unknown';
COMMENT ON COLUMN llm_calls.counted IS 'Whether the endpoint counted the tokens; false: they are estimated';
COMMENT ON COLUMN llm_calls.cost IS 'In the currency of the prices that are set; null where none are';
COMMENT ON COLUMN llm_calls.latency_ms IS 'Milliseconds to the end of the reply, all attempts of the client included';
COMMENT ON COLUMN llm_calls.first_words_ms IS 'Milliseconds to the first words of the reply, where it was streamed';
COMMENT ON COLUMN llm_calls.attempts IS 'How often the client tried';
COMMENT ON COLUMN llm_calls.failures IS 'What went wrong in the tries that failed, as a JSON list of texts';
COMMENT ON COLUMN llm_calls.degraded IS 'Why the reply had to be taken as plain text';
COMMENT ON COLUMN llm_calls.reply IS 'The reply as the runtime took it, as a JSON object; null where there is none, or the turn is not taken (yet)';
COMMENT ON COLUMN llm_calls.withheld IS 'Whether the reply is kept without its words (text and raw), since they were not said';

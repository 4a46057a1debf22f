-- Calls of language models. A call is written to the journal before it is made and again, in full, when it has ended:
-- two appended rows of one shape, since an UPDATE costs more than an INSERT. The commit of its turn moves what is known of
-- it to settled_calls, in the same transaction. So each call is in the view once, the journal stays small, and the calls
-- of a turn that failed for ever are still there. Words that were not said stay behind when a call is settled, and the view
-- shows no reply before: until then nobody knows whether it is said. No indexes: 64 sessions settle in 7 ms, most of it per statement.

CREATE TABLE settled_calls (
    tenant VARCHAR NOT NULL,
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    number INTEGER NOT NULL,
    call_id VARCHAR NOT NULL,
    purpose VARCHAR NOT NULL,
    action_id VARCHAR NOT NULL,
    round INTEGER NOT NULL,
    model VARCHAR NOT NULL,
    request_digest VARCHAR NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ,
    outcome VARCHAR NOT NULL,
    error VARCHAR,
    used BOOLEAN,
    endpoint_model VARCHAR,
    prompt_digest VARCHAR,
    parameters JSON,
    input_tokens BIGINT,
    cached_tokens BIGINT,
    output_tokens BIGINT,
    counted BOOLEAN,
    cost DOUBLE,
    latency_ms INTEGER,
    first_words_ms INTEGER,
    attempts INTEGER,
    failures JSON,
    degraded VARCHAR,
    reply JSON,
    withheld BOOLEAN NOT NULL
);
COMMENT ON TABLE settled_calls IS 'One row a call of a language model whose turn was taken, or given up for another. Append-only.';
COMMENT ON COLUMN settled_calls.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN settled_calls.session_id IS 'The session; one that was killed before its first turn was kept is in no other table';
COMMENT ON COLUMN settled_calls.user_id IS 'The user of the session';
COMMENT ON COLUMN settled_calls.script_id IS 'The id the author gave the script that asked';
COMMENT ON COLUMN settled_calls.script_version IS 'Number of the version of that script';
COMMENT ON COLUMN settled_calls.turn IS 'The turn it was made for';
COMMENT ON COLUMN settled_calls.number IS 'Number of the call in that turn, over all attempts at it, from 1';
COMMENT ON COLUMN settled_calls.call_id IS 'The call';
COMMENT ON COLUMN settled_calls.purpose IS 'What was asked: say, ask, extract, think, chat, route, detect';
COMMENT ON COLUMN settled_calls.action_id IS 'The action that asked; empty for the script itself';
COMMENT ON COLUMN settled_calls.round IS 'Round of that action: 0 opens the conversation, n judges the nth reply';
COMMENT ON COLUMN settled_calls.model IS 'The model asked, by the name the server knows it';
COMMENT ON COLUMN settled_calls.request_digest IS 'SHA-256 of the request: the same for two calls that ask the same';
COMMENT ON COLUMN settled_calls.started_at IS 'When it was about to be made';
COMMENT ON COLUMN settled_calls.ended_at IS 'When what came of it was known; null where the server died before';
COMMENT ON COLUMN settled_calls.outcome IS 'done, failed, or in_doubt: nobody knows whether the endpoint carried it out';
COMMENT ON COLUMN settled_calls.error IS 'Why there is no reply';
COMMENT ON COLUMN settled_calls.used IS 'Whether the turn was taken with it; false: a failed attempt made it; null: the turn is not taken (yet)';
COMMENT ON COLUMN settled_calls.endpoint_model IS 'The model that answered, as the endpoint calls it';
COMMENT ON COLUMN settled_calls.prompt_digest IS 'SHA-256 of the prompt as it was sent';
COMMENT ON COLUMN settled_calls.parameters IS 'What else was sent: temperature and the like, as a JSON object';
COMMENT ON COLUMN settled_calls.input_tokens IS 'Tokens sent; null where unknown';
COMMENT ON COLUMN settled_calls.cached_tokens IS 'Those of the tokens sent that the endpoint had kept';
COMMENT ON COLUMN settled_calls.output_tokens IS 'Tokens received; null where unknown';
COMMENT ON COLUMN settled_calls.counted IS 'Whether the endpoint counted the tokens; false: they are estimated';
COMMENT ON COLUMN settled_calls.cost IS 'In the currency of the prices that are set; null where none are';
COMMENT ON COLUMN settled_calls.latency_ms IS 'Milliseconds to the end of the reply, all attempts of the client included';
COMMENT ON COLUMN settled_calls.first_words_ms IS 'Milliseconds to the first words of the reply, where it was streamed';
COMMENT ON COLUMN settled_calls.attempts IS 'How often the client tried';
COMMENT ON COLUMN settled_calls.failures IS 'What went wrong in the tries that failed, as a JSON list of texts';
COMMENT ON COLUMN settled_calls.degraded IS 'Why the reply had to be taken as plain text';
COMMENT ON COLUMN settled_calls.reply IS 'The reply as the runtime took it, as a JSON object; null where there is none';
COMMENT ON COLUMN settled_calls.withheld IS 'Whether the reply is kept without its words (text and raw), since they were not said';

CREATE TABLE call_journal (
    tenant VARCHAR NOT NULL,
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    number INTEGER NOT NULL,
    call_id VARCHAR NOT NULL,
    purpose VARCHAR NOT NULL,
    action_id VARCHAR NOT NULL,
    round INTEGER NOT NULL,
    model VARCHAR NOT NULL,
    request_digest VARCHAR NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ,
    outcome VARCHAR NOT NULL,
    error VARCHAR,
    used BOOLEAN,
    endpoint_model VARCHAR,
    prompt_digest VARCHAR,
    parameters JSON,
    input_tokens BIGINT,
    cached_tokens BIGINT,
    output_tokens BIGINT,
    counted BOOLEAN,
    cost DOUBLE,
    latency_ms INTEGER,
    first_words_ms INTEGER,
    attempts INTEGER,
    failures JSON,
    degraded VARCHAR,
    reply JSON,
    withheld BOOLEAN NOT NULL
);
COMMENT ON TABLE call_journal IS 'Calls of turns that are not taken (yet): one row before the call, one more, in full, when it has ended.';
COMMENT ON COLUMN call_journal.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN call_journal.session_id IS 'The session; one that was killed before its first turn was kept is in no other table';
COMMENT ON COLUMN call_journal.user_id IS 'The user of the session';
COMMENT ON COLUMN call_journal.script_id IS 'The id the author gave the script that asked';
COMMENT ON COLUMN call_journal.script_version IS 'Number of the version of that script';
COMMENT ON COLUMN call_journal.turn IS 'The turn it was made for';
COMMENT ON COLUMN call_journal.number IS 'Number of the call in that turn, over all attempts at it, from 1';
COMMENT ON COLUMN call_journal.call_id IS 'The call';
COMMENT ON COLUMN call_journal.purpose IS 'What was asked: say, ask, extract, think, chat, route, detect';
COMMENT ON COLUMN call_journal.action_id IS 'The action that asked; empty for the script itself';
COMMENT ON COLUMN call_journal.round IS 'Round of that action: 0 opens the conversation, n judges the nth reply';
COMMENT ON COLUMN call_journal.model IS 'The model asked, by the name the server knows it';
COMMENT ON COLUMN call_journal.request_digest IS 'SHA-256 of the request: the same for two calls that ask the same';
COMMENT ON COLUMN call_journal.started_at IS 'When it was about to be made';
COMMENT ON COLUMN call_journal.ended_at IS 'When what came of it was known; null where the server died before';
COMMENT ON COLUMN call_journal.outcome IS 'done, failed, or in_doubt: nobody knows whether the endpoint carried it out';
COMMENT ON COLUMN call_journal.error IS 'Why there is no reply';
COMMENT ON COLUMN call_journal.used IS 'Whether the turn was taken with it; false: a failed attempt made it; null: the turn is not taken (yet)';
COMMENT ON COLUMN call_journal.endpoint_model IS 'The model that answered, as the endpoint calls it';
COMMENT ON COLUMN call_journal.prompt_digest IS 'SHA-256 of the prompt as it was sent';
COMMENT ON COLUMN call_journal.parameters IS 'What else was sent: temperature and the like, as a JSON object';
COMMENT ON COLUMN call_journal.input_tokens IS 'Tokens sent; null where unknown';
COMMENT ON COLUMN call_journal.cached_tokens IS 'Those of the tokens sent that the endpoint had kept';
COMMENT ON COLUMN call_journal.output_tokens IS 'Tokens received; null where unknown';
COMMENT ON COLUMN call_journal.counted IS 'Whether the endpoint counted the tokens; false: they are estimated';
COMMENT ON COLUMN call_journal.cost IS 'In the currency of the prices that are set; null where none are';
COMMENT ON COLUMN call_journal.latency_ms IS 'Milliseconds to the end of the reply, all attempts of the client included';
COMMENT ON COLUMN call_journal.first_words_ms IS 'Milliseconds to the first words of the reply, where it was streamed';
COMMENT ON COLUMN call_journal.attempts IS 'How often the client tried';
COMMENT ON COLUMN call_journal.failures IS 'What went wrong in the tries that failed, as a JSON list of texts';
COMMENT ON COLUMN call_journal.degraded IS 'Why the reply had to be taken as plain text';
COMMENT ON COLUMN call_journal.reply IS 'The reply as the runtime took it, as a JSON object; null where there is none';
COMMENT ON COLUMN call_journal.withheld IS 'Whether the reply is kept without its words (text and raw), since they were not said';

CREATE VIEW llm_calls AS
SELECT * FROM settled_calls
UNION ALL BY NAME
SELECT * REPLACE (NULL::JSON AS reply) FROM call_journal QUALIFY row_number() OVER (PARTITION BY call_id ORDER BY ended_at NULLS LAST) = 1;
COMMENT ON VIEW llm_calls IS 'One row a call of a language model, also of turns that failed or are not taken yet.';
COMMENT ON COLUMN llm_calls.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN llm_calls.session_id IS 'The session; one that was killed before its first turn was kept is in no other table';
COMMENT ON COLUMN llm_calls.user_id IS 'The user of the session';
COMMENT ON COLUMN llm_calls.script_id IS 'The id the author gave the script that asked';
COMMENT ON COLUMN llm_calls.script_version IS 'Number of the version of that script';
COMMENT ON COLUMN llm_calls.turn IS 'The turn it was made for';
COMMENT ON COLUMN llm_calls.number IS 'Number of the call in that turn, over all attempts at it, from 1';
COMMENT ON COLUMN llm_calls.call_id IS 'The call';
COMMENT ON COLUMN llm_calls.purpose IS 'What was asked: say, ask, extract, think, chat, route, detect';
COMMENT ON COLUMN llm_calls.action_id IS 'The action that asked; empty for the script itself';
COMMENT ON COLUMN llm_calls.round IS 'Round of that action: 0 opens the conversation, n judges the nth reply';
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

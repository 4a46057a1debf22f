-- One word for one thing: retention redacts a session, or deletes it.

ALTER TABLE session_starts RENAME COLUMN text_dropped_at TO redacted_at;
COMMENT ON COLUMN session_starts.redacted_at IS 'When its texts and values, its key and its metadata were removed; null: they are present';
COMMENT ON COLUMN session_starts.key IS 'The key the application chose, unique in the tenant; null also in a redacted session';
COMMENT ON TABLE turns IS 'One row a turn: the input, the messages, the variable writes and the state after it. Append-only until its session is redacted: then a row without texts and values replaces it.';

-- The session shows a failed turn as its answer did: also whether sending again can help.

ALTER TABLE turn_failures ADD COLUMN is_lasting BOOLEAN DEFAULT false;
COMMENT ON COLUMN turn_failures.is_lasting IS 'Whether sending the message again cannot help until the settings or the script are fixed';

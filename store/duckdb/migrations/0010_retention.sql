-- What a session said and knew can be dropped after a time, while it goes on being counted. That is noted with the session
-- itself: whoever reads or copies the session has the mark with it, and it goes when the session goes.

ALTER TABLE session_starts ADD COLUMN text_dropped_at TIMESTAMPTZ;
COMMENT ON COLUMN session_starts.text_dropped_at IS 'When its words and values were dropped, and its key and metadata with them; null: they are there';
COMMENT ON COLUMN session_starts.key IS 'The name the application gave it, unique in the tenant; null also once its text is dropped';
COMMENT ON TABLE turns IS 'One row a turn: what came in, what was said and written, and the state it left. Append-only, until the text of its session is dropped: then the row is replaced by one without words and values.';

-- Variables of users that were set outside of their sessions, and receipts for users whose data was erased.
-- A turn keeps its own writes; one that no turn made is a row here, so that no value is without its provenance.

CREATE TABLE user_variable_writes (
    tenant VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    old JSON,
    new JSON,
    type VARCHAR NOT NULL,
    source VARCHAR NOT NULL,
    written_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE user_variable_writes IS 'One row a write of a global variable outside of any session. Append-only.';
COMMENT ON COLUMN user_variable_writes.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN user_variable_writes.user_id IS 'The user';
COMMENT ON COLUMN user_variable_writes.name IS 'Name of the variable';
COMMENT ON COLUMN user_variable_writes.old IS 'Value before; null where it was unset';
COMMENT ON COLUMN user_variable_writes.new IS 'Value after; null where the write unset it';
COMMENT ON COLUMN user_variable_writes.type IS 'Type of the value: text, number, boolean, list, record; null where the write unset it';
COMMENT ON COLUMN user_variable_writes.source IS 'Where the value came from: api';
COMMENT ON COLUMN user_variable_writes.written_at IS 'When it was written';

CREATE TABLE erasures (
    tenant VARCHAR NOT NULL,
    receipt_id VARCHAR NOT NULL,
    erased_at TIMESTAMPTZ NOT NULL,
    counts JSON NOT NULL,
    compacted_at TIMESTAMPTZ
);
COMMENT ON TABLE erasures IS 'One row a user whose data was erased; it does not tell which user that was.';
COMMENT ON COLUMN erasures.tenant IS 'Who the data belonged to';
COMMENT ON COLUMN erasures.receipt_id IS 'The receipt that was given for it';
COMMENT ON COLUMN erasures.erased_at IS 'When the rows were deleted';
COMMENT ON COLUMN erasures.counts IS 'How much was erased, by kind, as a JSON object';
COMMENT ON COLUMN erasures.compacted_at IS 'When the file was rewritten without it; null: its bytes may still be there';

DROP VIEW variable_history;
CREATE VIEW variable_history AS
SELECT tenant, session_id, user_id, turn, finished_at AS written_at, unnest(from_json(variables, '[{"scope": "VARCHAR",
    "name": "VARCHAR", "old": "JSON", "new": "JSON", "type": "VARCHAR", "action_id": "VARCHAR", "source": "VARCHAR",
    "phase_id": "VARCHAR", "topic_id": "VARCHAR"}]'), max_depth := 2)
FROM turns
UNION ALL BY NAME
SELECT tenant, user_id, written_at, 'global' AS scope, name, old, new, type, source FROM user_variable_writes;
COMMENT ON VIEW variable_history IS 'One row a write of a variable, of every scope and session, and outside of sessions.';
COMMENT ON COLUMN variable_history.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN variable_history.session_id IS 'The session; null where no session wrote it';
COMMENT ON COLUMN variable_history.user_id IS 'The user of the session, or whose global variable was set';
COMMENT ON COLUMN variable_history.turn IS 'The turn that wrote it; null where no session did';
COMMENT ON COLUMN variable_history.written_at IS 'When that turn finished, or it was set';
COMMENT ON COLUMN variable_history.scope IS 'global, session, phase or topic';
COMMENT ON COLUMN variable_history.name IS 'Name of the variable';
COMMENT ON COLUMN variable_history.old IS 'Value before; null where it was unset';
COMMENT ON COLUMN variable_history.new IS 'Value after; null where the write unset it';
COMMENT ON COLUMN variable_history.type IS 'Type of the value: text, number, boolean, date, choice, list, record';
COMMENT ON COLUMN variable_history.action_id IS 'The action that wrote it';
COMMENT ON COLUMN variable_history.source IS 'Where the value came from: script, user, model, api, default, migrated';
COMMENT ON COLUMN variable_history.phase_id IS 'The phase that owns a phase or topic variable';
COMMENT ON COLUMN variable_history.topic_id IS 'The topic that owns a topic variable';

-- A session may move to another version of its script. That is a turn like any other, and one row here beside it, in the
-- same transaction: a turn ran on the version of the latest row up to it, or on the one the session began with.
-- A column of turns would repeat the digest in every turn; few sessions ever move.

CREATE TABLE session_migrations (
    tenant VARCHAR NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL,
    why JSON NOT NULL,
    from_script_uuid VARCHAR NOT NULL,
    from_script_id VARCHAR NOT NULL,
    from_version INTEGER NOT NULL,
    from_digest VARCHAR NOT NULL,
    script_uuid VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    migrated_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE session_migrations IS 'One row a move of a session to another version of its script. Append-only.';
COMMENT ON COLUMN session_migrations.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN session_migrations.session_id IS 'The session';
COMMENT ON COLUMN session_migrations.turn IS 'The turn that is the move; it and those after it ran on the new version';
COMMENT ON COLUMN session_migrations.kind IS 'migrate, or undo: back to the version and state before';
COMMENT ON COLUMN session_migrations.verdict IS 'safe, mapped or restart_topic';
COMMENT ON COLUMN session_migrations.why IS 'What became of its place and variables, as a JSON list of texts';
COMMENT ON COLUMN session_migrations.from_script_uuid IS 'The script it left';
COMMENT ON COLUMN session_migrations.from_script_id IS 'The id the author gave that script';
COMMENT ON COLUMN session_migrations.from_version IS 'Number of the version it left';
COMMENT ON COLUMN session_migrations.from_digest IS 'The exact text it left, in script_texts';
COMMENT ON COLUMN session_migrations.script_uuid IS 'The script it moved to';
COMMENT ON COLUMN session_migrations.script_id IS 'The id the author gave that script';
COMMENT ON COLUMN session_migrations.script_version IS 'Number of the version it moved to';
COMMENT ON COLUMN session_migrations.digest IS 'The exact text it moved to, in script_texts';
COMMENT ON COLUMN session_migrations.migrated_at IS 'When it moved';

CREATE VIEW turn_scripts AS
SELECT
    t.tenant, t.session_id, t.turn, coalesce(m.script_id, s.script_id) AS script_id,
    coalesce(m.script_version, s.script_version) AS script_version, coalesce(m.digest, s.digest) AS digest
FROM turns AS t
JOIN session_starts AS s ON s.tenant = t.tenant AND s.session_id = t.session_id
ASOF LEFT JOIN session_migrations AS m ON m.tenant = t.tenant AND m.session_id = t.session_id AND m.turn <= t.turn;
COMMENT ON VIEW turn_scripts IS 'One row a turn: the version of the script it ran on.';
COMMENT ON COLUMN turn_scripts.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN turn_scripts.session_id IS 'The session';
COMMENT ON COLUMN turn_scripts.turn IS 'The turn';
COMMENT ON COLUMN turn_scripts.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN turn_scripts.script_version IS 'Number of the version';
COMMENT ON COLUMN turn_scripts.digest IS 'The exact text, in script_texts';

DROP VIEW sessions;
CREATE VIEW sessions AS
SELECT
    s.tenant, s.session_id, s.user_id, s.key, coalesce(m.script_uuid, s.script_uuid) AS script_uuid,
    coalesce(m.script_id, s.script_id) AS script_id, coalesce(m.script_version, s.script_version) AS script_version,
    coalesce(m.digest, s.digest) AS digest, s.locale, s.seed,
    s.metadata, s.created_at, s.idempotency_key, t.turn, t.status,
    CASE WHEN f.session_id IS NULL THEN t.execution_status ELSE 'error' END AS execution_status, t.phase_id, t.topic_id, t.action_id,
    t.action_type, t.wait_kind, t.message_count, t.event_count, t.finished_at AS updated_at,
    CASE WHEN t.status = 'completed' THEN t.finished_at END AS completed_at
FROM session_starts AS s
JOIN (SELECT tenant, session_id, max(turn) AS turn FROM turns GROUP BY tenant, session_id) AS latest USING (tenant, session_id)
JOIN turns AS t USING (tenant, session_id, turn)
LEFT JOIN (
    SELECT tenant, session_id, script_uuid, script_id, script_version, digest FROM session_migrations
    QUALIFY row_number() OVER (PARTITION BY tenant, session_id ORDER BY turn DESC) = 1
) AS m USING (tenant, session_id)
LEFT JOIN (SELECT DISTINCT tenant, session_id, turn_attempted - 1 AS turn FROM turn_failures) AS f
    USING (tenant, session_id, turn);
COMMENT ON VIEW sessions IS 'One row a session: how it was created, and where its latest turn left it.';
COMMENT ON COLUMN sessions.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN sessions.session_id IS 'The session';
COMMENT ON COLUMN sessions.user_id IS 'The user it talks with';
COMMENT ON COLUMN sessions.key IS 'The name the application gave it, unique in the tenant';
COMMENT ON COLUMN sessions.script_uuid IS 'The script it runs now';
COMMENT ON COLUMN sessions.script_id IS 'The id the author gave that script';
COMMENT ON COLUMN sessions.script_version IS 'Number of the version of the script it runs now';
COMMENT ON COLUMN sessions.digest IS 'The exact text it runs now, in script_texts';
COMMENT ON COLUMN sessions.locale IS 'Language and country of the conversation';
COMMENT ON COLUMN sessions.seed IS 'Seed of its random choices';
COMMENT ON COLUMN sessions.metadata IS 'What the application attached at creation';
COMMENT ON COLUMN sessions.created_at IS 'When it was created';
COMMENT ON COLUMN sessions.idempotency_key IS 'Key of the request that created it';
COMMENT ON COLUMN sessions.turn IS 'Number of the latest turn';
COMMENT ON COLUMN sessions.status IS 'active, paused, completed or failed';
COMMENT ON COLUMN sessions.execution_status IS 'running, waiting_input, paused, completed or error';
COMMENT ON COLUMN sessions.phase_id IS 'Phase it stands in';
COMMENT ON COLUMN sessions.topic_id IS 'Topic it stands in';
COMMENT ON COLUMN sessions.action_id IS 'Action it stands at';
COMMENT ON COLUMN sessions.action_type IS 'Type of that action';
COMMENT ON COLUMN sessions.wait_kind IS 'What it waits for: text, choice, form, acknowledge, suggestion; null for nothing';
COMMENT ON COLUMN sessions.message_count IS 'Messages so far';
COMMENT ON COLUMN sessions.event_count IS 'Events so far';
COMMENT ON COLUMN sessions.updated_at IS 'When the latest turn finished';
COMMENT ON COLUMN sessions.completed_at IS 'When it was completed; null before';

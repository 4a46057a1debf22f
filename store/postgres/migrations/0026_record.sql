-- The tables as of migration 26 of the database file, with the same names and columns. Later migrations of both have the
-- same numbers. A turn is one row, written once. Lists of a turn are JSON text, as the runtime encodes them: `json`, not
-- `jsonb`, because the text must come back unchanged, and because `jsonb` refuses U+0000.
-- Names and ids are compared by their bytes (collation "C"), as in the database file.

CREATE TABLE turns (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    turn INTEGER NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    execution_status TEXT COLLATE "C" NOT NULL,
    phase_id TEXT COLLATE "C",
    topic_id TEXT COLLATE "C",
    action_id TEXT COLLATE "C",
    action_type TEXT COLLATE "C",
    wait_kind TEXT COLLATE "C",
    state JSON NOT NULL,
    idempotency_key TEXT COLLATE "C",
    fingerprint TEXT COLLATE "C",
    messages JSON NOT NULL,
    variables JSON NOT NULL,
    events JSON NOT NULL,
    message_count INTEGER NOT NULL,
    event_count INTEGER NOT NULL,
    commit_number BIGINT,
    changed_in XID8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (tenant, session_id, turn)
);
COMMENT ON COLUMN turns.commit_number IS 'Number of the group that committed it, drawn at random; null if it was imported';
COMMENT ON COLUMN turns.changed_in IS 'The transaction that wrote the row; analytics reads what is newer';
CREATE INDEX turns_by_key ON turns (tenant, session_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX turns_by_user ON turns (tenant, user_id);
CREATE INDEX turns_by_change ON turns (changed_in);

CREATE TABLE turn_texts (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER NOT NULL,
    finished_at TIMESTAMPTZ NOT NULL,
    content TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, session_id, turn)
);
COMMENT ON TABLE turn_texts IS 'What is said in each turn, without case: a search reads a tenth of the bytes of turns';
CREATE INDEX turn_texts_by_time ON turn_texts (tenant, finished_at DESC, session_id DESC, turn DESC);

CREATE TABLE session_starts (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C",
    script_uuid TEXT COLLATE "C" NOT NULL,
    script_id TEXT COLLATE "C" NOT NULL,
    script_version INTEGER NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    locale TEXT COLLATE "C",
    seed BIGINT NOT NULL,
    metadata JSON NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    idempotency_key TEXT COLLATE "C",
    redacted_at TIMESTAMPTZ,
    PRIMARY KEY (tenant, session_id)
);
CREATE UNIQUE INDEX session_starts_by_key ON session_starts (tenant, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX session_starts_by_idempotency_key ON session_starts (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX session_starts_by_user ON session_starts (tenant, user_id);
CREATE INDEX session_starts_by_time ON session_starts (tenant, created_at DESC, session_id DESC);

CREATE TABLE session_heads (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER NOT NULL,
    message_count INTEGER NOT NULL,
    event_count INTEGER NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    execution_status TEXT COLLATE "C" NOT NULL,
    active_at TIMESTAMPTZ NOT NULL,
    outcome TEXT COLLATE "C",
    gaps JSON NOT NULL,
    PRIMARY KEY (tenant, session_id)
);
COMMENT ON TABLE session_heads IS 'One row per session with its latest turn. A transaction that adds a turn locks it';
COMMENT ON COLUMN session_heads.active_at IS 'When the latest turn finished or the session was created, the later of both';
COMMENT ON COLUMN session_heads.outcome IS 'How the conversation ended, from the state after the latest turn';
COMMENT ON COLUMN session_heads.gaps IS 'The ranges of messages that are no longer in the conversation, from that state';
CREATE INDEX session_heads_by_time ON session_heads (tenant, active_at DESC, session_id DESC);
CREATE INDEX session_heads_by_status ON session_heads (tenant, status, active_at DESC, session_id DESC);

CREATE TABLE turn_claims (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER NOT NULL,
    owner UUID NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, session_id)
);
COMMENT ON TABLE turn_claims IS 'One row per session whose next turn has called a model or a tool: no other server may run it';
COMMENT ON COLUMN turn_claims.owner IS 'The server that runs the turn';

CREATE TABLE session_migrations (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    verdict TEXT COLLATE "C" NOT NULL,
    why JSON NOT NULL,
    from_script_uuid TEXT COLLATE "C" NOT NULL,
    from_script_id TEXT COLLATE "C" NOT NULL,
    from_version INTEGER NOT NULL,
    from_digest TEXT COLLATE "C" NOT NULL,
    script_uuid TEXT COLLATE "C" NOT NULL,
    script_id TEXT COLLATE "C" NOT NULL,
    script_version INTEGER NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    migrated_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX session_migrations_of_session ON session_migrations (tenant, session_id, turn DESC);

CREATE TABLE turn_failures (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    turn_attempted INTEGER NOT NULL,
    code TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    phase_id TEXT COLLATE "C",
    topic_id TEXT COLLATE "C",
    action_id TEXT COLLATE "C",
    failed_at TIMESTAMPTZ NOT NULL,
    is_lasting BOOLEAN DEFAULT false
);
CREATE INDEX turn_failures_of_session ON turn_failures (tenant, session_id);

CREATE TABLE settled_calls (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    script_id TEXT COLLATE "C" NOT NULL,
    script_version INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    number INTEGER NOT NULL,
    call_id TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C" NOT NULL,
    action_id TEXT COLLATE "C" NOT NULL,
    round INTEGER NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    request_digest TEXT COLLATE "C" NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ,
    outcome TEXT COLLATE "C" NOT NULL,
    error TEXT COLLATE "C",
    used BOOLEAN,
    endpoint_model TEXT COLLATE "C",
    prompt_digest TEXT COLLATE "C",
    parameters JSON,
    input_tokens BIGINT,
    cached_tokens BIGINT,
    output_tokens BIGINT,
    counted BOOLEAN,
    cost DOUBLE PRECISION,
    latency_ms INTEGER,
    first_words_ms INTEGER,
    attempts INTEGER,
    failures JSON,
    degraded TEXT COLLATE "C",
    reply JSON,
    withheld BOOLEAN NOT NULL,
    prompt TEXT COLLATE "C"
);
CREATE INDEX settled_calls_of_session ON settled_calls (tenant, session_id);
CREATE INDEX settled_calls_by_user ON settled_calls (tenant, user_id);
CREATE INDEX settled_calls_by_time ON settled_calls (tenant, started_at);

CREATE TABLE call_journal (LIKE settled_calls);
ALTER TABLE call_journal DROP COLUMN prompt;
CREATE INDEX call_journal_of_session ON call_journal (tenant, session_id);
CREATE INDEX call_journal_by_time ON call_journal (tenant, started_at);

CREATE TABLE memory_calls (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    call_id TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    request_digest TEXT COLLATE "C" NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ,
    outcome TEXT COLLATE "C" NOT NULL,
    error TEXT COLLATE "C",
    endpoint_model TEXT COLLATE "C",
    prompt_digest TEXT COLLATE "C",
    parameters JSON,
    input_tokens BIGINT,
    cached_tokens BIGINT,
    output_tokens BIGINT,
    counted BOOLEAN,
    cost DOUBLE PRECISION,
    latency_ms INTEGER,
    first_words_ms INTEGER,
    attempts INTEGER,
    failures JSON,
    degraded TEXT COLLATE "C",
    PRIMARY KEY (tenant, call_id)
);
CREATE INDEX memory_calls_by_time ON memory_calls (tenant, started_at);

CREATE TABLE user_variable_values (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    value JSON NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, user_id, name)
);

CREATE TABLE user_variable_writes (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    old JSON,
    new JSON,
    type TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    written_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX user_variable_writes_of_user ON user_variable_writes (tenant, user_id, written_at);

CREATE TABLE script_texts (
    tenant TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    text TEXT COLLATE "C" NOT NULL,
    files JSON NOT NULL,
    form TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, digest)
);

CREATE TABLE scripts (
    tenant TEXT COLLATE "C" NOT NULL,
    script_uuid TEXT COLLATE "C" NOT NULL,
    script_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    version INTEGER NOT NULL,
    version_label TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    tags TEXT[] NOT NULL,
    author TEXT COLLATE "C",
    description TEXT COLLATE "C",
    PRIMARY KEY (tenant, script_uuid, version)
);
CREATE INDEX scripts_by_id ON scripts (tenant, script_id);

CREATE TABLE drafts (
    tenant TEXT COLLATE "C" NOT NULL,
    script_id TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    base_version INTEGER,
    text TEXT COLLATE "C" NOT NULL,
    files JSON NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, script_id)
);

CREATE TABLE api_keys (
    tenant TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    roles TEXT[] NOT NULL,
    user_id TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ,
    last_used_at TIMESTAMPTZ,
    PRIMARY KEY (tenant, key_id)
);

CREATE TABLE erasures (
    tenant TEXT COLLATE "C" NOT NULL,
    receipt_id TEXT COLLATE "C" NOT NULL,
    erased_at TIMESTAMPTZ NOT NULL,
    counts JSON NOT NULL,
    compacted_at TIMESTAMPTZ,
    PRIMARY KEY (tenant, receipt_id)
);

CREATE TABLE webhooks (
    tenant TEXT COLLATE "C" NOT NULL,
    webhook_id UUID NOT NULL,
    url TEXT COLLATE "C" NOT NULL,
    events TEXT[] NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    paused_because TEXT COLLATE "C",
    failing_since TIMESTAMPTZ,
    secret_id UUID NOT NULL,
    old_secret_id UUID,
    old_secret_until TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, webhook_id)
);

CREATE TABLE webhook_deliveries (
    tenant TEXT COLLATE "C" NOT NULL,
    delivery_id UUID NOT NULL,
    webhook_id UUID NOT NULL,
    session_id UUID NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    turn INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    payload JSON NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at TIMESTAMPTZ NOT NULL,
    attempted_at TIMESTAMPTZ,
    last_status INTEGER,
    last_error TEXT COLLATE "C",
    settled_at TIMESTAMPTZ,
    PRIMARY KEY (tenant, delivery_id)
);
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (webhook_id, tenant, session_id, turn, number)
    WHERE status = 'pending';
CREATE INDEX webhook_deliveries_of_webhook ON webhook_deliveries (tenant, webhook_id, created_at DESC);
CREATE INDEX webhook_deliveries_by_user ON webhook_deliveries (tenant, user_id);
CREATE INDEX webhook_deliveries_of_session ON webhook_deliveries (tenant, session_id);

CREATE TABLE timers (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    turn INTEGER NOT NULL,
    timer_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    action_id TEXT COLLATE "C" NOT NULL,
    moment TEXT COLLATE "C" NOT NULL,
    due TIMESTAMPTZ NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at TIMESTAMPTZ NOT NULL,
    error TEXT COLLATE "C",
    PRIMARY KEY (tenant, session_id, timer_id)
);
CREATE INDEX timers_pending ON timers (next_attempt_at) WHERE status = 'pending';

CREATE TABLE hand_overs (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    turn INTEGER NOT NULL,
    script_id TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    since TIMESTAMPTZ NOT NULL,
    action_id TEXT COLLATE "C" NOT NULL,
    operator TEXT COLLATE "C" NOT NULL,
    has_ended BOOLEAN NOT NULL,
    PRIMARY KEY (tenant, session_id)
);

CREATE TABLE links (
    tenant TEXT COLLATE "C" NOT NULL,
    link_id TEXT COLLATE "C" PRIMARY KEY,
    script_id TEXT COLLATE "C" NOT NULL,
    version INTEGER,
    users TEXT COLLATE "C" NOT NULL,
    resumes BOOLEAN NOT NULL,
    sessions_max INTEGER NOT NULL,
    access_days INTEGER NOT NULL,
    initial_variables JSON NOT NULL,
    locale TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ
);

CREATE TABLE participants (
    tenant TEXT COLLATE "C" NOT NULL,
    participant_id TEXT COLLATE "C" PRIMARY KEY,
    link_id TEXT COLLATE "C",
    user_id TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    script_id TEXT COLLATE "C" NOT NULL,
    version INTEGER,
    locale TEXT COLLATE "C",
    timezone TEXT COLLATE "C",
    resume_digest TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ,
    push JSON
);
CREATE INDEX participants_of_link ON participants (tenant, link_id, created_at DESC);
CREATE INDEX participants_by_user ON participants (tenant, user_id);
CREATE INDEX participants_of_session ON participants (tenant, session_id);

CREATE TABLE reviews (
    tenant TEXT COLLATE "C" NOT NULL,
    review_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    instructions TEXT COLLATE "C" NOT NULL,
    unit TEXT COLLATE "C" NOT NULL,
    questions JSON NOT NULL,
    is_blind BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    closed_at TIMESTAMPTZ,
    PRIMARY KEY (tenant, review_id)
);

CREATE TABLE review_targets (
    tenant TEXT COLLATE "C" NOT NULL,
    review_id TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER,
    PRIMARY KEY (tenant, review_id, number)
);
CREATE INDEX review_targets_of_session ON review_targets (tenant, session_id);

CREATE TABLE ratings (
    tenant TEXT COLLATE "C" NOT NULL,
    review_id TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER,
    rater TEXT COLLATE "C" NOT NULL,
    answers JSON NOT NULL,
    texts JSON NOT NULL,
    rated_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX ratings_of_target ON ratings (tenant, review_id, session_id);
CREATE INDEX ratings_of_session ON ratings (tenant, session_id);

CREATE TABLE saved_queries (
    tenant TEXT COLLATE "C" NOT NULL,
    query_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    sql TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, query_id)
);

CREATE TABLE dashboards (
    tenant TEXT COLLATE "C" NOT NULL,
    dashboard_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    tiles JSON NOT NULL,
    schedule JSON,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, dashboard_id)
);

CREATE TABLE memory_owners (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    memory_id TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL,
    is_stale BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, user_id)
);

CREATE TABLE memory_groups (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    group_id TEXT COLLATE "C" NOT NULL,
    session_id UUID,
    turn INTEGER NOT NULL,
    short_term JSON,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, user_id, group_id)
);
CREATE INDEX memory_groups_of_session ON memory_groups (tenant, session_id);

CREATE TABLE memory_unit_rows (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    unit_id TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL,
    group_id TEXT COLLATE "C" NOT NULL,
    session_id UUID,
    turn INTEGER,
    message INTEGER,
    rank INTEGER NOT NULL,
    level INTEGER NOT NULL,
    content TEXT COLLATE "C",
    source TEXT COLLATE "C" NOT NULL,
    creation_time TIMESTAMPTZ NOT NULL,
    end_time TIMESTAMPTZ NOT NULL,
    metadata JSON NOT NULL,
    parent_id TEXT COLLATE "C",
    visit_count INTEGER NOT NULL,
    last_visit BIGINT NOT NULL,
    never_delete BOOLEAN NOT NULL,
    trust TEXT COLLATE "C" NOT NULL,
    is_extract BOOLEAN NOT NULL,
    is_stale BOOLEAN NOT NULL,
    tells_from BIGINT NOT NULL,
    valid_from TIMESTAMPTZ NOT NULL,
    valid_to TIMESTAMPTZ,
    superseded_by TEXT COLLATE "C",
    duplicate_of TEXT COLLATE "C",
    PRIMARY KEY (tenant, user_id, sequence)
);
CREATE INDEX memory_unit_rows_of_session ON memory_unit_rows (tenant, session_id);

CREATE TABLE memory_vectors (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    session_id UUID,
    sequence BIGINT NOT NULL,
    embedder TEXT COLLATE "C" NOT NULL,
    vector BYTEA NOT NULL,
    PRIMARY KEY (tenant, user_id, embedder, sequence)
);
CREATE INDEX memory_vectors_of_session ON memory_vectors (tenant, session_id);

CREATE TABLE memory_jobs (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    job_id UUID NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    options JSON NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    done INTEGER NOT NULL,
    total INTEGER NOT NULL,
    result JSON,
    error TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, job_id)
);
CREATE INDEX memory_jobs_of_user ON memory_jobs (tenant, user_id, created_at);

CREATE SEQUENCE memory_version_numbers;

CREATE TABLE memory_versions (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (tenant, user_id)
);
COMMENT ON TABLE memory_versions IS 'One row per memory that was changed; a server that has loaded another version reads it again. No number is used twice, so that a memory that was erased and begun again has another one';

CREATE TABLE erased_users (
    tenant TEXT COLLATE "C" NOT NULL,
    user_digest TEXT COLLATE "C" NOT NULL,
    erased_at TIMESTAMPTZ NOT NULL,
    memory_version BIGINT NOT NULL,
    PRIMARY KEY (tenant, user_digest)
);
COMMENT ON TABLE erased_users IS 'Users who were erased in the last hour: what began before on another server is refused';
COMMENT ON COLUMN erased_users.memory_version IS 'The version of the memory, until it is begun again';

CREATE TABLE changed_sessions (
    tenant TEXT COLLATE "C" NOT NULL,
    session_id UUID NOT NULL,
    changed_in XID8 NOT NULL DEFAULT pg_current_xact_id(),
    changed_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
COMMENT ON TABLE changed_sessions IS 'Sessions that were deleted, redacted or renamed; analytics reads them again as a whole';
CREATE INDEX changed_sessions_by_change ON changed_sessions (changed_in);
CREATE INDEX changed_sessions_by_time ON changed_sessions (changed_at);

CREATE TABLE servers (
    owner UUID PRIMARY KEY,
    seen_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE servers IS 'One row per server that uses the database; it is renewed every few seconds';

CREATE TABLE leaders (
    job TEXT COLLATE "C" PRIMARY KEY,
    owner UUID NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE leaders IS 'The server that does what one server at a time does, until its row expires';

CREATE TABLE job_runs (
    job TEXT COLLATE "C" PRIMARY KEY,
    ended_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE job_runs IS 'When a job that is done now and then was last done to its end, by any server';

CREATE TABLE key_digests (
    name TEXT COLLATE "C" PRIMARY KEY,
    digest TEXT COLLATE "C" NOT NULL
);
COMMENT ON TABLE key_digests IS 'Digests of the key files of the servers, which must all have the same';

-- Long-term memory: one for each user. Units that are messages have their row here and their words in the turns; everything
-- else has its own. The only edge that is stored is a unit's parent: its neighbours follow from the order of a group, its
-- children from their parents, so no two of them can disagree. Vectors are derived; the index over them is a file beside
-- the record that is rebuilt and never trusted.

CREATE TABLE memory_owners (
    tenant VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    memory_id VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    is_stale BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE memory_owners IS 'One row a user of whom there is a long-term memory.';
COMMENT ON COLUMN memory_owners.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN memory_owners.user_id IS 'The user';
COMMENT ON COLUMN memory_owners.memory_id IS 'The long-term memory; the unit that sums it all up has this id too';
COMMENT ON COLUMN memory_owners.sequence IS 'The number of the latest unit there ever was; numbers are never given twice';
COMMENT ON COLUMN memory_owners.is_stale IS 'Whether the summary of it all tells of what has been removed since, and is to be made anew';
COMMENT ON COLUMN memory_owners.created_at IS 'When it was made';

CREATE TABLE memory_groups (
    tenant VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    group_id VARCHAR NOT NULL,
    session_id UUID,
    turn INTEGER NOT NULL,
    short_term JSON,
    created_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE memory_groups IS 'One row a chain of units: a session, or a collection that an application named.';
COMMENT ON COLUMN memory_groups.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN memory_groups.user_id IS 'Whose memory it is';
COMMENT ON COLUMN memory_groups.group_id IS 'The group: of a session its id; the unit that sums it up has this id too';
COMMENT ON COLUMN memory_groups.session_id IS 'The session; null for a collection';
COMMENT ON COLUMN memory_groups.turn IS 'The last turn of the session whose messages are units, or would be; -1: none, or no session';
COMMENT ON COLUMN memory_groups.short_term IS 'What it has in mind: a JSON object of capacity and unit numbers, the oldest use first; null: nothing';
COMMENT ON COLUMN memory_groups.created_at IS 'When it was made';

CREATE TABLE memory_unit_rows (
    tenant VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    unit_id VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    group_id VARCHAR NOT NULL,
    session_id UUID,
    turn INTEGER,
    message INTEGER,
    rank INTEGER NOT NULL,
    level INTEGER NOT NULL,
    content VARCHAR,
    source VARCHAR NOT NULL,
    creation_time TIMESTAMPTZ NOT NULL,
    end_time TIMESTAMPTZ NOT NULL,
    metadata JSON NOT NULL,
    parent_id VARCHAR,
    visit_count INTEGER NOT NULL,
    last_visit BIGINT NOT NULL,
    never_delete BOOLEAN NOT NULL,
    trust VARCHAR NOT NULL,
    is_extract BOOLEAN NOT NULL,
    is_stale BOOLEAN NOT NULL,
    tells_from BIGINT NOT NULL,
    valid_from TIMESTAMPTZ NOT NULL,
    valid_to TIMESTAMPTZ,
    superseded_by VARCHAR,
    duplicate_of VARCHAR
);
COMMENT ON TABLE memory_unit_rows IS 'One row a unit of memory; the words of one that is a message are in its turn. The view memory_units has everything.';
COMMENT ON COLUMN memory_unit_rows.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN memory_unit_rows.user_id IS 'Whose memory it is';
COMMENT ON COLUMN memory_unit_rows.unit_id IS 'The unit: of a message its session and number, with a colon between them';
COMMENT ON COLUMN memory_unit_rows.sequence IS 'Its number in the memory, in the order units came; also the label of its vector';
COMMENT ON COLUMN memory_unit_rows.group_id IS 'The group it belongs to; of what sums up all of them, the memory';
COMMENT ON COLUMN memory_unit_rows.session_id IS 'The session it is of; null for one that is of none';
COMMENT ON COLUMN memory_unit_rows.turn IS 'The turn of that session it came from';
COMMENT ON COLUMN memory_unit_rows.message IS 'The number of the message it is; null for one that is none';
COMMENT ON COLUMN memory_unit_rows.rank IS '0: something said or noted; 1: sums up a group; 2: sums up groups';
COMMENT ON COLUMN memory_unit_rows.level IS 'Height above what was said: 0 itself, 1 a summary of it, 2 a summary of summaries, and so on';
COMMENT ON COLUMN memory_unit_rows.content IS 'Its words; null for a message';
COMMENT ON COLUMN memory_unit_rows.source IS 'Who it comes from: user, assistant, a name, summary';
COMMENT ON COLUMN memory_unit_rows.creation_time IS 'When what it tells began';
COMMENT ON COLUMN memory_unit_rows.end_time IS 'When what it tells ended';
COMMENT ON COLUMN memory_unit_rows.metadata IS 'What else is known of it';
COMMENT ON COLUMN memory_unit_rows.parent_id IS 'The unit that sums it up with others; null for none';
COMMENT ON COLUMN memory_unit_rows.visit_count IS 'How often it was recalled';
COMMENT ON COLUMN memory_unit_rows.last_visit IS 'The latest number in the memory when it, or one below it, was last recalled';
COMMENT ON COLUMN memory_unit_rows.never_delete IS 'Whether it is kept from being forgotten';
COMMENT ON COLUMN memory_unit_rows.trust IS 'own: the words of the script or application; told: said by users or models; foreign: brought from elsewhere';
COMMENT ON COLUMN memory_unit_rows.is_extract IS 'Whether it is a summary made of sentences of what it sums up, without a model';
COMMENT ON COLUMN memory_unit_rows.is_stale IS 'Whether it is a summary of what is no more, or was corrected, and is to be made anew';
COMMENT ON COLUMN memory_unit_rows.tells_from IS 'Of a summary the first number of what was said that it tells of, its place among others; else 0';
COMMENT ON COLUMN memory_unit_rows.valid_from IS 'From when on it holds';
COMMENT ON COLUMN memory_unit_rows.valid_to IS 'Until when it held; null: it still does';
COMMENT ON COLUMN memory_unit_rows.superseded_by IS 'The unit that holds in its place';
COMMENT ON COLUMN memory_unit_rows.duplicate_of IS 'An earlier unit that says the same';

CREATE TABLE memory_vectors (
    tenant VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    session_id UUID,
    sequence BIGINT NOT NULL,
    embedder VARCHAR NOT NULL,
    vector BLOB NOT NULL USING COMPRESSION uncompressed
);
COMMENT ON TABLE memory_vectors IS 'The meaning of a unit as an embedder sees it. Derived; vectors of several embedders are never compared.';
COMMENT ON COLUMN memory_vectors.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN memory_vectors.user_id IS 'Whose memory it is';
COMMENT ON COLUMN memory_vectors.session_id IS 'The session of the unit; null for none';
COMMENT ON COLUMN memory_vectors.sequence IS 'The number of the unit';
COMMENT ON COLUMN memory_vectors.embedder IS 'The embedder, with its model, dimension and digest';
COMMENT ON COLUMN memory_vectors.vector IS 'Numbers of 32 bits, the low byte first, of length 1 together; empty: the embedder sees nothing in it';

CREATE TABLE memory_jobs (
    tenant VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    job_id UUID NOT NULL,
    kind VARCHAR NOT NULL,
    options JSON NOT NULL,
    status VARCHAR NOT NULL,
    done INTEGER NOT NULL,
    total INTEGER NOT NULL,
    result JSON,
    error VARCHAR,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE memory_jobs IS 'Work on memories that somebody asked for, and what came of it. One that was interrupted is taken up again.';
COMMENT ON COLUMN memory_jobs.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN memory_jobs.user_id IS 'Whose memory it is';
COMMENT ON COLUMN memory_jobs.job_id IS 'The job';
COMMENT ON COLUMN memory_jobs.kind IS 'What is done: summarise, forget, embed';
COMMENT ON COLUMN memory_jobs.options IS 'How, as a JSON object';
COMMENT ON COLUMN memory_jobs.status IS 'queued, running, done or failed';
COMMENT ON COLUMN memory_jobs.done IS 'Units that are done';
COMMENT ON COLUMN memory_jobs.total IS 'Units there are to do; 0 until that is known';
COMMENT ON COLUMN memory_jobs.result IS 'What came of it, as a JSON object';
COMMENT ON COLUMN memory_jobs.error IS 'Why it failed';
COMMENT ON COLUMN memory_jobs.created_at IS 'When it was asked for';
COMMENT ON COLUMN memory_jobs.updated_at IS 'When this row last changed';

CREATE VIEW memory_units AS
SELECT
    u.tenant, u.user_id, u.unit_id, u.sequence, u.group_id, u.session_id, u.turn, u.message, u.rank, u.level,
    coalesce(u.content, m.content, '') AS content, u.source, u.creation_time, u.end_time, u.metadata, u.parent_id,
    CASE WHEN u.rank = 0 THEN lag(u.unit_id) OVER chain END AS pre_id,
    CASE WHEN u.rank = 0 THEN lead(u.unit_id) OVER chain END AS next_id,
    u.visit_count, u.last_visit, u.never_delete, u.trust, u.is_extract, u.is_stale, u.tells_from, u.valid_from, u.valid_to, u.superseded_by,
    u.duplicate_of
FROM memory_unit_rows AS u
LEFT JOIN messages AS m ON m.tenant = u.tenant AND m.session_id = u.session_id AND m.seq = u.message
WINDOW chain AS (PARTITION BY u.tenant, u.user_id, u.group_id, u.rank ORDER BY u.sequence);
COMMENT ON VIEW memory_units IS 'One row a unit of memory, with its words and neighbours.';
COMMENT ON COLUMN memory_units.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN memory_units.user_id IS 'Whose memory it is';
COMMENT ON COLUMN memory_units.unit_id IS 'The unit: of a message its session and number, with a colon between them';
COMMENT ON COLUMN memory_units.sequence IS 'Its number in the memory, in the order units came';
COMMENT ON COLUMN memory_units.group_id IS 'The group it belongs to; of what sums up all of them, the memory';
COMMENT ON COLUMN memory_units.session_id IS 'The session it is of; null for one that is of none';
COMMENT ON COLUMN memory_units.turn IS 'The turn of that session it came from';
COMMENT ON COLUMN memory_units.message IS 'The number of the message it is; null for one that is none';
COMMENT ON COLUMN memory_units.rank IS '0: something said or noted; 1: sums up a group; 2: sums up groups';
COMMENT ON COLUMN memory_units.level IS 'Height above what was said: 0 itself, 1 a summary of it, 2 a summary of summaries, and so on';
COMMENT ON COLUMN memory_units.content IS 'Its words';
COMMENT ON COLUMN memory_units.source IS 'Who it comes from: user, assistant, a name, summary';
COMMENT ON COLUMN memory_units.creation_time IS 'When what it tells began';
COMMENT ON COLUMN memory_units.end_time IS 'When what it tells ended';
COMMENT ON COLUMN memory_units.metadata IS 'What else is known of it';
COMMENT ON COLUMN memory_units.parent_id IS 'The unit that sums it up with others; null for none';
COMMENT ON COLUMN memory_units.pre_id IS 'What was said before it in its group; null for the first';
COMMENT ON COLUMN memory_units.next_id IS 'What was said after it in its group; null for the last';
COMMENT ON COLUMN memory_units.visit_count IS 'How often it was recalled';
COMMENT ON COLUMN memory_units.last_visit IS 'The latest number in the memory when it, or one below it, was last recalled';
COMMENT ON COLUMN memory_units.never_delete IS 'Whether it is kept from being forgotten';
COMMENT ON COLUMN memory_units.trust IS 'own: the words of the script or application; told: said by users or models; foreign: brought from elsewhere';
COMMENT ON COLUMN memory_units.is_extract IS 'Whether it is a summary made of sentences of what it sums up, without a model';
COMMENT ON COLUMN memory_units.is_stale IS 'Whether it is a summary of what is no more, or was corrected, and is to be made anew';
COMMENT ON COLUMN memory_units.tells_from IS 'Of a summary the first number of what was said that it tells of, its place among others; else 0';
COMMENT ON COLUMN memory_units.valid_from IS 'From when on it holds';
COMMENT ON COLUMN memory_units.valid_to IS 'Until when it held; null: it still does';
COMMENT ON COLUMN memory_units.superseded_by IS 'The unit that holds in its place';
COMMENT ON COLUMN memory_units.duplicate_of IS 'An earlier unit that says the same';

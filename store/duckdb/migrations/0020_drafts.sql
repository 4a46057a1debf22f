-- The texts that authors work on, as saved last; they may have errors. Publishing adds a version of the script.

CREATE TABLE drafts (
    tenant VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    revision BIGINT NOT NULL,
    base_version INTEGER,
    text VARCHAR NOT NULL,
    files JSON NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE drafts IS 'One row per script with unpublished changes: its text as saved last, with errors or not';
COMMENT ON COLUMN drafts.tenant IS 'The tenant of the script';
COMMENT ON COLUMN drafts.script_id IS 'The id of the script, which may have no version yet';
COMMENT ON COLUMN drafts.revision IS 'Grows with every save; also after the draft was deleted and created again';
COMMENT ON COLUMN drafts.base_version IS 'The version of the script that the draft began from; null for a new script';
COMMENT ON COLUMN drafts.text IS 'The YAML of the script';
COMMENT ON COLUMN drafts.files IS 'The texts of its include files, by name';
COMMENT ON COLUMN drafts.created_at IS 'When the draft was created';
COMMENT ON COLUMN drafts.updated_at IS 'When it was saved last';

-- Queries over the analytics tables that analysts save by name, for everybody of their tenant.

CREATE TABLE saved_queries (
    tenant VARCHAR NOT NULL,
    query_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    sql VARCHAR NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE saved_queries IS 'One row per saved query of a tenant';
COMMENT ON COLUMN saved_queries.tenant IS 'The tenant of the query';
COMMENT ON COLUMN saved_queries.query_id IS 'The id of the query';
COMMENT ON COLUMN saved_queries.name IS 'Its name, for people';
COMMENT ON COLUMN saved_queries.sql IS 'Its text';
COMMENT ON COLUMN saved_queries.created_at IS 'When it was created';
COMMENT ON COLUMN saved_queries.updated_at IS 'When it was changed last';

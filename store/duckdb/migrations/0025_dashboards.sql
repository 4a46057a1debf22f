-- Dashboards: reports and saved queries that analysts see together, and that the server may write to files.

CREATE TABLE dashboards (
    tenant VARCHAR NOT NULL,
    dashboard_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    tiles JSON NOT NULL,
    schedule JSON,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE dashboards IS 'One row per dashboard of a tenant';
COMMENT ON COLUMN dashboards.tenant IS 'The tenant of the dashboard';
COMMENT ON COLUMN dashboards.dashboard_id IS 'The id of the dashboard';
COMMENT ON COLUMN dashboards.name IS 'Its name, for people';
COMMENT ON COLUMN dashboards.tiles IS 'Its reports and queries, in order';
COMMENT ON COLUMN dashboards.schedule IS 'When it is written to a file; null: only on request';
COMMENT ON COLUMN dashboards.created_at IS 'When it was created';
COMMENT ON COLUMN dashboards.updated_at IS 'When it was changed last';

-- Who may use the API. A key is 256 random bits that are shown once and kept nowhere: there is nothing to guess, so a
-- plain SHA-256 hides it as well as a slow hash would, which every request would have to pay for.
-- Keys that are revoked stay, so that a record that once had keys is never open again.

CREATE TABLE api_keys (
    tenant VARCHAR NOT NULL,
    key_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    digest VARCHAR NOT NULL,
    roles VARCHAR[] NOT NULL,
    user_id VARCHAR,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ,
    last_used_at TIMESTAMPTZ
);
COMMENT ON TABLE api_keys IS 'One row a key of the API, as it is now; the key itself is not kept.';
COMMENT ON COLUMN api_keys.tenant IS 'Whose data the key opens';
COMMENT ON COLUMN api_keys.key_id IS 'The key; it stands in its text, between the first two underscores';
COMMENT ON COLUMN api_keys.name IS 'What it is for, as its maker called it';
COMMENT ON COLUMN api_keys.digest IS 'SHA-256 of its text';
COMMENT ON COLUMN api_keys.roles IS 'What it may do: app, author, analyst, admin';
COMMENT ON COLUMN api_keys.user_id IS 'The one user whose sessions it reaches; null for all of them';
COMMENT ON COLUMN api_keys.created_at IS 'When it was made';
COMMENT ON COLUMN api_keys.expires_at IS 'When it stops working by itself; null for never';
COMMENT ON COLUMN api_keys.revoked_at IS 'When it was revoked; null where it was not';
COMMENT ON COLUMN api_keys.last_used_at IS 'When it was last used, to the hour; null where it never was';

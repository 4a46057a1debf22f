-- Links that open a script to people in browsers, and the people in browsers: each has one session, for which the
-- server signs short-lived tokens. Revoked links stay, so that an id is never used again.

CREATE TABLE links (
    tenant VARCHAR NOT NULL,
    link_id VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    version INTEGER,
    users VARCHAR NOT NULL,
    resumes BOOLEAN NOT NULL,
    sessions_max INTEGER NOT NULL,
    access_days INTEGER NOT NULL,
    initial_variables JSON NOT NULL,
    locale VARCHAR,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ
);
COMMENT ON TABLE links IS 'One row per link that opens a script to participants';
COMMENT ON COLUMN links.tenant IS 'The tenant of the script and of the sessions';
COMMENT ON COLUMN links.link_id IS 'The id in the address of the chat page, unique over all tenants';
COMMENT ON COLUMN links.script_id IS 'The id of the script';
COMMENT ON COLUMN links.version IS 'The version that sessions run; null for the published one at the time';
COMMENT ON COLUMN links.users IS 'anonymous, or named: participants give a code';
COMMENT ON COLUMN links.resumes IS 'Whether a participant can come back on the same device';
COMMENT ON COLUMN links.sessions_max IS 'The greatest number of participants, each with one session';
COMMENT ON COLUMN links.access_days IS 'How long a participant has access to the session';
COMMENT ON COLUMN links.initial_variables IS 'Initial variables of the sessions';
COMMENT ON COLUMN links.locale IS 'The language of the sessions; null for that of the browser or the script';
COMMENT ON COLUMN links.created_at IS 'When it was created';
COMMENT ON COLUMN links.expires_at IS 'When it admits no more participants; null for never';
COMMENT ON COLUMN links.revoked_at IS 'When it was revoked; null where it was not';

CREATE TABLE participants (
    tenant VARCHAR NOT NULL,
    participant_id VARCHAR NOT NULL,
    link_id VARCHAR,
    user_id VARCHAR NOT NULL,
    session_id UUID NOT NULL,
    script_id VARCHAR NOT NULL,
    version INTEGER,
    locale VARCHAR,
    timezone VARCHAR,
    resume_digest VARCHAR,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ
);
COMMENT ON TABLE participants IS 'One row per person in a browser, with access to one session';
COMMENT ON COLUMN participants.tenant IS 'The tenant of the session';
COMMENT ON COLUMN participants.participant_id IS 'The participant, whom tokens name';
COMMENT ON COLUMN participants.link_id IS 'The link through which the participant came; null for an application''s token';
COMMENT ON COLUMN participants.user_id IS 'The user of the session';
COMMENT ON COLUMN participants.session_id IS 'The session, which may not have begun';
COMMENT ON COLUMN participants.script_id IS 'The script of the session';
COMMENT ON COLUMN participants.version IS 'The version with which the session begins; null for the published one';
COMMENT ON COLUMN participants.locale IS 'The language of the session; null for that of the script';
COMMENT ON COLUMN participants.timezone IS 'The time zone of the session; null for that of the script or the server';
COMMENT ON COLUMN participants.resume_digest IS 'SHA-256 of the secret with which the device comes back';
COMMENT ON COLUMN participants.created_at IS 'When the participant got access';
COMMENT ON COLUMN participants.expires_at IS 'When the access ends';
COMMENT ON COLUMN participants.revoked_at IS 'When the access was revoked; null where it was not';

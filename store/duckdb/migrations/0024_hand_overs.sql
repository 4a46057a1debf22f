-- Sessions that a person is asked to join, or talks in: derived from the state after the last turn, and replaced in its
-- commit.

CREATE TABLE hand_overs (
    tenant VARCHAR NOT NULL,
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    script_id VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    since TIMESTAMPTZ NOT NULL,
    action_id VARCHAR NOT NULL,
    operator VARCHAR NOT NULL,
    has_ended BOOLEAN NOT NULL
);
COMMENT ON TABLE hand_overs IS 'One row per session that a person is asked to join or talks in; derived from its state';
COMMENT ON COLUMN hand_overs.tenant IS 'The tenant of the session';
COMMENT ON COLUMN hand_overs.session_id IS 'The session';
COMMENT ON COLUMN hand_overs.user_id IS 'The user of the session';
COMMENT ON COLUMN hand_overs.turn IS 'The last turn of the session';
COMMENT ON COLUMN hand_overs.script_id IS 'The key of the script of the session';
COMMENT ON COLUMN hand_overs.status IS 'requested or taken';
COMMENT ON COLUMN hand_overs.since IS 'When the person was asked for, else when they took the session over';
COMMENT ON COLUMN hand_overs.action_id IS 'The action that asked for a person; empty if none did';
COMMENT ON COLUMN hand_overs.operator IS 'The person who has taken the session over; empty if nobody has';
COMMENT ON COLUMN hand_overs.has_ended IS 'Whether the conversation is over';

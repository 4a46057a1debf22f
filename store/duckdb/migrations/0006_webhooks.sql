-- Webhooks and what is sent to them. A delivery is written in the very transaction of its turn, so that none is lost and none
-- is sent of a turn that never was. What came of sending is written into its row, for many deliveries in one UPDATE; rows
-- that are settled go after a time, so the table stays small and needs no index.

CREATE TABLE webhooks (
    tenant VARCHAR NOT NULL,
    webhook_id UUID NOT NULL,
    url VARCHAR NOT NULL,
    events VARCHAR[] NOT NULL,
    description VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    paused_because VARCHAR,
    failing_since TIMESTAMPTZ,
    secret_id UUID NOT NULL,
    old_secret_id UUID,
    old_secret_until TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE webhooks IS 'One row an address that is told of what happens. Its secret is not here: it is made from secret_id and a key beside the record.';
COMMENT ON COLUMN webhooks.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN webhooks.webhook_id IS 'The webhook';
COMMENT ON COLUMN webhooks.url IS 'Where deliveries are sent';
COMMENT ON COLUMN webhooks.events IS 'Kinds of events it is told of; * stands for any characters';
COMMENT ON COLUMN webhooks.description IS 'What the application says of it';
COMMENT ON COLUMN webhooks.status IS 'active, or paused: deliveries wait';
COMMENT ON COLUMN webhooks.paused_because IS 'asked, gone (it answered 410) or failing (for a whole day); null while it is active';
COMMENT ON COLUMN webhooks.failing_since IS 'The first failure since the last success; null while all is well';
COMMENT ON COLUMN webhooks.secret_id IS 'Which secret signs';
COMMENT ON COLUMN webhooks.old_secret_id IS 'Which secret signs too, for a while after a rotation';
COMMENT ON COLUMN webhooks.old_secret_until IS 'Until when';
COMMENT ON COLUMN webhooks.created_at IS 'When it was made';
COMMENT ON COLUMN webhooks.updated_at IS 'When it was last changed';

CREATE TABLE webhook_deliveries (
    tenant VARCHAR NOT NULL,
    delivery_id UUID NOT NULL,
    webhook_id UUID NOT NULL,
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    payload JSON NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    status VARCHAR NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at TIMESTAMPTZ NOT NULL,
    attempted_at TIMESTAMPTZ,
    last_status INTEGER,
    last_error VARCHAR,
    settled_at TIMESTAMPTZ
);
COMMENT ON TABLE webhook_deliveries IS 'One row an event for a webhook: those that wait, and for some time those that were delivered or given up.';
COMMENT ON COLUMN webhook_deliveries.tenant IS 'Who the data belongs to';
COMMENT ON COLUMN webhook_deliveries.delivery_id IS 'The delivery; every attempt at it is sent with this id';
COMMENT ON COLUMN webhook_deliveries.webhook_id IS 'Where it goes';
COMMENT ON COLUMN webhook_deliveries.session_id IS 'The session it tells of';
COMMENT ON COLUMN webhook_deliveries.user_id IS 'The user of the session';
COMMENT ON COLUMN webhook_deliveries.turn IS 'The turn it tells of';
COMMENT ON COLUMN webhook_deliveries.number IS 'Number of the event among those that the turn has for webhooks, from 1';
COMMENT ON COLUMN webhook_deliveries.kind IS 'turn, session.created, session.completed, or emit: and the name of a script''s event';
COMMENT ON COLUMN webhook_deliveries.payload IS 'What is sent';
COMMENT ON COLUMN webhook_deliveries.created_at IS 'When the turn finished';
COMMENT ON COLUMN webhook_deliveries.status IS 'pending, delivered, or dead: given up until somebody replays it';
COMMENT ON COLUMN webhook_deliveries.attempts IS 'How often it was tried, since it was last replayed';
COMMENT ON COLUMN webhook_deliveries.next_attempt_at IS 'When it is tried next, at the earliest';
COMMENT ON COLUMN webhook_deliveries.attempted_at IS 'When it was last tried';
COMMENT ON COLUMN webhook_deliveries.last_status IS 'The HTTP status of the last answer; null where there was none';
COMMENT ON COLUMN webhook_deliveries.last_error IS 'Why the last attempt failed: status, timeout, connection, tls, dns, refused, protocol, internal; overflow where too many waited';
COMMENT ON COLUMN webhook_deliveries.settled_at IS 'When it was delivered or given up';

-- The timers of sessions: derived from the state after the last turn, and replaced in the commit of each turn of a
-- script that has moments.

CREATE TABLE timers (
    tenant VARCHAR NOT NULL,
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    timer_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    action_id VARCHAR NOT NULL,
    moment VARCHAR NOT NULL,
    due TIMESTAMPTZ NOT NULL,
    status VARCHAR NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at TIMESTAMPTZ NOT NULL,
    error VARCHAR
);
COMMENT ON TABLE timers IS 'What sessions will do by themselves, one row per session and timer; derived from their states';
COMMENT ON COLUMN timers.turn IS 'The turn after which the session has the timer';
COMMENT ON COLUMN timers.kind IS 'wait, remind or expire';
COMMENT ON COLUMN timers.moment IS 'The moment as the script has it';
COMMENT ON COLUMN timers.status IS 'pending, or failed after all attempts';
COMMENT ON COLUMN timers.next_attempt_at IS 'Not before this time, after a failed attempt; else the due time';
COMMENT ON COLUMN timers.tenant IS 'The tenant of the session';
COMMENT ON COLUMN timers.session_id IS 'The session';
COMMENT ON COLUMN timers.user_id IS 'The user of the session';
COMMENT ON COLUMN timers.timer_id IS 'Unique among the timers of the session';
COMMENT ON COLUMN timers.action_id IS 'The action that waits';
COMMENT ON COLUMN timers.due IS 'When the moment comes';
COMMENT ON COLUMN timers.attempts IS 'The number of failed attempts to fire it';
COMMENT ON COLUMN timers.error IS 'The code of the error of the last attempt; null if none has failed';

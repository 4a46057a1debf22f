COMMENT ON COLUMN timers.status IS 'pending, failed after all attempts, or held until the session has a turn';

-- Imports have numbers of their own, by which analytics notices that a session was replaced.

COMMENT ON COLUMN turns.commit_number IS 'Number of the group that committed it, drawn at random; below zero: number of an import; null: a fork';

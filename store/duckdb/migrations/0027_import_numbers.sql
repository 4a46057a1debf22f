-- Imports have numbers of their own, by which analytics notices that a session was replaced.

COMMENT ON COLUMN turns.commit_number IS 'Number of the commit that wrote the row; turns of one commit have the same number; below zero: number of an import, drawn at random; null: a fork, or written before commits had numbers';

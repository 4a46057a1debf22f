-- An application may change what it notes of a session, and name one that has no name yet.

COMMENT ON TABLE session_starts IS 'One row a session: how it was created, and what the application calls and notes of it. The view sessions adds where it stands.';
COMMENT ON COLUMN session_starts.metadata IS 'What the application notes of it; of a fork with forkedFrom: the session and turn it was copied from';
COMMENT ON COLUMN sessions.metadata IS 'What the application notes of it; of a fork with forkedFrom: the session and turn it was copied from';
COMMENT ON COLUMN messages.role IS 'Who said it: user or assistant; system or tool where an application put it there';

"""Export and import of sessions: complete documents to continue elsewhere, or only their messages."""

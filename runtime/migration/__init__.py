"""Migration of a session to another version of its script, and its rewind to an earlier turn."""

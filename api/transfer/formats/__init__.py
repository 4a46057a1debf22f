"""The formats of a session document."""

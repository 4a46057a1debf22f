"""Storage of sessions, turns, scripts and webhooks in a DuckDB file."""

"""Storage of sessions, turns, scripts and webhooks in PostgreSQL."""

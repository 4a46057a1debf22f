"""Integrity checks of the database: rows against each other, states against the log, and scripts against both."""

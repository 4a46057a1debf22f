"""Logging: configuration, redaction, stack traces and the fields of a turn."""

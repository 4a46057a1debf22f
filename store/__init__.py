"""The record: rows in, rows out. Knows no script and no interpreter."""

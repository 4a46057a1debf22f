"""A memory as a file: JSON, Parquet or SQLite, out of the record and into it."""

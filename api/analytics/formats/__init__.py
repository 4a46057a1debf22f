"""A table as a file: CSV, JSON, Parquet."""

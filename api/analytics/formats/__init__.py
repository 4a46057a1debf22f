"""File formats of tables: CSV, JSON, Parquet."""

"""Export and import of memories as JSON, Parquet or SQLite files."""

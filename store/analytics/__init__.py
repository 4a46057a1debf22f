"""What analysts ask: SQL over the record, bounded and read-only."""

"""Long-term memory, as rows."""

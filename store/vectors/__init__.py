"""The vectors of memory units: exact comparison in memory, and hnswlib's graph where there are many."""

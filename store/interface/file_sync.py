"""Sync files and folders to disk."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Sync a file, or the entries of a folder, to disk.

    Do not call it for the database file while that is open: closing the descriptor would release DuckDB's lock.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Making what was written durable."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Make a file durable, or the names in a folder. Not the database's while it is open: its lock would be lost."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Sizes of files on the disk."""

from contextlib import suppress
from pathlib import Path


def size_bytes(folder: Path, pattern: str) -> int:
    """Return the size of the files of a folder whose names match, which others may remove meanwhile."""
    size = 0
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size

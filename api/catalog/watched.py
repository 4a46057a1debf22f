"""Which watched files a change affects."""

from collections.abc import Iterable, Set
from pathlib import Path


def touches(changed: Set[Path], files: Iterable[Path]) -> bool:
    """Return whether one of these files changed: itself, or a folder above it.

    A created, deleted or moved folder counts for all its files, because the watcher reports only the folder.
    """
    return any(not changed.isdisjoint((file, *file.parents)) for file in files)

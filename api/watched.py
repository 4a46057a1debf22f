"""What a change in a watched folder touches."""

from collections.abc import Iterable, Set
from pathlib import Path


def touches(changed: Set[Path], files: Iterable[Path]) -> bool:
    """Whether one of these files changed: itself, or a folder above it.

    A folder that came, went or was moved stands for all that is in it; nobody names its files one by one.
    """
    return any(not changed.isdisjoint((file, *file.parents)) for file in files)

"""The results of deletion and compaction, and the size of the database."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

MARGIN_BYTES = 64_000_000
"""Disk space needed in addition to the copy: for the log of the writes before and after it."""
MARGIN_SHARE = 0.1
"""The new file may be larger by this share, because rows may be compressed less well."""

OnStep: TypeAlias = Callable[[str], None]
"""Called with the name of each step when the step begins."""


class Size(NamedTuple):
    """The size of a database, in bytes."""

    file: int
    log: int
    unused: int
    """Unused blocks of the file."""
    disk_free: int

    @property
    def used(self) -> int:
        """The bytes that a copy would have."""
        return self.file - self.unused + self.log

    @property
    def needed(self) -> int:
        """The disk space that a compaction or backup of this database needs."""
        return round(self.used * (1 + MARGIN_SHARE)) + MARGIN_BYTES


class CompactionResult(NamedTuple):
    """The sizes of file and log together, before and after, in bytes."""

    bytes_before: int
    bytes_after: int


class RunningCopy(Protocol):
    """The progress of a compaction or backup."""

    @property
    def step(self) -> str:
        """The name of the current step."""

    @property
    def bytes_written(self) -> int:
        """The current size of the copy, in bytes."""

    @property
    def bytes_expected(self) -> int:
        """The expected size of the copy, in bytes."""


class ErasureResult(NamedTuple):
    """The deleted sessions of a user, and the counts of deleted rows by kind."""

    sessions: list[str]
    counts: Mapping[str, int]

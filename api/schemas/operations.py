"""What those who run a server are told of it."""

from collections.abc import Mapping
from typing import Literal

from api.schemas.base import View


class Health(View, frozen=True, kw_only=True):
    """The process is alive."""

    status: Literal["ok"]
    version: str


class Readiness(View, frozen=True, kw_only=True):
    """Whether turns can be taken, and what keeps them from it."""

    ready: bool
    checks: Mapping[str, str]


class CompactionStep(View, frozen=True, kw_only=True):
    """How far a compaction is."""

    step: str
    bytes_written: int
    bytes_expected: int


class CompactionView(View, frozen=True, kw_only=True):
    """What the record takes, and what a compaction of it would need. `reclaimable` is the least it would give back."""

    bytes: int
    reclaimable_bytes: int
    needed_bytes: int
    disk_free_bytes: int
    running: CompactionStep | None
    success: bool = True


class CompactedView(View, frozen=True, kw_only=True):
    """What a compaction came to."""

    bytes_before: int
    bytes_after: int
    success: bool = True

"""Deletion, erasure, compaction and size of the database."""

from datetime import datetime
from typing import Protocol

from store.interface.maintenance_rows import CompactionResult, ErasureResult, OnStep, RunningCompaction, Size


class MaintenanceRepository(Protocol):
    """Delete data, rewrite the file, and measure it."""

    @property
    def compaction(self) -> RunningCompaction | None:
        """The running compaction, if there is one."""

    async def delete_session(self, tenant: str, session_id: str) -> bool:
        """Delete all data of a session; return false if there is no such session."""

    async def erase_user(self, tenant: str, user_id: str, receipt_id: str, erased_at: datetime) -> ErasureResult:
        """Delete all data of a user and store a receipt. The caller must lock the user's sessions meanwhile."""

    async def compact(self, on_step: OnStep = lambda _: None) -> CompactionResult:
        """Rewrite the file, so that it no longer contains deleted data. Turns wait until it is done.

        If the caller is cancelled, the compaction continues until the store is closed. `on_step` is called in a thread
        with the name of each step. Raises CompactionRunning, DiskTooSmall, StoreUnavailable.
        """

    async def stop_compaction(self) -> None:
        """Stop the running compaction, if there is one, and wait until it has stopped."""

    async def require_compactable(self) -> None:
        """Raise CompactionRunning or DiskTooSmall if the database cannot be compacted now."""

    async def size(self) -> Size:
        """Return the size of the database and the free space of its disk, in bytes."""

"""Deletion, erasure, compaction, backup and size of the database."""

from datetime import datetime
from pathlib import Path
from typing import Protocol

from store.interface.maintenance_rows import CompactionResult, ErasureResult, OnStep, RunningCopy, Size


class MaintenanceRepository(Protocol):
    """Delete data, rewrite and copy the file, and measure it."""

    @property
    def compaction(self) -> RunningCopy | None:
        """The running compaction, if there is one."""

    @property
    def backup(self) -> RunningCopy | None:
        """The running backup, if there is one."""

    async def delete_session(self, tenant: str, session_id: str) -> bool:
        """Delete all data of a session; return false if there is no such session."""

    async def erase_user(self, tenant: str, user_id: str, receipt_id: str, erased_at: datetime) -> ErasureResult:
        """Delete all data of a user and store a receipt. The caller must lock the user's sessions meanwhile."""

    async def compact(self, on_step: OnStep = lambda _: None) -> CompactionResult:
        """Rewrite the file, so that it no longer contains deleted data. Turns wait until it is done.

        If the caller is cancelled, the compaction continues until the store is closed. `on_step` is called in a thread
        with the name of each step. Raises CompactionRunning, BackupRunning, DiskTooSmall, StoreUnavailable.
        """

    async def back_up(self, folder: Path, on_step: OnStep = lambda _: None) -> int:
        """Copy the database into a folder, with the rows of one moment; return the size of the copy in bytes.

        Turns continue meanwhile. If the caller is cancelled, the backup continues until the store is closed. Raises
        CompactionRunning, BackupRunning, DiskTooSmall, OSError, StoreUnavailable.
        """

    async def stop_copy(self) -> None:
        """Stop the running compaction or backup, if there is one, and wait until it has stopped."""

    async def require_compactable(self) -> None:
        """Raise CompactionRunning, BackupRunning or DiskTooSmall if the database cannot be compacted now."""

    async def size(self) -> Size:
        """Return the size of the database and the free space of its disk, in bytes."""

"""The store: one open database and its repositories, which all other packages use."""

import asyncio
from pathlib import Path
from typing import Self

from store.analytics.analytics_repository import AnalyticsRepository
from store.duckdb.database import Database
from store.duckdb.readers import READ_TIMEOUT_S, Readers
from store.duckdb.repositories import (
    DuckDBDelivery,
    DuckDBKeys,
    DuckDBMaintenance,
    DuckDBParticipants,
    DuckDBRetention,
    DuckDBReviews,
    DuckDBScripts,
    DuckDBSessions,
    DuckDBTimers,
    DuckDBTurns,
)
from store.duckdb.restore import restore_database as restore_database
from store.duckdb.writer import Writer
from store.interface.errors import StoreUnavailable
from store.interface.repositories.delivery_repository import DeliveryRepository
from store.interface.repositories.key_repository import KeyRepository
from store.interface.repositories.maintenance_repository import MaintenanceRepository
from store.interface.repositories.memory_repository import MemoryRepository
from store.interface.repositories.participant_repository import ParticipantRepository
from store.interface.repositories.retention_repository import RetentionRepository
from store.interface.repositories.review_repository import ReviewRepository
from store.interface.repositories.script_repository import ScriptRepository
from store.interface.repositories.session_repository import SessionRepository
from store.interface.repositories.timer_repository import TimerRepository
from store.interface.repositories.turn_repository import TurnRepository
from store.memory.duckdb_memory import DuckDBMemory
from store.verification.verification_repository import VerificationRepository

LAG_MAX_S = 5.0
"""If a group takes longer than this to write, the disk is considered not ready."""


class Store:
    """Open and close one database file, and hold its repositories. Use it from one event loop only.

    Every read and write of a repository concerns one tenant, unless it says otherwise. A write returns after it is on
    disk. It raises StoreBusy if too many writes wait, StoreUnavailable if the disk fails, and StoreReadOnly if the
    database is open read-only. Reads raise StoreBusy, ReadTimedOut and StoreUnavailable.
    """

    def __init__(self, database: Database, writer: Writer | None, readers: Readers) -> None:
        self._database = database
        self._writer = writer
        self._readers = readers
        self.turns: TurnRepository = DuckDBTurns(readers, writer)
        self.sessions: SessionRepository = DuckDBSessions(readers, writer)
        self.scripts: ScriptRepository = DuckDBScripts(readers, writer)
        self.memory: MemoryRepository = DuckDBMemory(readers, writer)
        self.timers: TimerRepository = DuckDBTimers(readers, writer)
        self.delivery: DeliveryRepository = DuckDBDelivery(readers, writer)
        self.keys: KeyRepository = DuckDBKeys(readers, writer)
        self.participants: ParticipantRepository = DuckDBParticipants(readers, writer)
        self.maintenance: MaintenanceRepository = DuckDBMaintenance(readers, writer, database)
        self.reviews: ReviewRepository = DuckDBReviews(readers, writer)
        self.retention: RetentionRepository = DuckDBRetention(readers, writer)
        self.analytics = AnalyticsRepository(readers, writer)
        self.verification = VerificationRepository(readers, writer)

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False, read_timeout_s: float = READ_TIMEOUT_S) -> Self:
        """Open the database of a data folder; create or migrate it if necessary. Blocks. Raises as Database.open."""
        database = Database.open(folder, read_only=read_only)
        writer = None if read_only else Writer(database)
        return cls(database, writer, Readers(database, read_timeout_s))

    async def close(self) -> None:
        """Stop a compaction or backup, write the queued writes, close the file.

        Raises StoreUnavailable if the writer hangs.
        """
        await self.maintenance.stop_copy()
        try:
            if self._writer is not None:
                await self._writer.close()
        finally:
            await asyncio.to_thread(self._readers.close)
            self._database.close()

    @property
    def writer_lag_s(self) -> float:
        """Seconds since the writing of the current group of turns began; 0 if nothing is being written."""
        return 0.0 if self._writer is None else self._writer.lag_s

    @property
    def writes_waiting(self) -> int:
        """The number of writes that wait for the writing thread."""
        return 0 if self._writer is None else self._writer.waiting

    def ready(self) -> str | None:
        """Return None if turns can be written, otherwise the reason why not."""
        if self._writer is None:
            return "the database is open read-only"
        lost = self.lost() or self.lost_commits()
        if lost is not None:
            return lost
        compaction = self.maintenance.compaction
        if self.writer_lag_s > LAG_MAX_S and compaction is not None:
            return f"the database is being compacted: {compaction.step}"
        if self.writer_lag_s > LAG_MAX_S:
            return f"a write has taken {self.writer_lag_s:.0f} s"
        return self._writer.failure

    def lost(self) -> str | None:
        """Return an error message if the database file is no longer at its path, so nothing is written; else None."""
        try:
            self._database.require_file()
        except StoreUnavailable as lost:
            return str(lost)
        return None

    def lost_commits(self) -> str | None:
        """Return an error message if acknowledged commits are missing in the database, else None."""
        return self._database.lost_commits()

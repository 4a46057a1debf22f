"""The store over DuckDB: one open database file."""

import asyncio
from pathlib import Path
from typing import Self

from store.analytics.analytics_repository import AnalyticsRepository
from store.duckdb import repositories
from store.duckdb.database import Database
from store.duckdb.engine import READ_TIMEOUT_S, DuckDBEngine
from store.duckdb.writer import Writer
from store.interface.errors import DatabaseUnreadable, StoreUnavailable
from store.interface.private_files import FILE_NAME, MIRROR_FOLDER
from store.sql.repositories import Delivery, Timers
from store.store import LAG_MAX_S, Store
from store.verification.verification_repository import VerificationRepository


class DuckDBStore(Store):
    """Open and close one database file."""

    def __init__(self, engine: DuckDBEngine) -> None:
        super().__init__(engine, engine.writer_or_none)
        self._engine = engine
        self.turns = repositories.DuckDBTurns(engine)
        self.sessions = repositories.DuckDBSessions(engine)
        self.memory = repositories.DuckDBMemories(engine)
        self.timers = Timers(engine)
        self.delivery = Delivery(engine)
        self.maintenance = repositories.DuckDBMaintenance(engine)
        self.analytics = AnalyticsRepository(engine)
        self.verification = VerificationRepository(engine)

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False, read_timeout_s: float = READ_TIMEOUT_S) -> Self:
        """Open the database of a data folder; create or migrate it if necessary. Blocks. Raises as Database.open, and
        DatabaseUnreadable for the folder of a server on PostgreSQL, in which no file shall be created.
        """
        try:
            if (folder / MIRROR_FOLDER).exists() and not (folder / FILE_NAME).exists():
                raise DatabaseUnreadable(
                    f"{folder} is the data folder of a server on PostgreSQL; name its database with the setting "
                    "`database` or the variable CUEBOOK_DATABASE"
                )
            database = Database.open(folder, read_only=read_only)
        except OSError as error:
            raise StoreUnavailable(f"{folder} cannot be opened: {error.strerror}") from error
        writer = None if read_only else Writer(database)
        return cls(DuckDBEngine(database, writer, read_timeout_s))

    async def close(self) -> None:
        """Stop a compaction or backup, write the queued writes, close the file.

        Raises StoreUnavailable if the writer hangs.
        """
        await self.maintenance.stop_copy()
        try:
            if self._writer is not None:
                await self._writer.close()
        finally:
            await asyncio.to_thread(self._engine.close_readers)
            self._engine.database.close()

    def ready(self) -> str | None:
        """Return None if turns can be written, otherwise the reason why not."""
        if self._engine.writer_or_none is None:
            return "the database is open read-only"
        lost = self.loss() or self.lost_commits()
        if lost is not None:
            return lost
        compaction = self.maintenance.compaction
        if self.writer_lag_s > LAG_MAX_S and compaction is not None:
            return f"the database is being compacted: {compaction.step}"
        if self.writer_lag_s > LAG_MAX_S:
            return f"a write has taken {self.writer_lag_s:.0f} s"
        return self._engine.writer_or_none.failure

    def loss(self) -> str | None:
        """Return an error message if the database file is no longer at its path, so nothing is written; else None."""
        try:
            self._engine.database.require_file()
        except StoreUnavailable as lost:
            return str(lost)
        return None

    def lost_commits(self) -> str | None:
        """Return an error message if acknowledged commits are missing in the database, else None."""
        return self._engine.database.lost_commits()

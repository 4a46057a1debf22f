"""The store over PostgreSQL: connections of this server to a database that others may use as well."""

import asyncio
from pathlib import Path
from typing import Self

from store.analytics.postgres_mirror import PostgresAnalytics, PostgresMirror
from store.interface.private_files import MIRROR_FOLDER, make_data_folder
from store.postgres import repositories
from store.postgres.engine import PostgresEngine
from store.postgres.group_writer import GroupWriter
from store.postgres.servers import PostgresServers
from store.store import LAG_MAX_S, Store
from store.verification.postgres_verification import PostgresVerification


class PostgresStore(Store):
    """Open and close connections to one database. `folder` has what is derived from it for this server."""

    def __init__(self, engine: PostgresEngine, folder: Path) -> None:
        self._engine = engine
        self._mirror = PostgresMirror(engine, folder)
        self._group_writer = GroupWriter(engine)
        super().__init__(engine, self._group_writer)
        self.shared = PostgresServers(engine, self._mirror.remove)
        self.turns = repositories.PostgresTurns(engine, self._group_writer)
        self.sessions = repositories.PostgresSessions(engine)
        self.memory = repositories.PostgresMemories(engine)
        self.timers = repositories.PostgresTimers(engine)
        self.delivery = repositories.PostgresDelivery(engine)
        self.maintenance = repositories.PostgresMaintenance(engine)
        self.analytics = PostgresAnalytics(engine, self._mirror)
        self.verification = PostgresVerification(engine, self._mirror)

    @classmethod
    def open(cls, url: str, folder: Path, *, read_only: bool, read_timeout_s: float) -> Self:
        """Connect to a database; migrate it if necessary. Blocks.

        Raises as PostgresEngine.open, and DatabaseUnreadable if the folder cannot be made.
        """
        if not read_only:
            make_data_folder(folder)
            make_data_folder(folder / MIRROR_FOLDER)
        return cls(PostgresEngine.open(url, read_only=read_only, read_timeout_s=read_timeout_s), folder)

    async def close(self) -> None:
        """Write the queued writes, close the connections. Raises StoreUnavailable if the writer hangs."""
        try:
            await self._group_writer.close()
        finally:
            await asyncio.to_thread(self._mirror.close)
            await asyncio.to_thread(self._engine.close)

    def ready(self) -> str | None:
        """Return None if turns can be written, otherwise the reason why not."""
        if self._engine.read_only:
            return "the database is open read-only"
        if not self._group_writer.is_alive:
            return "the writing thread has ended"
        if self.writer_lag_s > LAG_MAX_S:
            return f"a write has taken {self.writer_lag_s:.0f} s"
        return self._engine.failure

"""The repositories of the store over DuckDB. `store.sql.repositories` has what is the same over every one."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from store.duckdb import search as search_sql
from store.duckdb import session_list, sessions, variables
from store.duckdb.connection import with_cursor
from store.duckdb.database_copy import DatabaseCopy, back_up, compact, require_room, target_in
from store.duckdb.engine import DuckDBEngine
from store.interface.admission import Entry
from store.interface.errors import BackupRunning, CompactionRunning, StoreError
from store.interface.maintenance_rows import CompactionResult, OnStep, Size
from store.interface.rows import LoadedSession, SessionHead, UserVariableRow
from store.memory import filters_sql
from store.memory.memory_repository import MemoryRepository
from store.sql.repositories import Maintenance, Sessions, Turns
from store.sql.repository import reads
from store.sql.turns import load_session

T = TypeVar("T")


class DuckDBTurns(Turns):
    """Store and read turns."""

    def __init__(self, engine: DuckDBEngine) -> None:
        async def commit(entry: Entry) -> None:
            await engine.writer.commit(entry)

        super().__init__(engine, commit)

    search = reads(with_cursor(search_sql.search))


class DuckDBSessions(Sessions):
    """Store and read sessions and the variables of users."""

    _engine: DuckDBEngine
    _loading_heads: asyncio.Task[None] | None = None
    _head = reads(sessions.session_head)
    _load = reads(partial(load_session, sessions.session_head))
    page = reads(session_list.list_sessions)
    _user_variables = reads(with_cursor(variables.user_variables))

    async def head(self, tenant: str, session_id: str) -> SessionHead | None:
        """Return a session with the state after its latest turn."""
        self._load_heads_if_worth_it()
        return await self._head(tenant, session_id)

    async def load(self, tenant: str, session_id: str) -> LoadedSession | None:
        """Return a session with all that is needed to continue it."""
        self._load_heads_if_worth_it()
        return await self._load(tenant, session_id)

    def _load_heads_if_worth_it(self) -> None:
        """Begin to load the heads of all sessions, beside the read."""
        is_loading = self._loading_heads is not None and not self._loading_heads.done()
        if self._engine.database.heads.are_worth_loading and not is_loading:
            self._loading_heads = asyncio.create_task(self._load_heads())

    async def _load_heads(self) -> None:
        with suppress(StoreError):  # sessions are found by a search, then
            await self._engine.read(lambda connection: connection.heads.refresh(connection.cursor))

    async def user_variables(self, tenant: str, user_id: str) -> list[UserVariableRow]:
        """Return the cached variables of a user, or read them."""
        writer = self._engine.writer_or_none
        if writer is None:
            return await self._user_variables(tenant, user_id)
        user = (tenant, user_id)
        return await writer.variables.get(user, lambda: self._user_variables(*user))


class DuckDBMemories(MemoryRepository):
    """Read and write memories."""

    matching = reads(filters_sql.matching)


class DuckDBMaintenance(Maintenance):
    """Delete data, rewrite and copy the file, and measure it."""

    _engine: DuckDBEngine

    def __init__(self, engine: DuckDBEngine) -> None:
        super().__init__(engine)
        self._database = engine.database
        self._copying: asyncio.Task[Any] | None = None
        self.compaction: DatabaseCopy | None = None
        self.backup: DatabaseCopy | None = None

    async def compact(self, on_step: OnStep = lambda _: None) -> CompactionResult:
        """Rewrite the file in a task, so that it continues if the caller is cancelled."""
        return await self._run(lambda: self._compact(on_step))

    async def back_up(self, folder: Path, on_step: OnStep = lambda _: None) -> int:
        """Write a copy in a task, so that it continues if the caller is cancelled."""
        return await self._run(lambda: self._back_up(folder, on_step))

    async def _run(self, copy: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._require_idle()
        copying = self._copying = asyncio.create_task(copy())
        return await asyncio.shield(copying)

    async def stop_copy(self) -> None:
        """Stop the running compaction or backup, if there is one, and wait until it has stopped."""
        copy = self.compaction or self.backup
        if copy is not None and self._copying is not None:
            copy.stop()
            await asyncio.wait({self._copying})

    async def require_compactable(self) -> None:
        """Raise CompactionRunning, BackupRunning or DiskTooSmall if the database cannot be compacted now."""
        self._require_idle()
        size = await self.size()
        require_room(size, size.disk_free)

    async def size_to_copy(self) -> Size:
        """Return the size of the file and the free space of its disk."""
        return await self.size()

    async def size(self) -> Size:
        """Return the size of the file and the free space of its disk."""
        return await self._engine.read(with_cursor(self._database.size))

    def _require_idle(self) -> None:
        if self._copying is None:
            return
        if self.backup is not None:
            raise BackupRunning("a backup of the database is being written")
        raise CompactionRunning("a compaction of the database is already running")

    async def _compact(self, on_step: OnStep) -> CompactionResult:
        try:
            self._database.require_file()
            before = await self.size()
            require_room(before, before.disk_free)
            self.compaction = DatabaseCopy(self._database, self._database.fresh, before.used, on_step)
            return await compact(self.compaction, before, self._engine)
        finally:
            if self.compaction is not None:
                self.compaction.close()
            self.compaction = self._copying = None

    async def _back_up(self, folder: Path, on_step: OnStep) -> int:
        try:
            self._database.require_file()
            size, target = await self.size(), target_in(folder)
            require_room(size, shutil.disk_usage(folder).free)
            self.backup = DatabaseCopy(self._database, target, size.used, on_step)
            return await back_up(self.backup, folder)
        finally:
            if self.backup is not None:
                self.backup.close()
            self.backup = self._copying = None

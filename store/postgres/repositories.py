"""The repositories of the store over PostgreSQL. `store.sql.repositories` has what is the same over every one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from store.interface.errors import MemoryMoved, NotWithPostgres, TurnClaimed
from store.interface.maintenance_rows import CompactionResult, ErasureResult, OnStep, Size
from store.interface.memory_filters import Filter
from store.interface.memory_rows import MemoryCallRow, MemoryChange, UnitRow
from store.interface.rows import FailureRow, SessionDocument
from store.interface.timer_rows import DueTimers, TimerRow
from store.interface.webhook_rows import Ahead
from store.memory import queries
from store.memory.changes import apply_change, begin_call, import_units
from store.memory.filters_sql import filter_rows
from store.memory.memory_repository import MemoryRepository
from store.postgres import claims, erasures, sessions
from store.postgres import search as search_sql
from store.postgres.connection import PostgresConnection
from store.postgres.due import take_deliveries, take_timers
from store.postgres.engine import PostgresEngine
from store.postgres.group_writer import GroupWriter
from store.postgres.servers import memory_version, new_memory_version
from store.sql import copies
from store.sql import timers as timers_sql
from store.sql.connection import as_uuid
from store.sql.deletion import delete_rows_of
from store.sql.repositories import Delivery, Maintenance, Sessions, Timers, Turns
from store.sql.repository import reads, writes
from store.sql.turns import load_session, save_failure
from store.sql.variables import stored_values


class PostgresTurns(Turns):
    """Store and read turns."""

    _engine: PostgresEngine

    def __init__(self, engine: PostgresEngine, writer: GroupWriter) -> None:
        super().__init__(engine, writer.commit)

    async def save_failure(self, failure: FailureRow) -> bool:
        """Record a turn that failed, and give up the claim on it; delete its calls if its session was deleted."""

        def save(connection: PostgresConnection) -> bool:
            is_saved = save_failure(connection, failure)
            if not is_saved:
                delete_rows_of(connection, "call_journal", [(failure.tenant, failure.session_id)])
            claims.release(connection, self._engine.owner, failure.tenant, failure.session_id)
            return is_saved

        return await self._engine.write(save)

    search = reads(search_sql.search)


class PostgresSessions(Sessions):
    """Store and read sessions and the variables of users."""

    _engine: PostgresEngine

    async def import_session(self, whole: SessionDocument, *, replaces: bool = False) -> None:
        """Insert all rows of a session. Raises TurnClaimed if it replaces one whose next turn another server runs."""
        session = whole.session.tenant, as_uuid(whole.session.session_id)

        def insert(connection: PostgresConnection) -> None:
            if replaces and claims.claimed_by_others(connection, self._engine.owner, [session]):
                raise TurnClaimed(whole.session.session_id)
            copies.import_session(connection, whole, replaces=replaces)

        await self._engine.write(insert)

    head = reads(sessions.session_head)
    load = reads(partial(load_session, sessions.session_head))
    page = reads(sessions.list_sessions)
    user_variables = reads(stored_values)


def matching(connection: PostgresConnection, tenant: str, user_id: str, filter_: Filter) -> list[int]:
    """Return the sequence numbers of a memory's units that a filter matches, ascending."""
    rows = connection.fetch(
        UnitRow,
        "SELECT * FROM memory_unit_rows WHERE tenant = $tenant AND user_id = $user_id ORDER BY sequence",
        {"tenant": tenant, "user_id": user_id},
    )
    return filter_rows(queries.with_texts(connection, rows), filter_)


def _change(connection: PostgresConnection, change: MemoryChange) -> int:
    erasures.wait_for(connection)
    if change.version not in {None, memory_version(connection, change.tenant, change.user_id)}:
        raise MemoryMoved("another server changed the memory meanwhile")
    apply_change(connection, change)
    if change.is_of_jobs:  # a new version would interrupt the job, whose progress this is
        return memory_version(connection, change.tenant, change.user_id)
    return new_memory_version(connection, change.tenant, change.user_id)


def _begin_call(connection: PostgresConnection, row: MemoryCallRow) -> None:
    """Insert the row of a call before it is made. Raises MemoryMoved if another server has erased the user."""
    erasures.wait_for(connection)
    user = row.tenant, row.user_id
    if erasures.erasure_times(connection, [user]) and queries.owner(connection, *user) is None:
        raise MemoryMoved("the user was erased meanwhile")
    begin_call(connection, row)


def _check_begun_after(erased_at: datetime | None, changes: Iterable[MemoryChange]) -> Iterator[MemoryChange]:
    """Yield the changes. Raises MemoryMoved if they add a memory that was begun before its user was erased."""
    for change in changes:
        if change.owner is not None and erased_at is not None and change.owner.created_at < erased_at:
            raise MemoryMoved("the user was erased after the import began")
        yield change


class PostgresMemories(MemoryRepository):
    """Read and write memories."""

    matching = reads(matching)
    begin_call = writes(_begin_call)

    async def change(self, change: MemoryChange) -> int:
        """Write a change of a memory in one transaction, and return its new version."""
        return await self._engine.write(lambda connection: _change(connection, change))

    async def import_units(self, tenant: str, user_id: str, expected: str, changes: Iterable[MemoryChange]) -> None:
        """Write changes in one transaction. They can be iterated once, so a prevented transaction is not run again."""
        is_begun = False

        def once(connection: PostgresConnection) -> None:
            nonlocal is_begun
            if is_begun:
                raise MemoryMoved("another server changed the memory meanwhile")
            is_begun = True
            erasures.wait_for(connection)
            erased_at = erasures.erasure_times(connection, [(tenant, user_id)]).get((tenant, user_id))
            new_memory_version(connection, tenant, user_id)
            import_units(connection, tenant, user_id, expected, _check_begun_after(erased_at, changes))

        await self._engine.write(once)


class PostgresTimers(Timers):
    """Read timers, and note failed attempts to fire them."""

    _engine: PostgresEngine

    async def ahead(self, now: datetime, limit: int) -> DueTimers:
        """Take the first timers of at most `limit` sessions that are due and that no other server has taken."""
        return await self._engine.write_at_once(lambda connection: take_timers(connection, now, limit))

    async def replace(self, tenant: str, session_id: str, timers: Sequence[TimerRow], turn: int | None) -> None:
        """Replace the timers of a session, to which no other server adds a turn meanwhile."""

        def replace(connection: PostgresConnection) -> None:
            connection.lock_heads(tenant, [as_uuid(session_id)])
            timers_sql.replace(connection, tenant, session_id, timers, turn)

        await self._engine.write(replace)


class PostgresDelivery(Delivery):
    """Store and read webhooks and deliveries."""

    _engine: PostgresEngine

    async def ahead(self, places: Mapping[str, int], limit: int, now: datetime) -> Ahead:
        """Take due deliveries that no other server has taken."""
        return await self._engine.write_at_once(lambda connection: take_deliveries(connection, places, limit, now))


_COMPACTS_ITSELF = "PostgreSQL reuses the space of deleted rows by itself (autovacuum)"


class PostgresMaintenance(Maintenance):
    """Delete data, and measure the database. Backups and compaction are those of PostgreSQL itself."""

    async def erase_user(self, tenant: str, user_id: str, receipt_id: str, erased_at: datetime) -> ErasureResult:
        """Delete all data of a user; what another server began before does not outlive it."""
        await self._engine.write(lambda connection: erasures.note(connection, tenant, user_id, erased_at))
        return await super().erase_user(tenant, user_id, receipt_id, erased_at)

    async def compact(self, on_step: OnStep = lambda _: None) -> CompactionResult:
        """Raise NotWithPostgres."""
        raise NotWithPostgres(_COMPACTS_ITSELF)

    async def back_up(self, folder: Path, on_step: OnStep = lambda _: None) -> int:
        """Raise NotWithPostgres."""
        raise NotWithPostgres("back up PostgreSQL with its own tools, such as pg_dump or a base backup")

    async def stop_copy(self) -> None:
        """Return at once: nothing is copied."""

    async def require_compactable(self) -> None:
        """Raise NotWithPostgres."""
        await self.compact()

    async def size_to_copy(self) -> Size:
        """Raise NotWithPostgres."""
        raise NotWithPostgres(_COMPACTS_ITSELF)

    async def size(self) -> Size:
        """Return the size of the database. The disk of its server is not visible."""
        return await self._engine.read(_size)


def _size(connection: PostgresConnection) -> Size:
    ((used,),) = connection.rows("SELECT pg_database_size(current_database())")
    return Size(int(used), 0, 0, 0)

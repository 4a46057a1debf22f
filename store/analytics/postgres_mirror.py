"""A DuckDB copy of the tables of a PostgreSQL database, for analytics and verification, refreshed before each use.

Turns have the number of the transaction that wrote them. A refresh reads those that were written since the oldest
transaction that was in progress at the last one: none is missed, whatever the order in which transactions end, and
those that were read already are replaced, so that all tables are of the same moment. Sessions that were deleted or
changed otherwise are in a table of their own and are read again as a whole. Small tables are copied each time.
"""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

import duckdb

from store.analytics.analytics_repository import AnalyticsRepository
from store.analytics.delta import TURNS_MAX, Delta, KnownContent, write_delta
from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.database_file import attach
from store.duckdb.statements import Cursor, transaction
from store.duckdb.table_rows import insert_csv
from store.interface.admission import SessionId
from store.interface.errors import (
    DatabaseLocked,
    FolderUnwritable,
    StoreError,
    StoreUnavailable,
    describe_error,
    write_failure,
)
from store.interface.private_files import FILE_NAME, MIRROR_FOLDER, beside
from store.postgres.connection import OF_SESSION_IDS, PostgresConnection, names_of
from store.postgres.engine import PostgresEngine
from store.postgres.servers import CHANGES_STORED_DAYS
from store.postgres.table_rows import csv_columns, read_csv
from store.sql.connection import Parameters

T = TypeVar("T")

TEMPORARY = f"{MIRROR_FOLDER}-"
"""The names of temporary mirrors begin so."""
OF_SESSIONS = ("session_starts", "turns", "settled_calls")
"""Tables that are refreshed by session."""
SMALL = (
    "session_migrations", "turn_failures", "call_journal", "memory_calls", "user_variable_values",
    "user_variable_writes", "scripts", "reviews", "ratings",
)  # fmt: skip
"""Tables that are copied at each refresh."""
UNITS = ("memory_unit_rows",)
REST = (
    "webhooks", "webhook_deliveries", "timers", "hand_overs", "review_targets", "links", "participants", "api_keys",
    "memory_owners", "memory_groups", "memory_vectors",
)  # fmt: skip
"""Tables that only verification reads."""
ALL = SMALL + UNITS + REST
FILE_BYTES = 64 * 1024**2
"""The file is inserted when it is as large, which bounds the space that it takes."""
_STATE = "CREATE TABLE IF NOT EXISTS mirror_state (xmin UBIGINT NOT NULL, refreshed_at TIMESTAMPTZ NOT NULL)"


class _Rows:
    """The rows that one refresh reads and writes, within a transaction of both databases.

    They are copied in CSV through a private file, a part of them at a time: a row as a JSON document takes DuckDB
    several times as long to read. The file has users' texts: it is in the folder of the mirror, which an erasure
    removes, and it is deleted when its rows are inserted.
    """

    def __init__(self, source: PostgresConnection, cursor: Cursor, path: Path) -> None:
        self.source = source
        self.cursor = cursor
        self._path = path

    def delete(self, table: str, sessions: Sequence[SessionId]) -> None:
        """Delete the rows of sessions."""
        if sessions:
            given = [[tenant for tenant, _ in sessions], [session_id for _, session_id in sessions]]
            named = "SELECT unnest(?::VARCHAR[]), unnest(?::UUID[])"
            self.cursor.execute(f"DELETE FROM {table} WHERE (tenant, session_id) IN ({named})", given)  # noqa: S608

    def delete_turns(self, firsts: Mapping[SessionId, int]) -> None:
        """Delete the turns of sessions from the first ones on."""
        if firsts:
            named = (
                "SELECT unnest(?::VARCHAR[]) AS tenant, unnest(?::UUID[]) AS session_id, unnest(?::INTEGER[]) AS first"
            )
            tenants, session_ids = zip(*firsts, strict=True)
            self.cursor.execute(
                f"""DELETE FROM turns USING ({named}) AS n
                WHERE turns.tenant = n.tenant AND turns.session_id = n.session_id AND turn >= first""",  # noqa: S608
                [list(tenants), list(session_ids), list(firsts.values())],
            )

    def copy(self, table: str, which: str = "true", parameters: Parameters | None = None) -> None:
        """Insert the rows of a table of PostgreSQL that meet a condition. Raises StoreUnavailable."""
        names = csv_columns(self.source, table)
        with closing(read_csv(self.source, table, which, parameters or {})) as rows:
            row = next(rows, None)
            while row is not None:
                with _private_file(self._path) as file:
                    size = longest = 0
                    while row is not None and size < FILE_BYTES:
                        size += file.write(row)
                        longest = max(longest, len(row))
                        row = next(rows, None)
                    file.flush()
                    insert_csv(self.cursor, table, names, self._path, longest)


def _failure(error: Exception) -> StoreError:
    """Return the error of a refresh that failed."""
    failed = StoreUnavailable(f"the copy for analytics failed: {describe_error(error)}")
    return write_failure(error, "the copy for analytics", failed)


@contextmanager
def _private_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that only this account can read, and delete it at the end. Raises StoreUnavailable."""
    try:
        path.unlink(missing_ok=True)  # of a server that was killed
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
    except OSError as error:
        raise _failure(error) from error
    finally:
        path.unlink(missing_ok=True)


class PostgresMirror:
    """The mirror in a data folder. Its methods block; one thread at a time uses it.

    A command beside a server that has the mirror open makes a temporary one, and removes it at the end.
    """

    def __init__(self, engine: PostgresEngine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder / MIRROR_FOLDER
        self._temporary: Path | None = None
        self._lock = threading.Lock()
        self._database: Database | None = None

    async def read(self, work: Callable[[DuckDBConnection], T], tables: Sequence[str] = ()) -> T:
        """Run a function in a thread, with a connection as of `open`. Raises StoreUnavailable."""

        def read() -> T:
            with self.open(tables) as connection:
                return work(connection)

        return await asyncio.to_thread(read)

    @contextmanager
    def open(self, tables: Sequence[str] = ()) -> Iterator[DuckDBConnection]:
        """Yield a connection, after a refresh of the sessions and these tables; without tables, as of the last refresh.

        Raises StoreUnavailable.
        """
        with self._lock:
            database = self._open()
            connection = DuckDBConnection(database.cursor())
            try:
                if tables:
                    self._engine.run_long(lambda source: self._refresh(source, connection.cursor, tables))
                    database.checkpoint_if_due(connection.cursor)
                yield connection
            except duckdb.Error as error:
                raise _failure(error) from error
            finally:
                connection.cursor.close()

    def remove(self) -> None:
        """Remove the mirror, so that it does not have what was erased."""
        with self._lock:
            self._close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def _open(self) -> Database:
        if self._database is None:
            _remove_leftovers(self._folder.parent)
            try:
                self._database = Database.open(self._folder)
            except DatabaseLocked:  # by a server that uses the same data folder
                self._temporary = _temporary_folder(self._folder.parent)
                self._database = Database.open(self._temporary)
        return self._database

    def _refresh(self, source: PostgresConnection, cursor: Cursor, tables: Sequence[str]) -> None:
        """Within one snapshot of PostgreSQL and one transaction of the mirror."""
        rows = _Rows(source, cursor, beside((self._temporary or self._folder) / FILE_NAME, ".rows"))
        ((oldest,),) = source.rows("SELECT pg_snapshot_xmin(pg_current_snapshot())::TEXT")
        since = _last_oldest(cursor, int(oldest))
        with transaction(cursor):
            if since is None:
                _take_all(rows)
            else:
                _take_changes(rows, since)
            _copy_texts(rows)
            for table in tables:
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608
                rows.copy(table)
            cursor.execute("DELETE FROM mirror_state")
            cursor.execute("INSERT INTO mirror_state VALUES (?, now())", [int(oldest)])


def _temporary_folder(folder: Path) -> Path:
    """Create a folder for a temporary mirror. Raises FolderUnwritable."""
    try:
        return Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder))
    except OSError as error:
        raise FolderUnwritable(folder, error) from error


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary mirrors of commands that were killed."""
    for path in folder.glob(f"{TEMPORARY}*/{FILE_NAME}"):
        try:
            attach(path, read_only=True).close()
        except DatabaseLocked:  # of a command that runs
            continue
        except StoreError:  # the command was killed while it created the file
            pass
        shutil.rmtree(path.parent, ignore_errors=True)


_NEW = "changed_in >= $since::TEXT::XID8"


def _take_all(rows: _Rows) -> None:
    """Copy all sessions in place of those that the mirror has."""
    for table in (*OF_SESSIONS, "script_texts"):
        rows.cursor.execute(f"DELETE FROM {table}")  # noqa: S608
    for table in OF_SESSIONS:
        rows.copy(table)


def _take_changes(rows: _Rows, since: int) -> None:
    """Read new turns, all of the sessions that were changed otherwise, and the starts and calls of both.

    Sessions are named with their tenant, with which the indexes begin.
    """
    given = {"since": str(since)}
    changed = _firsts(rows.source, "changed_sessions", "0", given)
    firsts = _firsts(rows.source, "turns", "min(turn)", given) | changed
    rows.delete_turns(firsts)
    sessions = names_of(list(firsts))
    # not those of the window: a transaction can follow one that has a higher number
    rows.copy("turns", _FROM_FIRSTS, {**sessions, "firsts": list(firsts.values())})
    for table in ("session_starts", "settled_calls"):
        rows.delete(table, list(firsts))
        rows.copy(table, OF_SESSION_IDS, sessions)


_FROM_FIRSTS = """(tenant, session_id, turn) IN (
    SELECT t.tenant, t.session_id, t.turn
    FROM unnest($tenants::TEXT[], $sessions::UUID[], $firsts::INTEGER[]) AS n (tenant, session_id, first)
    JOIN turns AS t ON t.tenant = n.tenant AND t.session_id = n.session_id AND t.turn >= n.first)"""


def _firsts(source: PostgresConnection, table: str, first: str, given: Parameters) -> dict[SessionId, int]:
    """Return the sessions with new rows in a table, and the first of their turns to read."""
    select = f"SELECT tenant, session_id::TEXT, {first} FROM {table} WHERE {_NEW} GROUP BY tenant, session_id"  # noqa: S608
    return {(tenant, session_id): turn for tenant, session_id, turn in source.rows(select, given)}


def _last_oldest(cursor: Cursor, oldest: int) -> int | None:
    """Return the oldest transaction that was in progress at the last refresh; None if all must be read again."""
    cursor.execute(_STATE)
    found = cursor.execute(
        f"SELECT xmin FROM mirror_state WHERE refreshed_at > now() - INTERVAL {CHANGES_STORED_DAYS - 1} DAY"  # noqa: S608
    ).fetchall()
    if found and found[0][0] <= oldest:  # else the database was restored from a copy
        return int(found[0][0])
    return None


def _copy_texts(rows: _Rows) -> None:
    """Copy the texts of scripts that the mirror does not have; a text never changes."""
    known = set(rows.cursor.execute("SELECT tenant, digest FROM script_texts").fetchall())
    absent = [each for each in rows.source.rows("SELECT tenant, digest FROM script_texts") if each not in known]
    if absent:
        which = "(tenant, digest) IN (SELECT unnest($tenants::TEXT[]), unnest($digests::TEXT[]))"
        given = {"tenants": [tenant for tenant, _ in absent], "digests": [digest for _, digest in absent]}
        rows.copy("script_texts", which, given)


class PostgresAnalytics(AnalyticsRepository):
    """Read the changes for analytics files in the mirror, and store queries and dashboards in the database."""

    def __init__(self, engine: PostgresEngine, mirror: PostgresMirror) -> None:
        super().__init__(engine)
        self._mirror = mirror

    async def delta(
        self, tenant: str, folder: Path, known: KnownContent, *, units: bool, turns_max: int = TURNS_MAX
    ) -> Delta:
        """Refresh the mirror, and write the changes since `known` into an empty folder."""

        def write(mirror: DuckDBConnection) -> Delta:
            return write_delta(mirror.cursor, tenant, folder, known, units=units, turns_max=turns_max)

        return await self._mirror.read(write, SMALL + UNITS * units)

"""A DuckDB copy of the tables of a PostgreSQL database, for analytics and verification, refreshed before each use.

Turns have the number of the transaction that wrote them. A refresh reads those that were written since the last one and
before the oldest transaction that was then in progress: every row is read once it is certain to be seen, whatever the
order in which transactions end. Sessions that were deleted or changed otherwise are in a table of their own and are
read again as a whole. Small tables are copied each time.
"""

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.fetch import Cursor
from store.duckdb.insert import roll_back
from store.duckdb.table_rows import insert_documents
from store.interface.errors import StoreUnavailable, describe_error
from store.postgres.connection import PostgresConnection
from store.postgres.engine import PostgresEngine
from store.postgres.servers import CHANGES_STORED_DAYS
from store.postgres.table_rows import read_documents

FOLDER = "mirror"
OF_SESSIONS = ("session_starts", "turns", "settled_calls")
"""Tables that are refreshed by session."""
SMALL = (
    "session_migrations",
    "turn_failures",
    "call_journal",
    "memory_calls",
    "user_variable_values",
    "user_variable_writes",
    "scripts",
    "reviews",
    "ratings",
)
"""Tables that are copied at each refresh."""
UNITS = ("memory_unit_rows",)
REST = (
    "webhooks",
    "webhook_deliveries",
    "timers",
    "hand_overs",
    "links",
    "participants",
    "api_keys",
    "memory_owners",
    "memory_groups",
    "memory_vectors",
)
"""Tables that only verification reads."""
_STATE = "CREATE TABLE IF NOT EXISTS mirror_state (xmin UBIGINT NOT NULL, refreshed_at TIMESTAMPTZ NOT NULL)"


class _Window(NamedTuple):
    """The transactions that a refresh reads."""

    since: int
    before: int


class PostgresMirror:
    """The mirror in a data folder. Its methods block; one thread at a time uses it."""

    def __init__(self, engine: PostgresEngine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder / FOLDER
        self._lock = threading.Lock()
        self._database: Database | None = None

    @contextmanager
    def refreshed(self, *, units: bool) -> Iterator[DuckDBConnection]:
        """Refresh what analytics reads, and yield a connection; `units` includes memories. Raises StoreUnavailable."""
        with self._connected(SMALL + UNITS * units) as connection:
            yield connection

    @contextmanager
    def opened(self, *, is_fresh: bool) -> Iterator[DuckDBConnection]:
        """Yield a connection; with `is_fresh` refresh all tables before. Raises StoreUnavailable."""
        with self._connected(SMALL + UNITS + REST if is_fresh else ()) as connection:
            yield connection

    @contextmanager
    def _connected(self, tables: Sequence[str]) -> Iterator[DuckDBConnection]:
        with self._lock:
            connection = DuckDBConnection(self._open().cursor())
            try:
                if tables:
                    self._engine.run_long(lambda source: self._refresh(source, connection.cursor, tables))
                yield connection
            except duckdb.Error as error:
                raise StoreUnavailable(f"the copy for analytics failed: {describe_error(error)}") from error
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

    def _open(self) -> Database:
        if self._database is None:
            self._database = Database.open(self._folder)
        return self._database

    def _refresh(self, source: PostgresConnection, cursor: Cursor, tables: Sequence[str]) -> None:
        """Within one snapshot of PostgreSQL and one transaction of the mirror."""
        window = _window(source, cursor)
        cursor.execute("BEGIN")
        try:
            self._take_sessions(source, cursor, window)
            _copy_texts(source, cursor)
            for table in tables:
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608
                for documents in read_documents(source, table):
                    insert_documents(cursor, table, documents)
            cursor.execute("DELETE FROM mirror_state")
            cursor.execute("INSERT INTO mirror_state VALUES (?, now())", [window.before])
            cursor.execute("COMMIT")
        except BaseException:
            roll_back(cursor)
            raise

    def _take_sessions(self, source: PostgresConnection, cursor: Cursor, window: _Window) -> None:
        range_ = {"since": str(window.since), "before": str(window.before)}
        changed = source.rows(_CHANGED, range_)
        again = [session_id for (session_id,) in changed] if window.since else []
        for table in ("session_starts", "turns"):
            cursor.execute(f"DELETE FROM {table} WHERE session_id IN (SELECT unnest(?::UUID[]))", [again])  # noqa: S608
        given = {**range_, "again": again}
        for documents in read_documents(source, "turns", _READ, given):
            insert_documents(cursor, "turns", documents)
        cursor.execute("UPDATE turns SET commit_number = NULL WHERE commit_number IS NOT NULL")
        began = f"""session_id = ANY($again::UUID[])
            OR (tenant, session_id) IN (SELECT tenant, session_id FROM turns WHERE turn = 0 AND {_NEW})"""  # noqa: S608
        for documents in read_documents(source, "session_starts", began, given):
            insert_documents(cursor, "session_starts", documents)
        _take_calls(source, cursor, window, given)


_NEW = "changed_in >= $since::TEXT::XID8 AND changed_in < $before::TEXT::XID8"
_READ = f"({_NEW}) OR (session_id = ANY($again::UUID[]) AND changed_in < $before::TEXT::XID8)"
"""The turns that a refresh reads: no later ones of sessions that it reads again, which the next refresh will read."""
_CHANGED = f"SELECT DISTINCT session_id::TEXT FROM changed_sessions WHERE {_NEW}"  # noqa: S608


def _take_calls(source: PostgresConnection, cursor: Cursor, window: _Window, given: Mapping[str, Any]) -> None:
    """Read all calls of the sessions that have new turns."""
    which, parameters = "true", {}
    if window.since:
        select = f"SELECT DISTINCT session_id::TEXT FROM turns WHERE {_READ}"  # noqa: S608
        continued = [session_id for (session_id,) in source.rows(select, given)]
        gone = [*continued, *given["again"]]
        cursor.execute("DELETE FROM settled_calls WHERE session_id IN (SELECT unnest(?::UUID[]))", [gone])
        which, parameters = "session_id = ANY($continued::UUID[])", {"continued": continued}
    for documents in read_documents(source, "settled_calls", which, parameters):
        insert_documents(cursor, "settled_calls", documents)


def _window(source: PostgresConnection, cursor: Cursor) -> _Window:
    cursor.execute(_STATE)
    ((before,),) = source.rows("SELECT pg_snapshot_xmin(pg_current_snapshot())::TEXT")
    found = cursor.execute(
        f"SELECT xmin FROM mirror_state WHERE refreshed_at > now() - INTERVAL {CHANGES_STORED_DAYS - 1} DAY"  # noqa: S608
    ).fetchall()
    if found and found[0][0] <= int(before):  # else the database was restored from a copy
        return _Window(int(found[0][0]), int(before))
    for table in (*OF_SESSIONS, "script_texts"):
        cursor.execute(f"DELETE FROM {table}")  # noqa: S608
    return _Window(0, int(before))


def _copy_texts(source: PostgresConnection, cursor: Cursor) -> None:
    """Copy the texts of scripts that the mirror does not have; a text never changes."""
    known = {
        (tenant, digest) for tenant, digest in cursor.execute("SELECT tenant, digest FROM script_texts").fetchall()
    }
    found = source.rows("SELECT tenant, digest FROM script_texts")
    absent = [(tenant, digest) for tenant, digest in found if (tenant, digest) not in known]
    if absent:
        which = "(tenant, digest) IN (SELECT unnest($tenants::TEXT[]), unnest($digests::TEXT[]))"
        given = {"tenants": [tenant for tenant, _ in absent], "digests": [digest for _, digest in absent]}
        for documents in read_documents(source, "script_texts", which, given):
            insert_documents(cursor, "script_texts", documents)

"""A DuckDB copy of the tables of a PostgreSQL database, for analytics and verification, refreshed before each use.

Turns have the number of the transaction that wrote them. A refresh reads those that were written since the last one and
before the oldest transaction that was then in progress: every row is read once it is certain to be seen, whatever the
order in which transactions end. Sessions that were deleted or changed otherwise are in a table of their own and are
read again as a whole. Small tables are copied each time.
"""

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import duckdb

from store.analytics.mirror_rows import MirrorRows
from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.insert import roll_back
from store.duckdb.statements import Cursor
from store.interface.admission import SessionId
from store.interface.errors import StoreUnavailable, describe_error
from store.interface.private_files import FILE_NAME, beside
from store.postgres.connection import OF_SESSION_IDS, PostgresConnection, names_of
from store.postgres.engine import PostgresEngine
from store.postgres.servers import CHANGES_STORED_DAYS
from store.sql.connection import Parameters

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

    def parameters(self) -> dict[str, str]:
        """Return them as parameters of statements."""
        return {"since": str(self.since), "before": str(self.before)}


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
        rows = MirrorRows(source, cursor, beside(self._folder / FILE_NAME, ".rows"))
        window = _window(source, cursor)
        cursor.execute("BEGIN")
        try:
            if window.since:
                _take_changes(rows, window)
            else:
                _take_all(rows, window)
            _copy_texts(rows)
            for table in tables:
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608
                rows.copy(table)
            cursor.execute("DELETE FROM mirror_state")
            cursor.execute("INSERT INTO mirror_state VALUES (?, now())", [window.before])
            cursor.execute("COMMIT")
        except BaseException:
            roll_back(cursor)
            raise


_NEW = "changed_in >= $since::TEXT::XID8 AND changed_in < $before::TEXT::XID8"


def _take_all(rows: MirrorRows, window: _Window) -> None:
    """Copy all sessions into an empty mirror, up to the window's end."""
    given = window.parameters()
    rows.copy("turns", _NEW, given)
    began = f"(tenant, session_id) IN (SELECT tenant, session_id FROM turns WHERE turn = 0 AND {_NEW})"  # noqa: S608
    rows.copy("session_starts", began, given)
    rows.copy("settled_calls")


def _take_changes(rows: MirrorRows, window: _Window) -> None:
    """Read new turns, all of the sessions that were changed otherwise, and the starts and calls of both.

    Sessions are named with their tenant, with which the indexes begin.
    """
    given = window.parameters()
    changed = _sessions(rows.source, "changed_sessions", given)
    continued = _sessions(rows.source, "turns", given)
    again = {**given, **names_of(changed)}
    rows.delete("turns", changed)
    # no later turns of the changed sessions, which the next refresh will read
    rows.copy("turns", f"{OF_SESSION_IDS} AND changed_in < $before::TEXT::XID8", again)
    rows.copy("turns", f"{_NEW} AND NOT {OF_SESSION_IDS}", again)
    both = sorted({*changed, *continued})
    for table in ("session_starts", "settled_calls"):
        rows.delete(table, both)
        rows.copy(table, OF_SESSION_IDS, names_of(both))


def _sessions(source: PostgresConnection, table: str, given: Parameters) -> list[SessionId]:
    """Return the sessions that have rows of the window in a table."""
    select = f"SELECT DISTINCT tenant, session_id::TEXT FROM {table} WHERE {_NEW}"  # noqa: S608
    return [(tenant, session_id) for tenant, session_id in source.rows(select, given)]


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


def _copy_texts(rows: MirrorRows) -> None:
    """Copy the texts of scripts that the mirror does not have; a text never changes."""
    known = set(rows.cursor.execute("SELECT tenant, digest FROM script_texts").fetchall())
    absent = [each for each in rows.source.rows("SELECT tenant, digest FROM script_texts") if each not in known]
    if absent:
        which = "(tenant, digest) IN (SELECT unnest($tenants::TEXT[]), unnest($digests::TEXT[]))"
        given = {"tenants": [tenant for tenant, _ in absent], "digests": [digest for _, digest in absent]}
        rows.copy("script_texts", which, given)

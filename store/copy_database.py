"""Copy a whole database into an empty one: from a database file to PostgreSQL, or back.

Rows are copied in groups, and how far a table was copied is stored with them, so that a copy that was interrupted goes
on where it stopped. At the end the rows of both databases are read and compared.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import duckdb
import msgspec
import psycopg

from store.duckdb import table_rows as duckdb_rows
from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.interface.errors import CopyRefused, DatabaseUnreadable, StoreUnavailable, describe_error
from store.postgres import table_rows as postgres_rows
from store.postgres.connection import PostgresConnection
from store.postgres.engine import PostgresEngine
from store.postgres.servers import ALIVE_S, servers_alive
from store.sql import copy_progress

TABLES = (
    "script_texts", "scripts", "drafts", "session_starts", "session_migrations", "turns", "turn_failures",
    "settled_calls", "call_journal", "memory_calls", "user_variable_values", "user_variable_writes", "api_keys",
    "erasures", "webhooks", "webhook_deliveries", "timers", "hand_overs", "links", "participants", "reviews",
    "review_targets", "ratings", "saved_queries", "dashboards", "memory_owners", "memory_groups", "memory_unit_rows",
    "memory_vectors", "memory_jobs",
)  # fmt: skip
"""All tables with rows of users; the others are derived."""
DERIVED_A_TIME = 1_000
OnProgress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is done, how many of its rows are done, and how many there are."""
VARIABLES = "user_variable_values"
_UNCOPIED = frozenset({"commit_number", "changed_in"})


class TableDigest(NamedTuple):
    """The number of rows of a table, and a digest of them that does not depend on their order."""

    rows: int
    digest: int


class _Side(ABC):
    """A database of a copy."""

    def __init__(self, connection: DuckDBConnection | PostgresConnection, name: str) -> None:
        self._connection = connection
        self.name = name

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return int(self._connection.rows(f"SELECT count(*) FROM {self.source(table)}")[0][0])  # noqa: S608

    def source(self, table: str) -> str:
        """Return what is read for a table."""
        return table

    @abstractmethod
    def documents(self, table: str, first: int) -> Iterator[list[bytes]]:
        """Yield the rows of a table in groups, in an order that does not change, from a row on."""

    @abstractmethod
    def insert(self, table: str, documents: Sequence[bytes]) -> None:
        """Insert rows, within a transaction."""

    def progress(self) -> dict[str, int] | None:
        """Return how many rows of each table an interrupted copy has written; None if there is none."""
        [(unfinished,)] = self._connection.rows(copy_progress.EXISTS)
        return dict(self._connection.rows(copy_progress.READ)) if unfinished else None

    def begin(self) -> None:
        """Mark the database as the target of a copy, so that nothing else uses it."""
        self._connection.execute(copy_progress.CREATE)

    def write(self, table: str, documents: Sequence[bytes], done: int) -> None:
        """Insert rows, and store how many are done, in one transaction."""
        with self._connection.in_transaction():
            self.insert(table, documents)
            self._connection.change("DELETE FROM copy_progress WHERE name = $name", {"name": table})
            self._connection.change("INSERT INTO copy_progress VALUES ($name, $done)", {"name": table, "done": done})

    def finish(self) -> None:
        """Derive what is not copied, and forget the progress: from now on the database can be used."""
        self._connection.execute(copy_progress.DROP)


def copy_database(source: str, target: str, on_progress: OnProgress) -> dict[str, int]:
    """Copy all rows, and compare them; return the number of rows of each table. Blocks.

    `source` and `target` are folders or `postgresql://` addresses; no server may use them. Raises CopyRefused if both
    are the same, the target has rows of another origin or the rows differ at the end, CopyUnfinished if the source is
    such a copy, DatabaseUnreadable, DatabaseLocked, StoreUnavailable.
    """
    if Path(source).resolve() == Path(target).resolve():
        raise CopyRefused("the database to read is the one to write; name a new folder or an empty database")
    with _side(source, is_target=False) as origin, _side(target, is_target=True) as copy:
        progress = copy.progress()
        if progress is None:
            _require_empty(copy)
            copy.begin()
            progress = {}
        for table in TABLES:
            total, done = origin.count(table), progress.get(table, 0)
            for documents in origin.documents(table, done):
                done += len(documents)
                copy.write(table, documents, done)
                on_progress(table, done, total)
        counts = _compare(origin, copy, on_progress)
        copy.finish()
        return counts


def _require_empty(copy: _Side) -> None:
    used = [table for table in TABLES if copy.count(table)]
    if used:
        raise CopyRefused(f"{copy.name} is not empty: it has rows in {used[0]}; name a new database")


def _compare(origin: _Side, copy: _Side, on_progress: OnProgress) -> dict[str, int]:
    counts = {}
    for number, table in enumerate(TABLES, 1):
        expected, found = _digest(origin, table), _digest(copy, table)
        if expected != found:
            raise CopyRefused(
                f"{table} differs: {origin.name} has {expected.rows:,} rows, {copy.name} {found.rows:,}"
                + (", with other content" if expected.rows == found.rows else "")
                + "; delete the copy, and copy again while no server runs"
            )
        counts[table] = found.rows
        on_progress("compared tables", number, len(TABLES))
    return counts


def _digest(side: _Side, table: str) -> TableDigest:
    rows = total = 0
    for documents in side.documents(table, 0):
        for document in documents:
            rows += 1
            total += int.from_bytes(hashlib.blake2b(_canonical(document), digest_size=8).digest(), "big")
    return TableDigest(rows, total % 2**64)


def _canonical(document: bytes) -> bytes:
    row = msgspec.json.decode(document)
    values = {name: _plain(value) for name, value in row.items() if value is not None and name not in _UNCOPIED}
    return msgspec.json.encode(values, order="sorted")


def _plain(value: Any) -> Any:
    """Return a value as both databases have it: times in one form, no U+0000, also within lists and objects.

    One writes the double 0 as `0.0`, the other as `0`.
    """
    if isinstance(value, dict):
        return {_plain(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return value
    if len(value) >= 20 and value[4] == value[7] == "-":
        try:
            return datetime.fromisoformat(value).isoformat()
        except ValueError:
            pass
    return value.replace("\x00", "\ufffd")


def _side(place: str, *, is_target: bool) -> AbstractContextManager[_Side]:
    if place.startswith(("postgresql://", "postgres://")):
        return _postgres_side(place, is_target=is_target)
    if "://" in place:
        raise DatabaseUnreadable("the address of a PostgreSQL database begins with postgresql://")
    return _duckdb_side(Path(place), is_target=is_target)


@contextmanager
def _duckdb_side(folder: Path, *, is_target: bool) -> Iterator[_Side]:
    if not is_target and not folder.is_dir():
        raise DatabaseUnreadable(f"there is no data folder {folder}")
    database = Database.open(folder, read_only=not is_target, is_target=is_target)
    connection = database.connection()
    try:
        yield _DuckDBSide(connection, str(folder), database)
    except duckdb.Error as error:
        raise StoreUnavailable(f"the copy failed: {describe_error(error)}") from error
    finally:
        connection.cursor.close()
        database.close()


class _DuckDBSide(_Side):
    _connection: DuckDBConnection

    def __init__(self, connection: DuckDBConnection, name: str, database: Database) -> None:
        super().__init__(connection, name)
        self._database = database

    def source(self, table: str) -> str:
        """Return the view, which has the values of variables that the table does not have yet."""
        return "user_variables" if table == VARIABLES else table

    def documents(self, table: str, first: int) -> Iterator[list[bytes]]:
        order = "tenant, user_id, name" if table == VARIABLES else "rowid"
        return duckdb_rows.read_documents(self._connection.cursor, self.source(table), first, order)

    def insert(self, table: str, documents: Sequence[bytes]) -> None:
        duckdb_rows.insert_documents(self._connection.cursor, table, [_without_number(each) for each in documents])

    def write(self, table: str, documents: Sequence[bytes], done: int) -> None:
        super().write(table, documents, done)
        self._database.checkpoint_if_due(self._connection.cursor)

    def finish(self) -> None:
        super().finish()
        self._database.checkpoint(self._connection.cursor)


def _without_number(document: bytes) -> bytes:
    """Return a turn without the number of its commit: its writes are in the table of variables already."""
    if b'"commit_number"' not in document:
        return document
    row = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**row, "commit_number": None})


@contextmanager
def _postgres_side(url: str, *, is_target: bool) -> Iterator[_Side]:
    engine = PostgresEngine.open(url, read_only=not is_target, read_timeout_s=0, is_target=is_target)
    try:
        with engine.pool.connection() as raw:
            connection = PostgresConnection(raw, engine.tables)
            _require_stopped(connection, engine.name)
            if is_target:
                yield _PostgresSide(connection, engine.name)
            else:
                with connection.snapshot():
                    raw.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                    raw.execute("SET LOCAL synchronize_seqscans = off")  # the order of rows is the same each time
                    yield _PostgresSide(connection, engine.name)
    except psycopg.Error as error:
        raise StoreUnavailable(f"the copy failed: {describe_error(error)}") from error
    finally:
        engine.close()


def _require_stopped(connection: PostgresConnection, name: str) -> None:
    """Raise CopyRefused while servers use the database: the copy would lack what they write meanwhile."""
    if number := servers_alive(connection):
        raise CopyRefused(
            f"{name} is in use by servers: {number}; stop them first (one that was killed counts for {ALIVE_S} seconds)"
        )


class _PostgresSide(_Side):
    _connection: PostgresConnection

    def documents(self, table: str, first: int) -> Iterator[list[bytes]]:
        with self._connection.in_transaction():
            yield from postgres_rows.read_documents(self._connection, table, first)

    def insert(self, table: str, documents: Sequence[bytes]) -> None:
        self._connection.insert_documents(table, documents)

    def finish(self) -> None:
        """Derive the heads of all sessions that have a turn."""
        select = """SELECT tenant, session_id::TEXT FROM session_starts AS s WHERE NOT EXISTS (
            SELECT 1 FROM session_heads AS h WHERE h.tenant = s.tenant AND h.session_id = s.session_id)
            AND EXISTS (SELECT 1 FROM turns AS t WHERE t.tenant = s.tenant AND t.session_id = s.session_id)
            ORDER BY tenant LIMIT $limit"""
        while found := self._connection.rows(select, {"limit": DERIVED_A_TIME}):
            by_tenant: dict[str, list[str]] = {}
            for tenant, session_id in found:
                by_tenant.setdefault(tenant, []).append(session_id)
            with self._connection.in_transaction():
                for tenant, session_ids in by_tenant.items():
                    self._connection.derive(tenant, session_ids)
        self._connection.execute("ANALYZE")
        super().finish()

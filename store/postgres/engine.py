"""The engine of the repositories over PostgreSQL: threads that use the connections of a pool."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar
from uuid import uuid4

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from store.interface.addresses import without_password
from store.interface.errors import (
    DatabaseUnreachable,
    DatabaseUnreadable,
    ReadTimedOut,
    RowRefused,
    StoreBusy,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
    describe_error,
)
from store.postgres.connection import IDLE_TIMEOUT_S, LOCK_TIMEOUT_S, PostgresConnection, PsycopgConnection, Tables
from store.postgres.schema import column_types, migrate
from store.sql import copy_progress
from store.sql.repository import ChangedIds

THREADS = 12
"""Threads, and connections of one server, that read and write; one more connection commits turns."""
WAITING_MAX = 1_024
"""Maximum number of reads and writes that wait for a thread."""
CONNECT_TIMEOUT_S = 5.0
RETRY_S = 10.0
"""How long a transaction that another one prevented, or whose connection was lost, is tried again."""
PAUSE_S = 0.02
"""The longest pause between two attempts."""
CLASHES_MAX = 5
"""How often a write or a group of turns may add a row that exists already before it is refused."""
WRITE_TIMEOUT_S = 60
"""Seconds for a statement of a write: erasures and imports may change many rows."""

T = TypeVar("T")
log = structlog.get_logger()
PREVENTED = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.LockNotAvailable,  # after LOCK_TIMEOUT_S
)
"""Errors of a transaction that another one prevented; nothing of it is written."""
BAD_ROW = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError)
"""Errors that the rows cause."""
_PASSING = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)
"""Errors of a connection or of the server, which may be a standby that is not promoted yet."""


class _DriverLines(logging.Handler):
    """Writes the warnings of the driver about connections as lines of the log of Cuebook."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        log.warning("a connection to the database has a problem", problem=record.getMessage())


logging.getLogger("psycopg").addHandler(_DriverLines(logging.WARNING))


class PostgresEngine:
    """The connections of this server to a database."""

    def __init__(self, pool: ConnectionPool[PsycopgConnection], tables: Tables, name: str, *, read_only: bool) -> None:
        self.pool = pool
        self.tables = tables
        self.name = name
        self.owner = str(uuid4())
        """Names this server in claims."""
        self.read_only = read_only
        self.failure: str | None = None
        """Why the last write failed, if the database caused it."""
        self._waiting = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cuebook-postgres")

    @classmethod
    def open(cls, url: str, *, read_only: bool, read_timeout_s: float, is_target: bool = False) -> Self:
        """Connect to a database, and migrate it if necessary. Blocks.

        Raises DatabaseUnreadable, DatabaseTooNew, DatabaseTooOld, MigrationChanged, and unless the database is the
        target of a copy CopyUnfinished.
        """
        _require_address(url)
        name = without_password(url)
        try:
            with psycopg.connect(
                url, autocommit=True, connect_timeout=round(CONNECT_TIMEOUT_S), cursor_factory=psycopg.RawCursor
            ) as connection:
                migrate(connection, name, read_only=read_only)
                if not is_target:
                    copy_progress.require_finished(connection.execute(copy_progress.EXISTS).fetchall(), name)
                tables = column_types(connection)
        except psycopg.Error as error:
            raise DatabaseUnreadable(f"{name} cannot be opened: {str(error).strip()}") from error
        return cls(_pool(url, read_timeout_s), tables, name, read_only=read_only)

    def close(self) -> None:
        """Wait for what runs, at most the time limit of a read, then close all connections."""
        self._threads.shutdown(wait=True)
        self.pool.close()

    async def read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a function in a thread. Raises StoreBusy, ReadTimedOut, StoreUnavailable."""
        return await self._run(self._read, work)

    async def read_durable(self, work: Callable[[PostgresConnection], T | None]) -> T | None:
        """Run a function in a thread; what it finds is on disk, since readers see only what is committed."""
        return await self.read(work)

    async def write(
        self, work: Callable[[PostgresConnection], T], changed: Callable[[T], ChangedIds] = lambda _: ChangedIds()
    ) -> T:
        """Run a function in a serializable transaction, again if another one prevented it; nothing is cached.

        Raises StoreBusy, StoreUnavailable, StoreReadOnly, and what the function raises.
        """
        self.require_writable()
        return await self._run(self._write, work)

    async def write_at_once(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a function whose statements are each a transaction, or guarded by their own locks.

        Raises StoreBusy, StoreUnavailable, StoreReadOnly.
        """
        self.require_writable()
        return await self._run(self._write_at_once, work)

    def require_writable(self) -> None:
        """Raise StoreReadOnly if the database is open read-only."""
        if self.read_only:
            raise StoreReadOnly("the database is open read-only")

    async def _run(self, run: Callable[[Callable[[PostgresConnection], T]], T], work: Any) -> T:
        if self._waiting >= WAITING_MAX:
            raise StoreBusy(f"{WAITING_MAX} reads and writes are already waiting")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, run, work)
        except RuntimeError as error:
            if "shutdown" in str(error):
                raise StoreUnavailable("the database is closed") from error
            raise
        finally:
            self._waiting -= 1

    def _read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a function; once more if its connection was lost, since reading twice changes nothing."""
        try:
            try:
                return self._with_connection(work)
            except psycopg.OperationalError as error:
                if not _is_lost(error):
                    raise
                self.pool.check()  # a restart of the database breaks all idle connections; they are replaced
                return self._with_connection(work)
        except psycopg.errors.QueryCanceled as error:
            raise ReadTimedOut("a read took longer than its limit and was stopped") from error
        except StoreError:
            raise
        except psycopg.Error as error:
            raise _unavailable("read", error) from error

    def run(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a function in this thread, each of its statements in a transaction. Raises StoreUnavailable."""
        try:
            return self._with_connection(work)
        except psycopg.Error as error:
            raise _unavailable("write", error) from error

    def _write_at_once(self, work: Callable[[PostgresConnection], T]) -> T:
        try:
            result = self._with_connection(work)
        except psycopg.Error as error:
            raise self.note_failure(error) from error
        self.failure = None
        return result

    def run_long(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a function that reads one snapshot, however long it takes. Raises StoreUnavailable."""

        def read(connection: PostgresConnection) -> T:
            with connection.snapshot():
                connection.connection.execute("SET LOCAL statement_timeout = 0")
                connection.connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                return work(connection)

        return self.run(read)

    def _with_connection(self, work: Callable[[PostgresConnection], T]) -> T:
        with self.pool.connection() as connection:
            return work(PostgresConnection(connection, self.tables))

    def _write(self, work: Callable[[PostgresConnection], T]) -> T:
        until, clashes, is_repeated = time.monotonic() + RETRY_S, 0, False
        is_ending = False  # whether the COMMIT may have been sent; before that, a lost connection leaves nothing

        def attempt(connection: PostgresConnection) -> T:
            nonlocal is_ending
            is_ending = False
            with connection.connection.transaction():
                connection.connection.execute(
                    f"""SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
                    SET LOCAL statement_timeout = '{WRITE_TIMEOUT_S}s'""".encode()
                )
                result = work(connection)
                is_ending = True
                return result

        while True:
            try:
                result = self._with_connection(attempt)
            except psycopg.errors.UniqueViolation as error:  # usually another server has just added the same row
                clashes += 1
                if clashes == CLASHES_MAX:
                    raise RowRefused(f"the database refused the row: {describe_error(error)}") from error
                time.sleep(PAUSE_S * random.random())  # noqa: S311
            except PREVENTED as error:
                if time.monotonic() > until:
                    raise StoreBusy("other transactions prevented the write") from error
                time.sleep(PAUSE_S * random.random())  # noqa: S311
            except BAD_ROW as error:
                raise RowRefused(f"the database refused the row: {describe_error(error)}") from error
            except StoreError:
                raise
            except psycopg.Error as error:
                if is_repeated or is_ending or not _is_lost(error):
                    raise self.note_failure(error) from error
                is_repeated = True
                self.pool.check()
            else:
                self.failure = None
                return result

    def note_failure(self, error: psycopg.Error) -> StoreUnavailable:
        """Remember why a write failed, and return its error."""
        self.failure = describe_error(error).strip()
        return _unavailable("write", error)


def _unavailable(what: str, error: psycopg.Error) -> StoreUnavailable:
    kind = DatabaseUnreachable if isinstance(error, _PASSING) else StoreUnavailable
    return kind(f"the {what} failed: {describe_error(error).strip()}")


def _is_lost(error: psycopg.Error) -> bool:
    """Return whether an error is that of a connection that was lost, or that the database ended."""
    is_of_connection = error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    return isinstance(error, psycopg.OperationalError) and not isinstance(error, PoolTimeout) and is_of_connection


def _require_address(url: str) -> None:
    """Raise DatabaseUnreadable if an address is malformed; messages of the driver could quote its password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        parts = {"host": "@"}
    if any("@" in str(parts.get(part)) for part in ("host", "dbname")):
        raise DatabaseUnreadable(
            "the address of the database is malformed; in its password, write @ as %40, / as %2F and % as %25"
        )


def _pool(url: str, read_timeout_s: float) -> ConnectionPool[PsycopgConnection]:
    def configure(connection: PsycopgConnection) -> None:
        connection.execute(
            f"""SET TimeZone = 'UTC'; SET statement_timeout = '{read_timeout_s}s';
            SET lock_timeout = '{LOCK_TIMEOUT_S}s';
            SET idle_in_transaction_session_timeout = '{IDLE_TIMEOUT_S}s'""".encode()
        )

    return ConnectionPool(
        url,
        min_size=1,
        max_size=THREADS + 1,
        timeout=CONNECT_TIMEOUT_S,
        reconnect_timeout=CONNECT_TIMEOUT_S,
        kwargs={
            "autocommit": True,
            "cursor_factory": psycopg.RawCursor,
            "connect_timeout": round(CONNECT_TIMEOUT_S),
            "application_name": "cuebook",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
        },
        configure=configure,
        open=True,
    )

"""An analyst's SQL: one SELECT, over the file opened read-only, without access to anything else on the machine."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from store.database import Database
from store.errors import QueryRefused, ReadTimedOut

STOP_S = 5.0  # for a query that was interrupted to end
_READING = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
_ENCLOSURE = """
SET enable_external_access = false;
SET memory_limit = '2GB';
SET lock_configuration = true;
"""


class QueryLimits(msgspec.Struct, frozen=True):
    """What one query may use."""

    rows_max: int = 10_000
    timeout_s: float = 60.0


class QueryResult(msgspec.Struct, frozen=True):
    """A table: names of its columns, and rows of Python values (text, numbers, aware datetimes, UUIDs, lists …)."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    truncated: bool
    """Whether there were more rows than the limit."""


def query(folder: Path, sql: str, limits: QueryLimits | None = None) -> QueryResult:
    """Run one SELECT over a data folder that no server has open. Blocks.

    Raises QueryRefused for anything but one valid SELECT, ReadTimedOut, and what Database.open raises.
    """
    limits = limits or QueryLimits()
    database = Database.open(folder, read_only=True)
    try:
        cursor = database.cursor()
        cursor.execute(_ENCLOSURE)
        return _interruptible(cursor, sql, limits)
    finally:
        database.close()


def _interruptible(cursor: duckdb.DuckDBPyConnection, sql: str, limits: QueryLimits) -> QueryResult:
    """Runs the query beside this thread, which stays free to take a Ctrl-C and pass it on to the database."""
    executor = ThreadPoolExecutor(1, "cuebook-query")
    running = executor.submit(_run, cursor, sql, limits)
    executor.shutdown(wait=False)
    try:
        return running.result()
    except KeyboardInterrupt:
        cursor.interrupt()
        _wait_out(running)
        raise


def _wait_out(running: Future[QueryResult]) -> None:
    """Waits for a query that was told to stop, however impatiently Ctrl-C is pressed meanwhile."""
    deadline = time.monotonic() + STOP_S
    while not running.done() and time.monotonic() < deadline:
        with suppress(KeyboardInterrupt):
            wait([running], timeout=deadline - time.monotonic())


def _run(cursor: duckdb.DuckDBPyConnection, sql: str, limits: QueryLimits) -> QueryResult:
    timer = threading.Timer(limits.timeout_s, cursor.interrupt)
    timer.start()
    try:
        statements = cursor.extract_statements(sql)
        if len(statements) != 1 or statements[0].type not in _READING:
            raise QueryRefused("one SELECT statement, please: nothing else can be run here")
        cursor.execute(statements[0])
        columns = [name for name, *_ in cursor.description or ()]
        rows = cursor.fetchmany(limits.rows_max + 1)
    except duckdb.InterruptException as error:
        raise ReadTimedOut(f"the query took longer than {limits.timeout_s:g} s and was stopped") from error
    except duckdb.Error as error:
        raise QueryRefused(str(error)) from error
    finally:
        timer.cancel()
    return QueryResult(columns, rows[: limits.rows_max], truncated=len(rows) > limits.rows_max)

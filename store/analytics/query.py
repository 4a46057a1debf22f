"""Run an untrusted query on a file: read-only, without access to anything else, with limits on rows, bytes and time.

The process that runs it must also limit time and memory, because DuckDB functions that build a huge value observe
neither the memory limit nor the interrupt.
"""

import threading
from contextlib import closing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import msgspec

from store.analytics.sql_guard import DEPTH_MAX, check
from store.duckdb.database_file import quote, why_not_open
from store.interface.analyst_rows import Limit
from store.interface.errors import QueryRefused, QueryStopped, StoreUnavailable

_BATCH = 500
"""Rows fetched at a time; their bytes are counted before more rows are fetched."""
_LENGTHS = (str, bytes)
_FLAT = (int, float, bool, type(None), Decimal, date, datetime, time, timedelta, UUID)
_FLAT_BYTES = 50
_QUERY_ERRORS = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError, duckdb.IntegrityError)
"""Errors that the query causes; the analyst sees their messages."""


class Column(msgspec.Struct, frozen=True):
    """One column."""

    name: str
    type: str
    """The name in DuckDB: `BIGINT`, `TIMESTAMP WITH TIME ZONE`, `STRUCT(a INTEGER)` …"""


class Table(msgspec.Struct, frozen=True):
    """Columns and rows; values are text, numbers, aware datetimes, UUIDs, lists, dicts … as DuckDB returns them."""

    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]
    truncated_by: Limit | None = None
    """The limit because of which the table has only the first rows of the query; null if it has all."""

    def names(self) -> list[str]:
        """Return distinct names of the columns: a second `n` becomes `n_2`, for formats that are keyed by name."""
        names: list[str] = []
        for column in self.columns:
            name, number = column.name, 1
            while name in names:
                number += 1
                name = f"{column.name}_{number}"
            names.append(name)
        return names


class QueryLimits(msgspec.Struct, frozen=True):
    """The limits of one query."""

    rows_max: int = 10_000
    bytes_max: int = 200_000_000
    """Approximate size of all values."""
    memory_bytes_max: int = 1_000_000_000
    timeout_s: float = 60.0


def query(path: Path, sql: str, limits: QueryLimits | None = None) -> Table:
    """Run one SELECT on a DuckDB file that no process has open for writing. Blocks.

    Raises QueryRefused for an invalid or forbidden query, QueryStopped for one that exceeds a limit, and
    DatabaseLocked, DatabaseUnreadable, StoreUnavailable.
    """
    limits = limits or QueryLimits()
    with closing(connect_enclosed(path, limits)) as connection:
        return answer(connection, sql, limits)


def connect_enclosed(path: Path, limits: QueryLimits) -> duckdb.DuckDBPyConnection:
    """Return a read-only connection to the file that cannot access anything else.

    Raises DatabaseLocked, DatabaseUnreadable, StoreUnavailable.
    """
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,  # the other cores are for turns
            "async_threads": 1,  # there are no remote files to read ahead
            "memory_limit": f"{limits.memory_bytes_max}B",
            "temp_directory": "",  # a query that exceeds the memory limit is stopped instead of writing to the disk
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_persistent_secrets": False,
            "python_enable_replacements": False,  # otherwise queries could read variables of this program as tables
            "max_expression_depth": DEPTH_MAX,
            "show_behavior": "table",  # otherwise SHOW could read a setting
        },
    )
    try:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.execute(f"ATTACH {quote(path)} AS analytics (READ_ONLY)")
        connection.execute("USE analytics")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        connection.close()
        raise why_not_open(path, error) from error
    return connection


def answer(connection: duckdb.DuckDBPyConnection, sql: str, limits: QueryLimits) -> Table:
    """Run one SELECT in an enclosed connection. Raises QueryRefused, QueryStopped, StoreUnavailable."""
    timer = threading.Timer(limits.timeout_s, connection.interrupt)
    timer.start()
    try:
        connection.execute(check(connection, sql))
        columns = tuple(Column(name, str(kind)) for name, kind, *_ in connection.description or ())
        return _fetch(connection, columns, limits)
    except duckdb.InterruptException as error:
        raise QueryStopped(f"the query took longer than {limits.timeout_s:g} s and was stopped") from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise out_of_memory(limits) from error
    except RecursionError as error:
        raise QueryRefused("the query is nested too deeply") from error
    except duckdb.PermissionException as error:
        raise QueryRefused("a query can only read tables: no files, no URLs, no settings") from error
    except _QUERY_ERRORS as error:
        raise QueryRefused(str(error).removeprefix("Invalid Input Error: ")) from error
    except (duckdb.Error, RuntimeError) as error:
        raise StoreUnavailable(f"the query failed: {error}") from error
    finally:
        timer.cancel()


def out_of_memory(limits: QueryLimits) -> QueryStopped:
    """Return the error of a query that needed too much memory."""
    megabytes = limits.memory_bytes_max // 1_000_000
    return QueryStopped(f"the query needs more than {megabytes} MB of memory; group, filter or sort less at once")


def _fetch(connection: duckdb.DuckDBPyConnection, columns: tuple[Column, ...], limits: QueryLimits) -> Table:
    """Fetch the first rows, up to the limits."""
    rows: list[tuple[Any, ...]] = []
    left = limits.bytes_max
    while batch := connection.fetchmany(min(_BATCH, limits.rows_max + 1 - len(rows))):
        for row in batch:
            left -= sum(map(_bytes, row))
            if left < 0 and not rows:
                raise QueryStopped(f"the first row alone is larger than {limits.bytes_max // 1_000_000} MB")
            if left < 0 or len(rows) == limits.rows_max:
                return Table(columns, rows, "bytes" if left < 0 else "rows")
            rows.append(row)
    return Table(columns, rows)


def _bytes(value: Any) -> int:
    """Return the approximate size of a value."""
    if isinstance(value, _LENGTHS):
        return _FLAT_BYTES + len(value)
    if isinstance(value, _FLAT):
        return _FLAT_BYTES
    parts = (each for pair in value.items() for each in pair) if isinstance(value, dict) else iter(value)
    return _FLAT_BYTES + sum(map(_bytes, parts))

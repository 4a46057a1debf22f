"""Execute statements, insert rows and fetch them. A statement that is executed often is parsed once.

Parsing is a third of the time of a small one. DuckDB plans a parsed statement again for each execution, so it can be
executed by any connection, also after the tables have changed. A statement costs about 1 ms, so many rows are inserted
as one JSON document. A SELECT builds one JSON object per row, which msgspec decodes.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

import duckdb
import msgspec
from cachetools import LRUCache, cached

from store.sql.connection import Parameters, Scalar, decode_rows

Cursor: TypeAlias = duckdb.DuckDBPyConnection
Values: TypeAlias = Sequence[Scalar | Sequence[Scalar]] | Parameters

R = TypeVar("R", bound=msgspec.Struct)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PARSED_MAX = 500
"""Statements that stay parsed."""
PARSED_CHARS_MAX = 10_000
"""Longer statements contain values, so the same one hardly comes again."""


def execute(cursor: Cursor, statement: str, parameters: Values) -> Cursor:
    """Execute one statement; return the cursor, which has the result. Raises duckdb.Error."""
    if len(statement) > PARSED_CHARS_MAX:
        return cursor.execute(statement, parameters)
    return cursor.execute(_parse(cursor, statement), parameters)


@cached(LRUCache(PARSED_MAX), key=lambda _, statement: statement, lock=threading.Lock())
def _parse(cursor: Cursor, statement: str) -> duckdb.Statement:
    (parsed,) = cursor.extract_statements(statement)
    return parsed


def as_list(documents: Iterable[bytes]) -> str:
    """Return encoded rows as the parameter of a statement."""
    return f"[{b','.join(documents).decode()}]"


def typed_rows(cursor: duckdb.DuckDBPyConnection, table: str) -> str:
    """Return the SELECT that converts the parameter to rows, with the types of the table's columns."""
    empty = cursor.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608  (duckdb_columns() takes 9 times as long)
    columns = ", ".join(f'"{name}" {data_type}' for name, data_type, *_ in empty.description)
    # with the type of its parameter, a prepared statement is not planned again; from_json_strict() takes longer to plan
    return f"SELECT unnest(?::VARCHAR::JSON::STRUCT({columns})[], max_depth := 2)"


class Inserts:
    """The INSERT statements of a cursor. Each is planned once, which takes half of the time of an INSERT of a turn."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._prepared: set[str] = set()

    def insert(self, table: str, documents: Iterable[bytes]) -> None:
        """Insert encoded rows in one statement. Raises duckdb.Error."""
        if table not in self._prepared:
            rows = typed_rows(self._cursor, table)
            self._cursor.execute(f"PREPARE insert_{table} AS INSERT INTO {table} BY NAME {rows}")
            self._prepared.add(table)
        literal = as_list(documents).replace("'", "''")  # DuckDB's package for Python gives EXECUTE no parameters
        self._cursor.execute(f"EXECUTE insert_{table}('{literal}')")


def roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    """Roll back a failed transaction. An error of the rollback is ignored, since the first error is reported."""
    with contextlib.suppress(duckdb.Error):
        cursor.execute("ROLLBACK")


def fetch(cursor: Cursor, row: type[R], select: str, parameters: Values) -> list[R]:
    """Return the rows of a SELECT whose columns are the row's fields; other columns are ignored."""
    as_json = f"SELECT to_json(found)::VARCHAR FROM (SELECT * {_iso_times(row)} FROM ({select}) AS selected) AS found"  # noqa: S608
    return decode_rows(row, execute(cursor, as_json, parameters).fetchall())


@cache
def _iso_times(row: type[msgspec.Struct]) -> str:
    """Return the REPLACE clause that turns the times of a row into ISO 8601 text, unlike DuckDB's own format."""
    hints = get_type_hints(row)
    times = [name for name in row.__struct_fields__ if datetime in (hints[name], *get_args(hints[name]))]
    iso = ", ".join(f"strftime({name}, '%Y-%m-%dT%H:%M:%S.%fZ') AS {name}" for name in times)
    return f"REPLACE ({iso})" if times else ""


def fetch_columns(cursor: Cursor, select: str, parameters: Values) -> list[dict[str, Any]]:
    """Return the rows of a SELECT by column, as DuckDB returns them: in less time than with JSON, but without types."""
    found = execute(cursor, select, parameters)
    names = [name for name, *_ in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def from_micros(micros: int) -> datetime:
    """Return the time that `epoch_us` returned; DuckDB returns times with a time zone only if pytz is installed."""
    return _EPOCH + timedelta(microseconds=micros)


@contextmanager
def transaction(cursor: Cursor) -> Iterator[None]:
    """Commit the statements in the block together, or none of them if there is an error. Not within a transaction."""
    cursor.execute("BEGIN")
    try:
        yield
        cursor.execute("COMMIT")
    except BaseException:
        roll_back(cursor)
        raise


@contextmanager
def snapshot(cursor: Cursor) -> Iterator[None]:
    """Let the statements in the block read the same state of the database. Not within a transaction."""
    cursor.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(cursor)

"""Rows into SQL: any number of a table's rows travel as one JSON document, the parameter of one statement.

DuckDB's cost is per statement, about 1 ms, so rows are never inserted one by one.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import msgspec

from store.errors import RowRefused

_encoder = msgspec.json.Encoder()


def encode(row: msgspec.Struct | Mapping[str, Any]) -> bytes:
    """A row, or a value of one, as a JSON object.

    Raises RowRefused for what JSON cannot hold: lone surrogates, integers past 64 bits, objects of other types.
    """
    try:
        return _encoder.encode(row)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise RowRefused(f"a {type(row).__name__.strip('_')} cannot be written as JSON: {error}") from error


def as_list(documents: Iterable[bytes]) -> str:
    """Encoded rows as the one parameter of a statement."""
    return f"[{b','.join(documents).decode()}]"


def typed_rows(cursor: duckdb.DuckDBPyConnection, table: str) -> str:
    """The SELECT that turns that parameter into rows, strictly typed by the table's own columns."""
    columns = cursor.execute(
        """SELECT column_name, data_type FROM duckdb_columns()
        WHERE database_name = 'cuebook' AND table_name = ? ORDER BY column_index""",
        [table],
    ).fetchall()
    shape = msgspec.json.encode([dict(columns)]).decode().replace("'", "''")
    return f"SELECT unnest(from_json_strict(?::JSON, '{shape}'), max_depth := 2)"


def insert_statement(cursor: duckdb.DuckDBPyConnection, table: str) -> str:
    """The INSERT that takes rows of a table."""
    return f"INSERT INTO {table} BY NAME {typed_rows(cursor, table)}"


def insert(cursor: duckdb.DuckDBPyConnection, table: str, row: msgspec.Struct) -> None:
    """Insert one row of a table that seldom gets one."""
    cursor.execute(insert_statement(cursor, table), [as_list([encode(row)])])


def roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    """Leave a failed transaction. The failure itself is what gets reported, so one of the rollback is not."""
    with contextlib.suppress(duckdb.Error):
        cursor.execute("ROLLBACK")

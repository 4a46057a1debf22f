"""Insert rows: any number of rows of a table are passed as one JSON document, the only parameter of the statement.

A statement costs about 1 ms in DuckDB, so many rows are never inserted one by one.
"""

import contextlib
from collections.abc import Iterable

import duckdb


def as_list(documents: Iterable[bytes]) -> str:
    """Return encoded rows as the parameter of a statement."""
    return f"[{b','.join(documents).decode()}]"


def typed_rows(cursor: duckdb.DuckDBPyConnection, table: str) -> str:
    """Return the SELECT that converts the parameter to rows, with the types of the table's columns."""
    empty = cursor.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608  (duckdb_columns() takes 9 times as long)
    columns = ", ".join(f'"{name}" {data_type}' for name, data_type, *_ in empty.description)
    return f"SELECT unnest(?::JSON::STRUCT({columns})[], max_depth := 2)"  # from_json_strict() takes longer to plan


def insert_statement(cursor: duckdb.DuckDBPyConnection, table: str) -> str:
    """Return the INSERT statement of a table."""
    return f"INSERT INTO {table} BY NAME {typed_rows(cursor, table)}"


def roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    """Roll back a failed transaction. An error of the rollback is ignored, since the first error is reported."""
    with contextlib.suppress(duckdb.Error):
        cursor.execute("ROLLBACK")

"""Rows of a table, to copy them to another database: as JSON documents, or as CSV. Bytes are in hexadecimal."""

from collections.abc import Generator, Iterator
from uuid import uuid4

import psycopg

from store.postgres.connection import PostgresConnection, with_literals
from store.sql.connection import Parameters

READ_ROWS = 1_000
_OF_WRITES = "commit_number"
"""The column of turns by which a writer finds its own rows; nothing that reads CSV needs more than those of imports."""


def read_documents(connection: PostgresConnection, table: str, offset: int) -> Iterator[list[bytes]]:
    """Yield the rows of a table in groups, from the row `offset` on. Within a transaction."""
    columns = ", ".join(
        f"encode({name}, 'hex') AS {name}" if kind == "bytea" else f'"{name}"'
        for name, kind in _columns_copied(connection, table).items()
    )
    order = _ORDER if table == "turns" else "ORDER BY ctid" if offset else ""
    select = f"SELECT {columns} FROM {table} {order} OFFSET {offset}"  # noqa: S608
    with psycopg.RawServerCursor(connection.connection, f"rows_{uuid4().hex}") as cursor:
        cursor.execute(f"SELECT row_to_json(found)::text FROM ({select}) AS found".encode())  # noqa: S608
        while rows := cursor.fetchmany(READ_ROWS):
            yield [text.encode() for (text,) in rows]


def csv_columns(connection: PostgresConnection, table: str) -> list[str]:
    """Return the names of the columns that CSV has, in their order."""
    return list(_columns_copied(connection, table))


def read_csv(
    connection: PostgresConnection, table: str, which: str, parameters: Parameters
) -> Generator[bytes, None, None]:
    """Yield the rows of a table that meet a condition, each as CSV; turns in the order of their sessions.

    Null is nothing, an empty text is quoted. Lists of texts are JSON. Within a transaction.
    """
    kinds = connection.tables[table]
    columns = ", ".join(_as_csv(name, kinds[name]) for name in csv_columns(connection, table))
    select = f"SELECT {columns} FROM {table} WHERE {which} {_ORDER if table == 'turns' else ''}"  # noqa: S608
    statement = f"COPY ({with_literals(select, parameters)}) TO STDOUT (FORMAT csv)"  # it takes no parameters
    with connection.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for row in copy:
            yield bytes(row)


_ORDER = "ORDER BY tenant, session_id, turn"


def _columns_copied(connection: PostgresConnection, table: str) -> dict[str, str]:
    """Return the types of the columns without numbers of transactions, which mean nothing elsewhere."""
    return {name: kind for name, kind in connection.tables[table].items() if kind != "xid8"}


def _as_csv(name: str, kind: str) -> str:
    if kind == "bytea":
        return f"encode({name}, 'hex')"
    if name == _OF_WRITES:
        return f"least({name}, 0)"
    return f'to_json("{name}")' if kind.endswith("[]") else f'"{name}"'

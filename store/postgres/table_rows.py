"""Rows of a table as JSON documents, to copy them to another database. Bytes are in hexadecimal."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg

from store.postgres.connection import PostgresConnection, number_parameters
from store.sql.connection import Parameters

READ_ROWS = 1_000


def read_documents(
    connection: PostgresConnection,
    table: str,
    which: str = "true",
    parameters: Parameters | None = None,
    offset: int = 0,
) -> Iterator[list[bytes]]:
    """Yield the rows of a table that meet a condition, in groups, from the row `offset` on. Within a transaction."""
    columns = ", ".join(
        f"encode({name}, 'hex') AS {name}" if kind == "bytea" else f'"{name}"'
        for name, kind in connection.tables[table].items()
        if kind != "xid8"  # numbers of transactions mean nothing elsewhere
    )
    order = "ORDER BY tenant, session_id, turn" if table == "turns" else "ORDER BY ctid" if offset else ""
    select = f"SELECT {columns} FROM {table} WHERE {which} {order} OFFSET {offset}"  # noqa: S608
    numbered = number_parameters(f"SELECT row_to_json(found)::text FROM ({select}) AS found")  # noqa: S608
    given = parameters or {}
    with psycopg.RawServerCursor(connection.connection, f"rows_{uuid4().hex}") as cursor:
        cursor.execute(numbered.statement.encode(), [given[name] for name in numbered.names])
        while rows := cursor.fetchmany(READ_ROWS):
            yield [text.encode() for (text,) in rows]

"""All rows of a table as JSON documents, to copy them to another database. Bytes are in hexadecimal."""

from collections.abc import Iterator, Sequence

from store.duckdb.fetch import Cursor
from store.duckdb.insert import as_list

READ_ROWS = 1_000


def column_types(cursor: Cursor, table: str) -> dict[str, str]:
    """Return the types of a table's columns."""
    empty = cursor.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608
    return {name: str(kind) for name, kind, *_ in empty.description}


def read_documents(cursor: Cursor, table: str, first_row: int = 0, order: str = "rowid") -> Iterator[list[bytes]]:
    """Yield the rows of a table in groups, in an order, from a row on."""
    types = column_types(cursor, table)
    replaced = [f"strftime({name}, '%Y-%m-%dT%H:%M:%S.%fZ') AS {name}" for name in types if _is_time(types[name])]
    replaced += [f"hex({name}) AS {name}" for name in types if types[name] == "BLOB"]
    replace = f"REPLACE ({', '.join(replaced)})" if replaced else ""
    while True:
        rows = cursor.execute(
            f"""SELECT to_json(found)::VARCHAR FROM (
                SELECT * {replace} FROM {table} ORDER BY {order} LIMIT {READ_ROWS} OFFSET ?) AS found""",  # noqa: S608
            [first_row],
        ).fetchall()
        if not rows:
            return
        yield [text.encode() for (text,) in rows]
        first_row += len(rows)


def insert_documents(cursor: Cursor, table: str, documents: Sequence[bytes]) -> None:
    """Insert rows, whose documents have all columns of the table."""
    types = column_types(cursor, table)
    shape = ", ".join(f'"{name}" {"VARCHAR" if kind == "BLOB" else kind}' for name, kind in types.items())
    blobs = [f"unhex({name}) AS {name}" for name, kind in types.items() if kind == "BLOB"]
    select = f"SELECT unnest(?::JSON::STRUCT({shape})[], max_depth := 2)"
    if blobs:
        select = f"SELECT * REPLACE ({', '.join(blobs)}) FROM ({select})"  # noqa: S608
    cursor.execute(f"INSERT INTO {table} BY NAME {select}", [as_list(documents)])


def _is_time(kind: str) -> bool:
    return kind == "TIMESTAMP WITH TIME ZONE"

"""Rows of a table, to copy them from or to another database: as JSON documents, or as CSV. Bytes are in hexadecimal."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from store.duckdb.statements import Cursor, as_list

READ_ROWS = 1_000


def column_types(cursor: Cursor, table: str) -> dict[str, str]:
    """Return the types of a table's columns."""
    empty = cursor.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608
    return {name: str(kind) for name, kind, *_ in empty.description}


def read_documents(cursor: Cursor, table: str, first_row: int = 0, order: str = "rowid") -> Iterator[list[bytes]]:
    """Yield the rows of a table in groups, in an order, from a row on."""
    types = column_types(cursor, table)
    times = [name for name, kind in types.items() if kind == "TIMESTAMP WITH TIME ZONE"]
    replaced = [f"strftime({name}, '%Y-%m-%dT%H:%M:%S.%fZ') AS {name}" for name in times]
    replaced += [f"lower(hex({name})) AS {name}" for name, kind in types.items() if kind == "BLOB"]
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


def insert_csv(cursor: Cursor, table: str, names: Sequence[str], path: Path, row_bytes_max: int) -> None:
    """Insert the rows of a CSV file with these columns and no header; null is nothing, an empty text is quoted."""
    kinds = column_types(cursor, table)
    converted = {name: f'unhex("{name}")' for name in names if kinds[name] == "BLOB"}
    converted |= {name: f'"{name}"::JSON::{kinds[name]}' for name in names if kinds[name].endswith("[]")}
    columns = ", ".join(f"'{name}': '{'VARCHAR' if name in converted else kinds[name]}'" for name in names)
    replaced = ", ".join(f'{value} AS "{name}"' for name, value in converted.items())
    # nothing is guessed, and lines within a text must not be where threads divide the file
    options = f"""auto_detect = false, header = false, delim = ',', quote = '"', escape = '"', nullstr = '',
        allow_quoted_nulls = false, parallel = false, max_line_size = {row_bytes_max}, columns = {{{columns}}}"""
    cursor.execute(
        f"""INSERT INTO {table} BY NAME
        SELECT * {f"REPLACE ({replaced})" if replaced else ""} FROM read_csv(?, {options})""",  # noqa: S608
        [str(path)],
    )

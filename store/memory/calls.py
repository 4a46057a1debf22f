"""Calls of language models for memories: a row is inserted before the call and replaced by one with the result."""

from store.duckdb.fetch import Cursor
from store.duckdb.insert import insert
from store.interface.memory_rows import MemoryCallRow


def begin_call(cursor: Cursor, row: MemoryCallRow) -> None:
    """Insert the row of a call before it is made. Within a transaction."""
    insert(cursor, "memory_calls", row)


def end_call(cursor: Cursor, row: MemoryCallRow) -> None:
    """Replace the row of a call with its result; do nothing if its user was erased meanwhile. Within a transaction."""
    which = "tenant = ? AND call_id = ?"
    begun = cursor.execute(f"SELECT 1 FROM memory_calls WHERE {which}", [row.tenant, row.call_id]).fetchall()  # noqa: S608
    if begun:
        cursor.execute(f"DELETE FROM memory_calls WHERE {which}", [row.tenant, row.call_id])  # noqa: S608
        insert(cursor, "memory_calls", row)

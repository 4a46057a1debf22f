"""Calls of language models for memories: a row is inserted before the call and replaced by one with the result."""

from store.interface.memory_rows import MemoryCallRow
from store.sql.connection import Connection


def begin_call(connection: Connection, row: MemoryCallRow) -> None:
    """Insert the row of a call before it is made. Within a transaction."""
    connection.insert("memory_calls", [row])


def end_call(connection: Connection, row: MemoryCallRow) -> None:
    """Replace the row of a call with its result; do nothing if its user was erased meanwhile. Within a transaction.

    Raises RowRefused.
    """
    call = {"tenant": row.tenant, "call_id": row.call_id}
    if connection.change("DELETE FROM memory_calls WHERE tenant = $tenant AND call_id = $call_id", call):
        connection.insert("memory_calls", [row])

"""Filters over units that no record holds: the same evaluator, over tables in memory."""

import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import duckdb

from store.memory.changes import MemoryWriting
from store.memory.filters import Filter
from store.memory.matching import matching
from store.memory.rows import MemoryChange, UnitRow
from store.schema import migrate

_NAME = "cuebook"  # as the record's own tables are in
_lock = threading.Lock()  # one set of units at a time


def matching_among(units: Sequence[UnitRow], filter_: Filter) -> list[int]:
    """The numbers of those units, all of one memory and with their words, of which a filter is true, in order.

    Raises RowRefused.
    """
    if not units:
        return []
    tenant, user_id = units[0].tenant, units[0].user_id
    with _lock:
        cursor = _tables().cursor()
        cursor.execute(f"USE {_NAME}")
        cursor.execute("BEGIN")
        try:
            _writing().apply(cursor, MemoryChange(tenant=tenant, user_id=user_id, units=list(units)))
            return matching(cursor, tenant, user_id, filter_)
        finally:
            cursor.execute("ROLLBACK")
            cursor.close()


@cache
def _writing() -> MemoryWriting:
    """What writes to the tables: it knows the statements once it has made them."""
    return MemoryWriting()


@cache
def _tables() -> duckdb.DuckDBPyConnection:
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "threads": 1,
    }
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute(f"ATTACH ':memory:' AS {_NAME}")
    connection.execute(f"USE {_NAME}")
    migrate(connection, Path(_NAME))
    return connection

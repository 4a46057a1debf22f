"""Apply filters to units that are not in the database: the same SQL, with the rows as a parameter."""

import threading
from collections.abc import Sequence
from functools import cache

import duckdb

from store.interface.memory_filters import Filter, fields_of
from store.interface.memory_rows import UnitRow
from store.interface.rows import encode
from store.memory.filters_sql import matching_rows

_lock = threading.Lock()  # the connection is shared, and not safe for concurrent use


def filter_rows(units: Sequence[UnitRow], filter_: Filter) -> list[int]:
    """Return the sequence numbers of the units that a filter matches, ascending.

    The units must be of one memory and have their texts. Raises RowRefused.
    """
    if not units:
        return []
    names = sorted(
        {"sequence", *fields_of(filter_)}
    )  # only the columns that are used: the time grows with their number
    documents = (encode({name: getattr(unit, name) for name in names}) for unit in units)
    rows = f"[{b','.join(documents).decode()}]"
    with _lock:
        return matching_rows(_database(), names, rows, filter_)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "threads": 1,
    }
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection

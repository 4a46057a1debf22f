"""Filters over units that no record holds: the same evaluator, over rows that are its parameter."""

import threading
from collections.abc import Sequence
from functools import cache

import duckdb

from store.insert import as_list, encode
from store.memory.filters import Filter, fields_of
from store.memory.matching import matching_given
from store.memory.rows import UnitRow

_lock = threading.Lock()  # one set of units at a time


def matching_among(units: Sequence[UnitRow], filter_: Filter) -> list[int]:
    """The numbers of those units, all of one memory and with their words, of which a filter is true, in order.

    Raises RowRefused.
    """
    if not units:
        return []
    names = sorted({"sequence", *fields_of(filter_)})  # no more than is asked about: most of the time goes by columns
    rows = as_list(encode({name: getattr(unit, name) for name in names}) for unit in units)
    with _lock:
        return matching_given(_database(), names, rows, filter_)


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

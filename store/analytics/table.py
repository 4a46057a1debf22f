"""The result of a query: columns with DuckDB types, and rows of Python values."""

from typing import Any

import msgspec


class Column(msgspec.Struct, frozen=True):
    """One column."""

    name: str
    type: str
    """The name in DuckDB: `BIGINT`, `TIMESTAMP WITH TIME ZONE`, `STRUCT(a INTEGER)` …"""


class Table(msgspec.Struct, frozen=True):
    """Columns and rows; values are text, numbers, aware datetimes, UUIDs, lists, dicts … as DuckDB returns them."""

    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool = False
    """Whether the query has more rows than the table contains."""

    def names(self) -> list[str]:
        """Return distinct names of the columns: a second `n` becomes `n_2`, for formats that are keyed by name."""
        names: list[str] = []
        for column in self.columns:
            name, number = column.name, 1
            while name in names:
                number += 1
                name = f"{column.name}_{number}"
            names.append(name)
        return names

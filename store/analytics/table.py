"""What a query answers: columns of DuckDB types, and rows of Python values."""

from typing import Any

import msgspec


class Column(msgspec.Struct, frozen=True):
    """One column."""

    name: str
    type: str
    """As DuckDB writes it: `BIGINT`, `TIMESTAMP WITH TIME ZONE`, `STRUCT(a INTEGER)` …"""


class Table(msgspec.Struct, frozen=True):
    """Columns and rows; values are text, numbers, aware datetimes, UUIDs, lists, dicts … as DuckDB gives them."""

    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool = False
    """Whether there were more rows than are here."""

    def names(self) -> list[str]:
        """The names of the columns, each different: SQL allows two `n`, what is keyed by name does not (`n`, `n_2`)."""
        names: list[str] = []
        for column in self.columns:
            name, number = column.name, 1
            while name in names:
                number += 1
                name = f"{column.name}_{number}"
            names.append(name)
        return names

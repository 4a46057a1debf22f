"""Reading what a picture is made of from the rows of a table: names, numbers, moments."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from msgspec import Struct

from api.analytics.formats.as_json import encoded
from api.analytics.pictures.saying import said
from store.analytics.table import Table

_SIZE_MAX = 1e300  # beyond it sums and differences of floats overflow


class NoPicture(Exception):
    """No picture can be made of a table; the message says why, and what could be."""


class Grid(Struct, frozen=True):
    """Numbers by line and series."""

    lines: tuple[Any, ...]
    """What is named, in the order of its first appearance: a name, a moment, a number."""
    series: tuple[str, ...]
    cells: dict[tuple[int, int], float | None]
    """By place of the line and of the series; what no row is about is missing."""

    def row(self, line: int) -> list[float | None]:
        """The numbers of a line, a series each."""
        return [self.cells.get((line, series)) for series in range(len(self.series))]

    def numbers(self) -> list[float]:
        """All numbers there are."""
        return [number for number in self.cells.values() if number is not None]


def column(table: Table, name: str) -> list[Any]:
    """The values of a column. Raises NoPicture."""
    names = [column.name for column in table.columns]
    if name not in names:
        raise NoPicture(f"the table has no column `{name}`: it has {', '.join(names)}")
    place = names.index(name)
    return [row[place] for row in table.rows]


def numbers(table: Table, name: str) -> list[float | None]:
    """The numbers of a column; what is no finite number is None. Raises NoPicture."""
    return [_number(value, name) for value in column(table, name)]


def _number(value: Any, name: str) -> float | None:
    match value:
        case None:
            return None
        case timedelta():
            return value.total_seconds()
        case int() | float() | Decimal() if not isinstance(value, bool):
            number = float(value)
            return number if math.isfinite(number) and abs(number) < _SIZE_MAX else None
        case _:
            raise NoPicture(f"column `{name}` has values that are no numbers, such as {label(value)!r}")


def names(table: Table, labels: Sequence[str]) -> list[str]:
    """A name a row, of the columns that make it together. Raises NoPicture."""
    parts = [column(table, name) for name in labels]
    if not parts:
        raise NoPicture("the picture needs a column that names what is shown")
    return [_joined(row) for row in zip(*parts, strict=True)]


def _joined(values: Iterable[Any]) -> str:
    values = list(values)
    told = [label(value) for value in values if value not in (None, "")]
    return " · ".join(told) if told else label(values[0])


def label(value: Any) -> str:
    """A value as a name: `(none)` for null, dates without midnight."""
    match value:
        case None:
            return "(none)"
        case "":
            return "(empty)"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case float():
            return repr(value).removesuffix(".0")
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value
            return f"{moment:%Y-%m-%d}" if moment.time() == time() else f"{moment:%Y-%m-%d %H:%M:%S}"
        case timedelta():
            return said(value.total_seconds(), "s")
        case _:
            return encoded(value).decode().strip('"')


def spoken(column: str) -> str:
    """The name of a column in words, without a unit that stands at each number anyway."""
    return column.replace("_", " ").removesuffix(" seconds")


def unit_of(table: Table, values: Sequence[str], unit: str) -> str:
    """The unit of the values: intervals are lengths of time."""
    types = {column.name: column.type for column in table.columns}
    return unit or ("s" if all(types.get(name) == "INTERVAL" for name in values) else "")


def grid(table: Table, lines: Sequence[Any], values: Sequence[str], series: str | None) -> Grid:
    """Numbers by line (one a row of the table) and series: a column each, or named by the values of one column.

    Raises NoPicture where two rows are about the same cell.
    """
    if not values:
        raise NoPicture("the picture needs a column with numbers")
    if series is None:
        return _columns(table, lines, values)
    if len(values) > 1:
        raise NoPicture(f"series are named by `{series}` or by columns ({', '.join(values)}), not by both")
    return _crossed(table, lines, values[0], series)


def _columns(table: Table, lines: Sequence[Any], values: Sequence[str]) -> Grid:
    cells = {
        (line, place): number
        for place, name in enumerate(values)
        for line, number in enumerate(numbers(table, name))
    }  # fmt: skip
    return Grid(tuple(lines), tuple(map(spoken, values)), cells)


def _crossed(table: Table, lines: Sequence[Any], value: str, series: str) -> Grid:
    of_series = [label(name) for name in column(table, series)]
    line_places = {line: place for place, line in enumerate(dict.fromkeys(lines))}
    series_places = {name: place for place, name in enumerate(dict.fromkeys(of_series))}
    cells: dict[tuple[int, int], float | None] = {}
    for line, name, number in zip(lines, of_series, numbers(table, value), strict=True):
        cell = (line_places[line], series_places[name])
        if cell in cells:
            raise NoPicture(
                f"two rows are about {label(line)} with `{series}` {name}, the picture has one place for them: "
                "group by both, or name another column"
            )
        cells[cell] = number
    return Grid(tuple(line_places), tuple(series_places), cells)


def are_whole(values: Iterable[float]) -> bool:
    """Whether they are whole numbers, as counts are: nothing between them is marked on an axis."""
    return all(value == int(value) for value in values)


def moment(value: date | datetime) -> datetime:
    """A time as a moment in UTC, which times without a zone are taken to be in."""
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)

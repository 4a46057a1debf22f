"""The inline data of a chart: one point a mark, with fields whose names no column decides."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from msgspec import Struct

from api.analytics.charts.chart import Chart, ChartRefused
from api.analytics.formats.readable import duration_unit, label, number_text
from store.analytics.query import Table

LABELS_MAX = {"funnel": 60, "bars": 40, "lines": 2_000, "heat": 60}
SERIES_MAX, COLUMNS_MAX = 10, 60  # the columns are of a heat map

Point: TypeAlias = dict[str, Any]
"""`label`, `series`, `value`, `text`; where the chart has them `n`, `lower`, `upper` and the numbers of a funnel."""
TEXT_CHARS_MAX = 300
_ENGLISH: Mapping[str, str] = {}
_NOTES = {
    "left_out": "{count:,} rows without {column} are left out.",
    "first_rows": "The first {most} of {count:,} rows are shown.",
    "first_series": "The first {most} of {count:,} series are shown.",
}
SIZE_MAX = 1e300  # beyond it sums and differences of floats overflow
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_BLANKS = re.compile(r"\s+")


class Points(Struct, frozen=True):
    """Points within the bounds of a chart, in the order of the rows."""

    points: list[Point]
    labels: list[Any]
    series: list[Any]
    notes: list[str]
    """What is left out."""
    measure: str
    """The title of the axis of values."""
    label_type: str
    """How Vega-Lite places the labels."""


def points_of(table: Table, chart: Chart) -> Points:
    """Read the points of a chart from its table. Raises ChartRefused."""
    labels, label_type = _x_places(table, chart.labels[0]) if chart.kind == "lines" else _names(table, chart)
    unit = unit_of(table, chart.values, chart.unit)
    values = [abs(value or 0) for name in chart.values for value in numbers(table, name)]
    size, axis_unit = duration_unit(max(values, default=0.0)) if unit == "s" else (1.0, unit)
    points = [
        _point(*cells, chart, unit, size)
        for name in chart.values
        for cells in zip(labels, _series(table, chart, name), _numbers(table, chart, name), strict=True)
        if cells[0] is not None
    ]
    _refuse_repeated(points, chart)
    left_out = labels.count(None)
    notes = [_note(chart, "left_out", count=left_out)] if left_out else []
    shown = _first(points, "label", LABELS_MAX[chart.kind], chart, notes)
    series = _first(points, "series", COLUMNS_MAX if chart.kind == "heat" else SERIES_MAX, chart, notes)
    points = [point for point in points if point["label"] in shown and point["series"] in series]
    return Points(points, list(shown), list(series), notes, _measure(chart, axis_unit), label_type)


def _point(at: Any, series: Any, values: Point, chart: Chart, unit: str, size: float) -> Point:
    converted = {key: values[key] / size for key in ("value", "lower", "upper") if values.get(key) is not None}
    return {"label": at, "series": series, **values, **converted, "text": _text(values, chart, unit)}


def _numbers(table: Table, chart: Chart, name: str) -> list[Point]:
    """Return the numbers of each row that one of the values has beside it."""
    roles = {"value": name, "n": chart.count, "lower": chart.lower, "upper": chart.upper, "share": chart.share,
             "previous": chart.previous, "share_of_previous": chart.share_of_previous}  # fmt: skip
    columns = {key: numbers(table, of) for key, of in roles.items() if of}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _text(values: Point, chart: Chart, unit: str) -> str:
    """Return what is printed beside a mark; of a funnel also its share and its loss: `600 · 75 % · −200 (−25 %)`."""
    parts = [number_text(values["value"], unit)]
    if chart.kind == "bars" and values.get("n") is not None:
        parts = [f"{parts[0]} (n = {number_text(values['n'])})"]
    if values.get("share") is not None:
        parts.append(number_text(values["share"], "%"))
    before, came = values.get("previous"), values.get("share_of_previous")
    if before is not None and came is not None and came != 1:
        plus = "+" if came > 1 else ""
        parts.append(f"{plus}{number_text(round((came - 1) * before))} ({plus}{number_text(came - 1, '%')})")
    return " · ".join(parts)


def _series(table: Table, chart: Chart, name: str) -> list[Any]:
    """Return the series of each row; numbers over the columns of a heat map stay numbers, to be sorted."""
    if not chart.series:
        return [one_line(in_words(name, chart.words))] * len(table.rows)
    values = column(table, chart.series)
    return [value if chart.kind == "heat" and type(value) is int else one_line(label(value)) for value in values]


def _names(table: Table, chart: Chart) -> tuple[list[Any], str]:
    """Return a label for each row, a different one unless rows share it by their series, and the type of their axis."""
    seen: dict[str, int] = {}
    names: list[Any] = []
    for row in zip(*(column(table, name) for name in chart.labels), strict=True):
        name = one_line(" · ".join(label(value) for value in row if value not in (None, "")) or label(row[0]))
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 or chart.series else f"{name} ({seen[name]})")
    return names, "nominal"


def _x_places(table: Table, name: str) -> tuple[list[Any], str]:
    """Return a place on the x-axis for each row, ISO 8601 of times, and the type of the axis; null has no place."""
    values = column(table, name)
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, date) for value in present):
        return [value and _moment(value).isoformat() for value in values], "temporal"
    if all(isinstance(value, int | float) and abs(value) < SIZE_MAX for value in present):
        return [None if value is None else float(value) for value in values], "quantitative"
    return [None if value is None else one_line(label(value)) for value in values], "ordinal"


def _moment(value: date) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _refuse_repeated(points: list[Point], chart: Chart) -> None:
    seen = set()
    for point in points:
        cell = point["label"], point["series"]
        if cell in seen:
            also = f" and `{chart.series}` {cell[1]}" if chart.series else ""
            advice = "group by both" if chart.series else "group by it, or name a series"
            at = str(cell[0]).removesuffix("T00:00:00+00:00")
            raise ChartRefused(f"several rows have the same `{chart.labels[0]}` {at}{also}: {advice}")
        seen.add(cell)


def _first(points: list[Point], field: str, most: int, chart: Chart, notes: list[str]) -> dict[Any, None]:
    """Return the first different values of a field, and note that there are more. Raises ChartRefused for lines."""
    found = dict.fromkeys(point[field] for point in points)
    if len(found) > most == LABELS_MAX["lines"]:  # a line that breaks off would be misleading
        raise ChartRefused(f"a line has {most:,} points at most, not {len(found):,}: group by longer times")
    if len(found) > most:
        kind = "first_series" if field == "series" else "first_rows"
        notes.append(_note(chart, kind, count=len(found), most=most))
    return dict.fromkeys(list(found)[:most])


def _note(chart: Chart, kind: str, *, count: int, most: int = 0) -> str:
    column = chart.words.get(chart.labels[0], chart.labels[0])
    return chart.words.get(kind, _NOTES[kind]).format(count=count, most=most, column=column)


def _measure(chart: Chart, unit: str) -> str:
    """Return the title of an axis: the column in words where there is one, and the unit."""
    words = in_words(chart.values[0], chart.words) if len(chart.values) == 1 else ""
    unit = chart.words.get(unit, unit)
    if unit in {"", "%", words}:
        return one_line(words)
    return one_line(f"{words} ({unit})" if words else unit)


# -- values of a table ------------------------------------------------------------------------------------------------


def column(table: Table, name: str) -> list[Any]:
    """Return the values of a column. Raises ChartRefused."""
    names = [column.name for column in table.columns]
    if name not in names:
        raise ChartRefused(f"the table has no column `{name}`: it has {', '.join(names)}")
    place = names.index(name)
    return [row[place] for row in table.rows]


def numbers(table: Table, name: str) -> list[float | None]:
    """Return the numbers of a column; what is no finite number is None. Raises ChartRefused."""
    return [_number(value, name) for value in column(table, name)]


def _number(value: Any, name: str) -> float | None:
    match value:
        case None:
            return None
        case timedelta():
            return value.total_seconds()
        case int() | float() | Decimal() if not isinstance(value, bool):
            number = float(value)
            return number if math.isfinite(number) and abs(number) < SIZE_MAX else None
        case _:
            raise ChartRefused(f"column `{name}` has values that are no numbers, such as {label(value)!r}")


def one_line(text: str) -> str:
    """Return a text as one line of bounded length, without what XML cannot hold or what would reverse the writing."""
    line = _UNFIT.sub("\ufffd", _BLANKS.sub(" ", text))
    half = TEXT_CHARS_MAX // 2
    return line if len(line) <= TEXT_CHARS_MAX else f"{line[:half]}…{line[-half:]}"


def in_words(name: str, words: Mapping[str, str] = _ENGLISH) -> str:
    """Return the name of a column in words, without a unit that is printed beside each number."""
    return words.get(name, name.replace("_", " ")).removesuffix(" seconds").removesuffix("（秒）")


def unit_of(table: Table, values: Sequence[str], unit: str) -> str:
    """Return the unit of the values: intervals are durations."""
    types = {column.name: column.type for column in table.columns}
    return unit or ("s" if all(types.get(name) == "INTERVAL" for name in values) else "")

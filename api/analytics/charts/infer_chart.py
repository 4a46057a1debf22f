"""Which chart suits a table that no report describes."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from api.analytics.charts.chart import Chart, ChartRefused, Kind
from api.analytics.charts.points import SERIES_MAX, column, in_words
from api.analytics.formats.readable import label
from store.analytics.query import Column, Table

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "INTERVAL",
            "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")  # fmt: skip
_TIMES = ("DATE", "TIMESTAMP")
_BOUNDS = ("lower", "upper")


def infer_chart(table: Table, title: str = "", words: dict[str, str] | None = None) -> Chart:
    """Choose lines over the first column of times, else bars named by the first column of texts.

    Several columns of numbers are series while they are of one type; a further column of texts names series where
    there are few of them. Beside a single one `lower` and `upper` are its confidence interval, and `n` of another type
    is its number of observations. `words` are those of the chart.

    Raises ChartRefused where there is nothing to show or to name it by.
    """
    others = [column for column in table.columns if not _is_number(column)]
    if not others and len(table.columns) == 1:
        raise ChartRefused("a chart needs a column with names or times beside the numbers, such as script_id")
    times = [column.name for column in others if column.type.startswith(_TIMES)]
    texts = [column.name for column in others if column.name not in times]
    first, *more = [*times[:1], *texts] or [table.columns[0].name]
    values, roles = _measures([column for column in table.columns if column.name != first])
    if not values:
        raise ChartRefused("a chart needs a column with numbers, such as count(*) AS sessions")
    labels, series = [first], None
    if more and _repeats(table, first):
        if times or len({label(value) for value in column(table, more[0])}) <= SERIES_MAX:
            values, series = values[:1], more[0]
        else:
            labels = texts
    kind: Kind = "lines" if times or (not others and _ascends(column(table, first))) else "bars"
    words = words or {}
    measures = ", ".join(in_words(name, words) for name in values)
    title = title or words.get("by", "{values} by {name}").format(values=measures, name=in_words(first, words))
    return Chart(kind=kind, title=title, labels=tuple(labels), values=values, series=series, words=words, **roles)


def _ascends(values: Sequence[Any]) -> bool:
    return None not in values and all(before < after for before, after in pairwise(values))


def _measures(columns: Sequence[Column]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the first column of numbers with those of its type, and the columns of its bounds and its count."""
    found = [column for column in columns if _is_number(column)]
    types = {column.name: column.type for column in found}
    first = found[0].name if found else ""
    roles: dict[str, Any] = {name: name for name in _BOUNDS if types.keys() >= set(_BOUNDS) and first not in _BOUNDS}
    if first != "n" and types.get("n", types.get(first)) != types.get(first):
        roles["count"] = "n"
    measures = tuple(name for name in types if types[name] == types[first] and name not in roles.values())
    return measures[:SERIES_MAX], roles if len(measures) == 1 else {}


def _is_number(column: Column) -> bool:
    return column.type.startswith(_NUMBERS) and not column.type.endswith("]")


def _repeats(table: Table, name: str) -> bool:
    values = [label(value) for value in column(table, name)]
    return len(set(values)) < len(values)

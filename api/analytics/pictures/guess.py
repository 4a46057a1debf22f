"""Which picture shows a table that nobody described one for."""

from collections.abc import Sequence
from itertools import pairwise

from api.analytics.charts import Bars, Chart, Lines
from api.analytics.pictures import style
from api.analytics.pictures.reading import NoPicture, column, label, spoken
from store.analytics.table import Column, Table

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "INTERVAL",
            "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")  # fmt: skip
_TIMES = ("DATE", "TIMESTAMP")


def guessed(table: Table, title: str = "") -> Chart:
    """Lines over the first column of times, else bars named by the first column of texts; of the numbers beside it.

    Several columns of numbers are series while they are of one type; a further column of texts names series where
    there are few of them. Without a title it is one such as `sessions by day`. Raises NoPicture where there is nothing
    to show or to name it by.
    """
    values = _measures(table.columns)
    others = [column for column in table.columns if not _is_number(column)]
    if not values:
        raise NoPicture("a picture needs a column with numbers, such as count(*) AS sessions")
    if not others:
        return _numbers_alone(table, title)
    times = next((column.name for column in others if column.type.startswith(_TIMES)), None)
    texts = [column.name for column in others if not column.type.startswith(_TIMES)]
    if times is not None:
        series = texts[0] if texts and _repeats(table, times) else None
        values = values[:1] if series else values
        return Lines(title=title or _title(values, times), x=times, values=values, series=series)
    heading = title or _title(values, texts[0])
    if len(texts) > 1 and _repeats(table, texts[0]):
        if len({label(value) for value in column(table, texts[1])}) <= len(style.SERIES):
            return Bars(title=heading, labels=(texts[0],), values=values[:1], series=texts[1])
        return Bars(title=heading, labels=tuple(texts), values=values)
    return Bars(title=heading, labels=(texts[0],), values=values)


def _numbers_alone(table: Table, title: str) -> Chart:
    if len(table.columns) == 1:
        raise NoPicture("a picture needs a column with names or times beside the numbers, such as script_id")
    first, *others = table.columns
    at = [row[0] for row in table.rows]
    values = _measures(others)
    title = title or _title(values, first.name)
    if None not in at and all(before < after for before, after in pairwise(at)):
        return Lines(title=title, x=first.name, values=values)
    return Bars(title=title, labels=(first.name,), values=values)


def _title(values: Sequence[str], by: str) -> str:
    return f"{', '.join(map(spoken, values))} by {spoken(by)}"


def _measures(columns: Sequence[Column]) -> tuple[str, ...]:
    """The first column of numbers, and what follows of its type."""
    found = [column for column in columns if _is_number(column)]
    return tuple(column.name for column in found if column.type == found[0].type)[: len(style.SERIES)]


def _is_number(column: Column) -> bool:
    return column.type.startswith(_NUMBERS) and not column.type.endswith("]")


def _repeats(table: Table, name: str) -> bool:
    values = [label(value) for value in column(table, name)]
    return len(set(values)) < len(values)

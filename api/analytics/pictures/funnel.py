"""A funnel: bars in the order of the steps, the share that came so far, and how many fewer than to the step before."""

from msgspec import Struct

from api.analytics.charts import Funnel
from api.analytics.pictures import frame, style
from api.analytics.pictures.reading import NoPicture, names, numbers, unit_of
from api.analytics.pictures.saying import said
from api.analytics.pictures.svg import Drawing, Sheet
from store.analytics.table import Table

STEPS_MAX = 60
_ROW, _BAR = 34.0, 22.0
_VALUE, _SHARE, _CHANGE = 84.0, 66.0, 128.0  # widths of the columns of numbers


class _Step(Struct, frozen=True):
    name: str
    value: float | None
    share: float | None
    change: float | None
    """Against those who could have come: as a rule fewer, but more where some came past the step before."""
    change_share: float | None
    could: float | None
    """How many could have come."""


def draw_funnel(table: Table, chart: Funnel) -> Drawing:
    """The picture. Raises NoPicture."""
    steps = _steps(table, chart)
    unit = unit_of(table, (chart.value,), chart.unit)
    sheet = Sheet()
    y = frame.head(sheet, chart.title, frame.measure_of((chart.value,), unit))
    shown = steps[:STEPS_MAX]
    notes = [f"{len(steps) - STEPS_MAX} more steps are not shown."] if len(steps) > STEPS_MAX else []
    y = _rows(sheet, y, shown, unit) if shown else frame.nothing(sheet, y)
    return sheet.finished(frame.foot(sheet, y, notes), chart.title, _described(steps, unit))


def _steps(table: Table, chart: Funnel) -> list[_Step]:
    told = names(table, chart.labels)
    values = numbers(table, chart.value)
    below = next((name for name, value in zip(told, values, strict=True) if value is not None and value < 0), None)
    if below is not None:
        raise NoPicture(f"a funnel counts down to nothing, but `{chart.value}` of {below} is negative")
    shares = numbers(table, chart.share) if chart.share else _shares(values)
    changes = _changes(table, chart, values)
    return [
        _Step(name, value, share, change, change / could if change is not None and could else None, could)
        for name, value, share, (change, could) in zip(told, values, shares, changes, strict=True)
    ]


def _changes(table: Table, chart: Funnel, values: list[float | None]) -> list[tuple[float | None, float | None]]:
    """How many fewer, or more, came to each step than could have come, and how many could."""
    if chart.previous is None or chart.share_of_previous is None:
        pairs = zip(values, [None, *values], strict=False)
        return [(None if None in (value, could) else value - could, could) for value, could in pairs]  # type: ignore[operator]
    found = zip(numbers(table, chart.previous), numbers(table, chart.share_of_previous), strict=True)
    return [
        (None, None) if could is None or came is None else (round((came - 1) * could), could) for could, came in found
    ]


def _shares(values: list[float | None]) -> list[float | None]:
    first = next((value for value in values if value is not None), None)
    return [value / first if value is not None and first else None for value in values]


def _rows(sheet: Sheet, y: float, steps: list[_Step], unit: str) -> float:
    room = frame.label_width([step.name for step in steps])
    left = style.MARGIN + room + 12
    value_end = style.WIDTH - style.MARGIN - _CHANGE - _SHARE
    whole = value_end - _VALUE - left
    largest = max((step.value for step in steps if step.value is not None), default=0.0)
    share_end, change_end = value_end + _SHARE, value_end + _SHARE + _CHANGE
    for end, name in ((value_end, "reached"), (share_end, "share"), (change_end, "to the step before")):
        sheet.text(end, y + 8, name, size=style.SMALL, fill=style.FAINT, anchor="end")
    y += 16
    for step in steps:
        middle = y + _ROW / 2
        length = whole * step.value / largest if step.value is not None and largest else 0.0
        frame.named(sheet, style.MARGIN, middle, step.name, room)
        before = whole * step.could / largest if step.could is not None and largest else 0.0
        if before > length:
            sheet.rectangle(left, middle - _BAR / 2, min(before, whole), _BAR, fill=style.GHOST)
        tells = f"{step.name}: {_told(step, unit)}"
        sheet.rectangle(left, middle - _BAR / 2, length, _BAR, fill=style.SERIES[0], tells=tells)
        sheet.text(value_end, middle + 4.5, said(step.value, unit), anchor="end", strong=True)
        sheet.text(share_end, middle + 4.5, said(step.share, "%"), anchor="end", fill=style.FAINT)
        if step.change:
            colour = style.LOSS if step.change < 0 else style.FAINT
            sheet.text(change_end, middle + 4.5, _change(step, unit), anchor="end", fill=colour)
        y += _ROW
    return y


def _change(step: _Step, unit: str) -> str:
    plus = "+" if step.change is not None and step.change > 0 else ""
    share = "" if step.change_share is None else f" ({plus}{said(step.change_share, '%')})"
    return f"{plus}{said(step.change, unit)}{share}"


def _told(step: _Step, unit: str) -> str:
    told = f"{said(step.value, unit)}, {said(step.share, '%')} of all"
    return f"{told}, {_change(step, unit)}" if step.change else told


def _described(steps: list[_Step], unit: str) -> str:
    return "Funnel. " + "; ".join(f"{step.name}: {_told(step, unit)}" for step in steps)

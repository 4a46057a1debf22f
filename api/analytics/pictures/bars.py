"""Bars: sizes side by side, one a row, or a group of them or one in pieces a name."""

from collections.abc import Sequence

from msgspec import Struct

from api.analytics.charts import Bars
from api.analytics.pictures import frame, style
from api.analytics.pictures.reading import Grid, NoPicture, are_whole, grid, names, unit_of
from api.analytics.pictures.saying import said
from api.analytics.pictures.svg import Drawing, Sheet, width_of
from api.analytics.pictures.ticks import round_ticks
from store.analytics.table import Table

BARS_MAX = 40  # names; in groups there may be more bars
SERIES_MAX = len(style.SERIES)
_TICKS_MAX = 6


class _Scale:
    """From numbers to x."""

    def __init__(self, ticks: Sequence[float], left: float, right: float) -> None:
        self._low, self._left = ticks[0], left
        self._pixels = (right - left) / (ticks[-1] - ticks[0])

    def __call__(self, number: float) -> float:
        return self._left + (number - self._low) * self._pixels


class _Shown(Struct, frozen=True):
    """What is shown of a grid."""

    sizes: Grid
    lines: range
    series: range
    unit: str

    def row(self, line: int) -> list[float]:
        """The numbers of a line."""
        return [number for number in self.sizes.row(line)[: len(self.series)] if number is not None]

    def name(self, line: int, series: int) -> str:
        """What a bar is about."""
        name: str = self.sizes.lines[line]
        return name if len(self.series) == 1 else f"{name}, {self.sizes.series[series]}"


def draw_bars(table: Table, chart: Bars) -> Drawing:
    """The picture. Raises NoPicture."""
    sizes = grid(table, names(table, chart.labels), chart.values, chart.series)
    unit = unit_of(table, chart.values, chart.unit)
    lines = range(min(len(sizes.lines), BARS_MAX))
    series = range(min(len(sizes.series), SERIES_MAX))
    shown = _Shown(sizes, lines, series, unit)
    sheet = Sheet()
    y = frame.head(sheet, chart.title, frame.measure_of(chart.values, unit))
    if len(sizes.series) > 1:
        y = frame.legend(sheet, y, sizes.series[: len(series)])
    if not lines:
        y = frame.nothing(sheet, y)
    elif chart.stacked:
        y = _stacks(sheet, y, shown)
    else:
        y = _groups(sheet, y, shown)
    return sheet.finished(frame.foot(sheet, y, _notes(sizes)), chart.title, _described(sizes, unit))


def _notes(sizes: Grid) -> list[str]:
    notes = []
    if len(sizes.lines) > BARS_MAX:
        notes.append(f"The first {BARS_MAX} of {len(sizes.lines):,} are shown.")
    if len(sizes.series) > SERIES_MAX:
        notes.append(f"The first {SERIES_MAX} of {len(sizes.series):,} series are shown.")
    return notes


def _groups(sheet: Sheet, y: float, shown: _Shown) -> float:
    height, gap = (20.0, 9.0) if len(shown.series) == 1 else (13.0, 14.0)
    group = len(shown.series) * (height + 1) + gap
    scale = _scaled(sheet, y, group, shown, [number for line in shown.lines for number in shown.row(line)])
    for line in shown.lines:
        top = y + gap / 2
        for place in shown.series:
            if (line, place) in shown.sizes.cells:
                number = shown.sizes.cells[line, place]
                told = said(number, shown.unit)
                _bar(sheet, scale, top, height, number, style.SERIES[place], told, shown.name(line, place))
            top += height + 1
        y += group
    return y + 24


def _stacks(sheet: Sheet, y: float, shown: _Shown) -> float:
    """One bar a line, of pieces; what the pieces come to together stands at its end."""
    height, group = 22.0, 33.0
    below = next((line for line in shown.lines if min(shown.row(line), default=0.0) < 0), None)
    if below is not None:
        raise NoPicture(f"parts of a whole cannot be negative, as one of {shown.sizes.lines[below]} is")
    scale = _scaled(sheet, y, group, shown, [sum(shown.row(line)) for line in shown.lines])
    for line in shown.lines:
        top, whole = y + (group - height) / 2, 0.0
        for place in shown.series:
            number = shown.sizes.cells.get((line, place)) or 0.0
            told = said(number, shown.unit)
            start, end = scale(whole), scale(whole + number)
            tells = f"{shown.name(line, place)}: {told}"
            sheet.rectangle(start, top, end - start, height, fill=style.SERIES[place], radius=0, tells=tells)
            if width_of(told, style.SMALL) + 8 <= end - start:
                at = (start + end) / 2, top + height / 2 + 4
                sheet.text(*at, told, size=style.SMALL, fill=style.ON_SERIES[place], anchor="middle")
            whole += number
        sheet.text(scale(whole) + 6, top + height / 2 + 4, said(whole, shown.unit), size=style.SMALL, clear=True)
        y += group
    return y + 24


def _scaled(sheet: Sheet, y: float, group: float, shown: _Shown, ends: Sequence[float]) -> _Scale:
    """Puts names and the axis in their places; where the bars may end decides on the scale."""
    unit = shown.unit
    room = frame.label_width([shown.sizes.lines[line] for line in shown.lines])
    said_width = max((width_of(said(end, unit), style.SMALL) for end in ends), default=0.0) + 10
    ticks = round_ticks(min(0.0, *ends, 0.0), max(0.0, *ends, 0.0), _TICKS_MAX, unit, whole=are_whole(ends))
    left = style.MARGIN + room + 12 + (said_width if ticks[0] < 0 else 0)
    scale = _Scale(ticks, left, style.WIDTH - style.MARGIN - said_width)
    frame.value_axis(sheet, ticks, [scale(tick) for tick in ticks], y, y + len(shown.lines) * group, unit)
    for line in shown.lines:
        middle = y + (line + 0.5) * group
        frame.named(sheet, style.MARGIN, middle, shown.sizes.lines[line], room, 2 if group > 28 else 1)
    return scale


def _bar(
    sheet: Sheet, scale: _Scale, top: float, height: float, number: float | None, fill: str, told: str, name: str
) -> None:
    zero, end = scale(0.0), scale(number or 0.0)
    if number is not None:
        sheet.rectangle(min(zero, end), top, abs(end - zero), height, fill=fill, tells=f"{name}: {told}")
    below = number is not None and number < 0
    sheet.text(
        end + (-6 if below else 6), top + height / 2 + 4, told,
        size=style.SMALL, anchor="end" if below else "start", clear=True,
    )  # fmt: skip


def _described(sizes: Grid, unit: str) -> str:
    told = []
    for line, name in enumerate(sizes.lines):
        row = zip(sizes.series, sizes.row(line), strict=True)
        values = ", ".join(said(n, unit) if len(sizes.series) == 1 else f"{s} {said(n, unit)}" for s, n in row)
        told.append(f"{name}: {values}")
    return "Bars. " + "; ".join(told)

"""Bars: sizes side by side, one a row or a group of them a name."""

from collections.abc import Sequence

from api.analytics.charts import Bars
from api.analytics.pictures import frame, style
from api.analytics.pictures.reading import Grid, are_whole, grid, names, unit_of
from api.analytics.pictures.saying import said
from api.analytics.pictures.svg import Drawing, Sheet, width_of
from api.analytics.pictures.ticks import round_ticks
from store.analytics.table import Table

BARS_MAX = 40  # names; in groups there may be more bars
_TICKS_MAX = 6


class _Scale:
    """From numbers to x."""

    def __init__(self, ticks: Sequence[float], left: float, right: float) -> None:
        self._low, self._left = ticks[0], left
        self._pixels = (right - left) / (ticks[-1] - ticks[0])

    def __call__(self, number: float) -> float:
        return self._left + (number - self._low) * self._pixels


def draw_bars(table: Table, chart: Bars) -> Drawing:
    """The picture. Raises NoPicture."""
    sizes = grid(table, names(table, chart.labels), chart.values, chart.series)
    unit = unit_of(table, chart.values, chart.unit)
    lines = range(min(len(sizes.lines), BARS_MAX))
    series = range(min(len(sizes.series), len(style.SERIES)))
    sheet = Sheet()
    y = frame.head(sheet, chart.title, "" if len(chart.values) > 1 else frame.measure_of(chart.values[0], unit))
    if len(sizes.series) > 1:
        y = frame.legend(sheet, y, [sizes.series[place] for place in series])
    y = _groups(sheet, y, sizes, lines, series, unit) if lines else frame.nothing(sheet, y)
    return sheet.finished(frame.foot(sheet, y, _notes(sizes)), chart.title, _described(sizes, unit))


def _notes(sizes: Grid) -> list[str]:
    notes = []
    if len(sizes.lines) > BARS_MAX:
        notes.append(f"The first {BARS_MAX} of {len(sizes.lines):,} are shown.")
    if len(sizes.series) > len(style.SERIES):
        notes.append(f"The first {len(style.SERIES)} of {len(sizes.series):,} series are shown.")
    return notes


def _groups(sheet: Sheet, y: float, sizes: Grid, lines: range, series: range, unit: str) -> float:
    height, gap = (20.0, 9.0) if len(series) == 1 else (13.0, 14.0)
    group = len(series) * (height + 1) + gap
    numbers = [number for line in lines for number in sizes.row(line)[: len(series)] if number is not None]
    room = frame.label_width([sizes.lines[line] for line in lines])
    said_width = max((width_of(said(number, unit), style.SMALL) for number in numbers), default=0.0) + 10
    ticks = round_ticks(min(0.0, *numbers, 0.0), max(0.0, *numbers, 0.0), _TICKS_MAX, unit, whole=are_whole(numbers))
    left = style.MARGIN + room + 12 + (said_width if ticks[0] < 0 else 0)
    scale = _Scale(ticks, left, style.WIDTH - style.MARGIN - said_width)
    bottom = y + len(lines) * group
    frame.value_axis(sheet, ticks, [scale(tick) for tick in ticks], y, bottom, unit)
    for line in lines:
        frame.named(sheet, style.MARGIN, y + group / 2, sizes.lines[line], room, 2 if group > 28 else 1)
        top = y + gap / 2
        for place in series:
            number = sizes.cells.get((line, place))
            named = sizes.lines[line] if len(series) == 1 else f"{sizes.lines[line]}, {sizes.series[place]}"
            _bar(sheet, scale, top, height, number, style.SERIES[place], said(number, unit), named)
            top += height + 1
        y += group
    return bottom + 24


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

"""Lines: how numbers went over times, numbers, or names in the order of the rows."""

from collections.abc import Sequence
from datetime import date, datetime, time
from typing import Any, TypeAlias

from msgspec import Struct

from api.analytics.charts import Lines
from api.analytics.pictures import frame, style
from api.analytics.pictures.reading import Grid, NoPicture, are_whole, column, grid, label, moment, unit_of
from api.analytics.pictures.saying import said
from api.analytics.pictures.svg import Drawing, Sheet, elided, width_of
from api.analytics.pictures.ticks import moments, round_ticks
from store.analytics.table import Table

POINTS_MAX = 2_000  # places along the x axis
_DOTS_MAX = 60  # points of a line that are marked each
_HEIGHT = 300.0
_TICKS_MAX = 6
_MOMENTS_MAX = 7
_TICK_WIDTH = 112.0

_Tick: TypeAlias = tuple[float, str]
_Point: TypeAlias = tuple[float, float, int]
"""x, y, and the line of the grid."""


class _Axis(Struct, frozen=True):
    """The x axis: where each line of the grid is, from 0 to 1, and the marks."""

    places: tuple[float, ...]
    ticks: tuple[_Tick, ...]


def draw_lines(table: Table, chart: Lines) -> Drawing:
    """The picture. Raises NoPicture."""
    heights, left_out = _heights(table, chart)
    unit = unit_of(table, chart.values, chart.unit)
    series = heights.series[: len(style.SERIES)]
    sheet = Sheet()
    y = frame.head(sheet, chart.title, frame.measure_of(chart.values, unit))
    if len(heights.series) > 1:
        y = frame.legend(sheet, y, series, dashed=True)
    y = _plot(sheet, y, heights, len(series), unit) if heights.lines else frame.nothing(sheet, y)
    notes = []
    if left_out:
        notes.append(f"{left_out:,} rows without {chart.x} are left out.")
    if len(heights.series) > len(series):
        notes.append(f"The first {len(series)} of {len(heights.series):,} series are shown.")
    return sheet.finished(frame.foot(sheet, y, notes), chart.title, _described(heights, unit))


def _heights(table: Table, chart: Lines) -> tuple[Grid, int]:
    """The points, and how many rows have no place on the x axis."""
    given = column(table, chart.x)
    kept = [place for place, value in enumerate(given) if value is not None]
    whole = Table(table.columns, [table.rows[place] for place in kept])
    at = [_place(given[place]) for place in kept]
    if len({type(place) for place in at}) > 1:
        raise NoPicture(f"`{chart.x}` has values of several kinds: times, numbers or names, one of them")
    heights = grid(whole, at, chart.values, chart.series)
    if len(set(heights.lines)) < len(heights.lines):
        twice = next(place for place in at if at.count(place) > 1)
        raise NoPicture(f"several rows have the same `{chart.x}` ({label(twice)}): group by it, or name a series")
    if len(heights.lines) > POINTS_MAX:
        raise NoPicture(
            f"`{chart.x}` has {len(heights.lines):,} values, a line has {POINTS_MAX:,} at most: "
            f"group by longer times, such as date_trunc('day', {chart.x})"
        )
    return heights, len(given) - len(kept)


def _place(value: Any) -> datetime | float | str:
    match value:
        case date():
            return moment(value)
        case int() | float() if not isinstance(value, bool) and abs(value) < 1e300:
            return float(value)
        case _:
            return label(value)


def _axis(lines: Sequence[Any], names_max: int) -> _Axis:
    if len(lines) == 1:
        return _Axis((0.5,), ((0.5, label(lines[0])),))
    if isinstance(lines[0], datetime):
        first, last = min(lines), max(lines)
        days = all(line.time() == time() for line in lines)
        span = (last - first).total_seconds()
        return _Axis(
            tuple((line - first).total_seconds() / span for line in lines),
            tuple(
                ((place - first).total_seconds() / span, name)
                for place, name in moments(first, last, _MOMENTS_MAX, days=days)
            ),
        )
    if isinstance(lines[0], float):
        ticks = round_ticks(min(lines), max(lines), _MOMENTS_MAX, whole=are_whole(lines))
        span = ticks[-1] - ticks[0]
        return _Axis(
            tuple((line - ticks[0]) / span for line in lines),
            tuple(((tick - ticks[0]) / span, said(tick)) for tick in ticks),
        )
    every = -(-len(lines) // names_max)
    places = tuple(place / (len(lines) - 1) for place in range(len(lines)))
    return _Axis(places, tuple((places[place], lines[place]) for place in range(0, len(lines), every)))


def _plot(sheet: Sheet, y: float, heights: Grid, series_count: int, unit: str) -> float:
    shown = [number for (_, place), number in heights.cells.items() if number is not None and place < series_count]
    levels = round_ticks(min(0.0, *shown, 0.0), max(0.0, *shown, 0.0), _TICKS_MAX, unit, whole=are_whole(shown))
    room = max(width_of(said(level, unit), style.SMALL) for level in levels)
    left, right = style.MARGIN + room + 14, style.WIDTH - style.MARGIN - 24
    bottom = y + 4 + _HEIGHT
    span = levels[-1] - levels[0]
    for level in levels:
        at = bottom - (level - levels[0]) / span * _HEIGHT
        sheet.rule(left, at, right, at, stroke=style.AXIS if level == 0 else style.GRID)
        sheet.text(left - 10, at + 4, said(level, unit), size=style.SMALL, fill=style.FAINT, anchor="end")
    axis = _axis(heights.lines, int((right - left) / _TICK_WIDTH))
    for share, name in axis.ticks:
        x = left + share * (right - left)
        sheet.rule(x, bottom, x, bottom + 5, stroke=style.AXIS)
        told = elided(name, _TICK_WIDTH, style.SMALL)
        sheet.text(x, bottom + 19, told, size=style.SMALL, fill=style.FAINT, anchor="middle", tells=name)
    for place in range(series_count):
        runs: list[list[_Point]] = [[]]
        for share, line in sorted(zip(axis.places, range(len(axis.places)), strict=True)):
            number = heights.cells.get((line, place))
            if number is None:
                runs.append([])
            else:
                runs[-1].append((left + share * (right - left), bottom - (number - levels[0]) / span * _HEIGHT, line))
        _line(sheet, runs, heights, place, unit)
    return bottom + 32


def _line(sheet: Sheet, runs: list[list[_Point]], heights: Grid, place: int, unit: str) -> None:
    """One line, broken where it has no number; its points are marked while they are few, or stand alone."""
    colour = style.SERIES[place]
    are_few = len(heights.lines) <= _DOTS_MAX
    for points in runs:
        if len(points) > 1:
            sheet.path([(x, y) for x, y, _ in points], stroke=colour, dashes=style.DASHES[place])
        for x, y, line in points if are_few or len(points) == 1 else ():
            told = f"{label(heights.lines[line])}: {said(heights.cells[line, place], unit)}"
            sheet.dot(x, y, 3.2, fill=colour, tells=f"{heights.series[place]}, {told}")


def _described(heights: Grid, unit: str) -> str:
    told = []
    for place, name in enumerate(heights.series):
        points = [
            (line, n) for line in range(len(heights.lines)) if (n := heights.cells.get((line, place))) is not None
        ]
        if points:
            ends = (points[0], max(points, key=lambda point: point[1]), points[-1])
            first, most, last = (f"{said(n, unit)} at {label(heights.lines[line])}" for line, n in ends)
            told.append(f"{name}: from {first} to {last}, at most {most}")
    return "Lines. " + "; ".join(told)

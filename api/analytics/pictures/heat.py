"""A heat map: a matrix of shaded cells with their values."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from msgspec import Struct

from api.analytics.charts import Heat
from api.analytics.pictures import frame, style
from api.analytics.pictures.reading import Grid, column, grid, label, unit_of
from api.analytics.pictures.saying import said
from api.analytics.pictures.svg import Drawing, Sheet, elided, width_of
from store.analytics.table import Table

ROWS_MAX, COLUMNS_MAX = 60, 60
_CELL_HEIGHT, _CELL_MIN, _CELL_MAX = 27.0, 9.0, 64.0
_KEY_STEPS = 9


class _Matrix(Struct, frozen=True):
    """What is shown of a grid: places of its lines and series, in order."""

    cells: Grid
    rows: Sequence[int]
    columns: Sequence[int]
    low: float
    high: float

    def share(self, number: float) -> float:
        """Where a number is between the lowest and the highest, from 0 to 1."""
        return (number - self.low) / (self.high - self.low) if self.high > self.low else 1.0


def draw_heat(table: Table, chart: Heat) -> Drawing:
    """The picture. Raises NoPicture."""
    cells = grid(table, [label(value) for value in column(table, chart.row)], (chart.value,), chart.column)
    unit = unit_of(table, (chart.value,), chart.unit)
    columns = _ordered(column(table, chart.column), cells)
    numbers = cells.numbers()
    matrix = _Matrix(
        cells,
        range(min(len(cells.lines), ROWS_MAX)),
        columns[:COLUMNS_MAX],
        min(0.0, *numbers, 0.0),
        max(0.0, *numbers, 0.0),
    )
    sheet = Sheet()
    spoken = f"{frame.measure_of((chart.value,), unit)} by {chart.row} (down) and {chart.column} (across)".replace(
        "_", " "
    )
    y = frame.head(sheet, chart.title, spoken)
    y = _cells(sheet, y, matrix, unit) if cells.lines else frame.nothing(sheet, y)
    notes = []
    if len(cells.lines) > ROWS_MAX or len(columns) > COLUMNS_MAX:
        shown = f"{len(matrix.rows)} rows and {len(matrix.columns)} columns"
        notes.append(f"The first {shown} of {len(cells.lines):,} and {len(columns):,} are shown.")
    return sheet.finished(frame.foot(sheet, y, notes), chart.title, _described(matrix, unit))


def _ordered(values: Sequence[Any], cells: Grid) -> list[int]:
    """Places of the series: numbers and times by size, names as they came."""
    first = {label(value): value for value in reversed(values)}
    keys = [first[name] for name in cells.series]
    places = range(len(keys))
    for kind in (int | float, date):
        if all(isinstance(key, kind) for key in keys):
            return sorted(places, key=keys.__getitem__)
    return list(places)


def _cells(sheet: Sheet, y: float, matrix: _Matrix, unit: str) -> float:
    cells = matrix.cells
    room = frame.label_width([cells.lines[row] for row in matrix.rows])
    left = style.MARGIN + room + 10
    width = min(max((style.WIDTH - style.MARGIN - left) / len(matrix.columns), _CELL_MIN), _CELL_MAX)
    has_room = all(width_of(said(value, unit), style.SMALL) <= width - 4 for value in cells.numbers())
    _column_names(sheet, y, [cells.series[place] for place in matrix.columns], left, width)
    y += 18
    for row in matrix.rows:
        frame.named(sheet, style.MARGIN, y + _CELL_HEIGHT / 2, cells.lines[row], room, 1)
        for number, place in enumerate(matrix.columns):
            value = cells.cells.get((row, place))
            if value is None:
                continue
            x, share, told = left + number * width, matrix.share(value), said(value, unit)
            tells = f"{cells.lines[row]}, {cells.series[place]}: {told}"
            sheet.rectangle(
                x + 0.75, y + 0.75, width - 1.5, _CELL_HEIGHT - 1.5, fill=style.shade(share), radius=3, tells=tells
            )
            if has_room:
                ink = style.PAPER if share > 0.6 else style.INK
                sheet.text(x + width / 2, y + _CELL_HEIGHT / 2 + 4, told, size=style.SMALL, fill=ink, anchor="middle")
        y += _CELL_HEIGHT
    return _key(sheet, y + 12, left, matrix, unit)


def _column_names(sheet: Sheet, y: float, names: Sequence[str], left: float, width: float) -> None:
    """Names above the columns: of every column where there is room, else of some."""
    widest = min(max(width_of(name, style.SMALL) for name in names), 90.0)
    every = max(1, -(-int(widest + 6) // int(width)))
    for number in range(0, len(names), every):
        told = elided(names[number], every * width - 2, style.SMALL)
        x = left + (number + 0.5) * width
        sheet.text(x, y + 10, told, size=style.SMALL, fill=style.FAINT, anchor="middle", tells=names[number])


def _key(sheet: Sheet, y: float, left: float, matrix: _Matrix, unit: str) -> float:
    """Which shade is how much."""
    told = said(matrix.low, unit)
    sheet.text(left, y + 10, told, size=style.SMALL, fill=style.FAINT)
    x = left + width_of(told, style.SMALL) + 8
    for step in range(_KEY_STEPS):
        sheet.rectangle(x, y, 18, 12, fill=style.shade(step / (_KEY_STEPS - 1)), radius=0)
        x += 18
    sheet.text(x + 8, y + 10, said(matrix.high, unit), size=style.SMALL, fill=style.FAINT)
    return y + 24


def _described(matrix: _Matrix, unit: str) -> str:
    told = []
    for row in matrix.rows:
        values = (
            f"{matrix.cells.series[place]} {said(value, unit)}"
            for place in matrix.columns
            if (value := matrix.cells.cells.get((row, place))) is not None
        )
        told.append(f"{matrix.cells.lines[row]}: {', '.join(values)}")
    return "Heat map. " + "; ".join(told)

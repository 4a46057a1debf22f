"""Prints results as tables in a terminal, with readable values and bars for the report's measure."""

import sys
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table as Shown

from api.analytics.charts.chart import Chart, ChartRefused
from api.analytics.charts.points import numbers, unit_of
from api.analytics.formats.json_and_csv import as_text
from api.analytics.formats.readable import label, number_text
from api.cli.output import console, plain, print_table
from store.analytics.query import Table

_BAR_CELLS = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_CELL_MAX = 200  # characters shown of a cell; a file contains all


def print_result(table: Table, chart: Chart | None = None) -> None:
    """Print the table; if standard output is not a terminal, separated by tabs with values as in CSV."""
    if sys.stdout.isatty():
        console.print(format_table(table, chart))
    else:
        names = [column.name for column in table.columns]
        print_table(names, ([as_text(value) for value in row] for row in table.rows))


def format_table(table: Table, chart: Chart | None) -> Shown:
    """Return the table for a terminal, with a column of bars for the measure of the chart."""
    units = _units(table, chart)
    measure = next(iter(units), None)
    bars = _bars(table, measure)
    lines = Shown(box=SIMPLE)
    columns: list[list[str]] = []
    for place, column in enumerate(table.columns):
        values = [row[place] for row in table.rows]
        is_number = any(isinstance(value, int | float | Decimal | timedelta) for value in values)
        lines.add_column(escape(plain(column.name)), justify="right" if is_number else "left", overflow="fold")
        columns.append([escape(_cell(value, units.get(column.name, ""))) for value in values])
        if bars and column.name == measure:
            lines.add_column("", no_wrap=True, style="blue")
            columns.append(bars)
    for row in zip(*columns, strict=True):
        lines.add_row(*row)
    return lines


def _units(table: Table, chart: Chart | None) -> dict[str, str]:
    """Return the unit of each column that has one; the first is that of the chart's measure."""
    if chart is None:
        return {}
    units = dict.fromkeys(chart.values, chart.unit) | ({chart.share: "%"} if chart.share else {})
    return {name: unit_of(table, (name,), unit) for name, unit in units.items()}


def _bars(table: Table, measure: str | None) -> list[str]:
    """Return one bar per row, proportional to the largest value; no bars without a positive value."""
    if measure is None:
        return []
    try:
        sizes = [number or 0.0 for number in numbers(table, measure)]
    except ChartRefused:
        return []
    largest = max(sizes, default=0.0)
    return [_bar(max(size, 0.0) / largest) for size in sizes] if largest > 0 else []


def _bar(share: float) -> str:
    whole, eighths = divmod(round(share * _BAR_CELLS * 8), 8)
    return "█" * whole + _EIGHTHS[eighths].strip()


def _cell(value: Any, unit: str) -> str:
    match value:
        case None:
            return ""
        case int() | float() | Decimal() if unit in {"%", "s"} and not isinstance(value, bool):
            text = number_text(float(value), unit)
        case float():
            text = f"{value:,.4f}".rstrip("0").rstrip(".") if 1e-3 <= abs(value) < 1e9 else f"{value:g}"
        case timedelta() | datetime():
            text = label(value)
        case _:
            text = as_text(value)
    text = plain(text.replace("\t", " ").replace("\n", " "))
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 1] + "…"

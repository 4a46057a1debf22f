"""A chart of a table as a Vega-Lite specification with its data inline, and a picture of it by the library vl-convert.

Expressions in it are constants: texts of a table are data, never part of an expression, a field name or an address.
"""

import textwrap
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from api.analytics.charts.chart import Chart, ChartRefused
from api.analytics.charts.points import Points, in_words, one_line, points_of
from store.analytics.query import Table

Spec: TypeAlias = dict[str, Any]
PictureForm: TypeAlias = Literal["svg", "png"]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_VERSION = "6.4"  # of Vega-Lite, as in the schema
SPEC_BYTES_MAX = 4_000_000  # of a specification that is rendered
SCALE = 2.0  # pixels of a PNG a pixel of the SVG
EMPTY = "Nothing to show: the table has no rows."
_DOTS_MAX = 60  # places of a line whose points are marked each
_CELL_TEXTS_MAX = 16  # columns of a heat map with texts in the cells
_CONFIG: Spec = msgspec.json.decode(Path(__file__).with_name("config.json").read_bytes())
"""Fonts, and Paul Tol's colours, which are apart in the common kinds of colour-blindness."""
_INK, _PAPER, _GHOST = _CONFIG["text"]["color"], _CONFIG["background"], "#e3ebf4"
_NAMES = {
    "labelExpr": "length(datum.label) > 44 ? slice(datum.label, 0, 22) + '…' + slice(datum.label, -21) : datum.label",
    "labelLimit": 340, "maxExtent": 360, "labelColor": _INK, "labelFontSize": 12, "labelAngle": 0, "grid": False,
}  # fmt: skip
"""The axis of names: long ones without their middle, since ids differ at both ends."""
_PERCENT = {"labelExpr": "format(datum.value * 100, '.3~r') + ' %'"}
_BEYOND = {"align": {"expr": "datum.value < 0 ? 'right' : 'left'"}, "dx": {"expr": "datum.value < 0 ? -5 : 5"}}
"""Texts after the end of a bar."""


def vega_lite(table: Table, chart: Chart) -> Spec:
    """Describe the chart of a table. Raises ChartRefused."""
    found = points_of(table, chart)
    plot: Spec = {
        "height": 70,
        **_mark({"type": "text", "fontSize": 13}, text={"value": chart.words.get("nothing", EMPTY)}),
    }
    if found.points:
        plot = {"lines": _lines, "heat": _heat}.get(chart.kind, _bars)(found, chart)
    title = textwrap.wrap(one_line(chart.title), 80, max_lines=2, placeholder="…") or [""]
    return {
        "$schema": SCHEMA,
        "title": {"text": title} | ({"subtitle": found.notes} if found.notes else {}),
        "data": {"values": found.points or [{}]},
        "width": 640,
        "config": _CONFIG,
        **plot,
    }


def _mark(mark: str | Spec, **encoding: Spec) -> Spec:
    """Return a layer; its marks show the fields of their points under a pointer."""
    definition = {"type": mark} if isinstance(mark, str) else mark
    return {"mark": definition | {"tooltip": {"content": "data"}}, "encoding": encoding}


def _measure(found: Points, chart: Chart) -> Spec:
    """Return the encoding of the values along an axis."""
    values = [0.0] + [point["value"] for point in found.points if point["value"] is not None]
    axis = {"tickCount": 6, **_PERCENT} if chart.unit == "%" else {"tickCount": _ticks(values)}
    room = {"scale": {"padding": 50}} if min(values) < 0 and chart.kind == "bars" else {}  # for texts before bars
    return {"field": "value", "type": "quantitative", "title": found.measure or None, "axis": axis, **room}


def _ticks(values: list[float]) -> int:
    """Return how many marks an axis has at most: between counts there are none."""
    are_whole = all(value == int(value) for value in values)
    return int(min(max(max(values) - min(values), 1), 6)) if are_whole else 6


def _series(found: Points, *channels: str) -> Spec:
    """Return the encodings that tell series apart; none where there is only one."""
    each = {"field": "series", "type": "nominal", "title": None, "scale": {"domain": found.series}}
    return dict.fromkeys(channels, each) if len(found.series) > 1 else {}


def _bars(found: Points, chart: Chart) -> Spec:
    """Return horizontal bars with their texts; a funnel has bars of those that could have come behind them."""
    measure = _measure(found, chart)
    groups = _series(found, "yOffset") if not chart.stacked else {}
    x = measure | {"stack": "zero" if chart.stacked else None}
    layers = [_mark("bar", x=x, **_series(found, "color"), **groups)]
    if chart.kind == "funnel":
        layers.insert(0, _mark({"type": "bar", "color": _GHOST}, x=measure | {"field": "previous", "stack": None}))
    if chart.lower:
        bounds = {"x": measure | {"field": "lower"}, "x2": {"field": "upper"}}
        layers.append(_mark({"type": "rule", "color": _INK, "strokeWidth": 1.5}, **bounds, **groups))
    if chart.stacked:
        total = {"aggregate": "sum", "field": "value"}
        layers.append(_mark({"type": "text", **_BEYOND}, x=measure | total, text=total | {"format": ",.12~g"}))
    else:
        end = measure | {"field": "upper" if chart.lower else "value"}
        layers.append(_mark({"type": "text", **_BEYOND}, x=end, text={"field": "text"}, **groups))
    title = one_line(", ".join(in_words(name, chart.words) for name in chart.labels))
    y = {"field": "label", "type": "nominal", "title": title,
         "axis": _NAMES, "scale": {"paddingInner": 0.3, "domain": found.labels}}  # fmt: skip
    return {"height": {"step": 15 if groups else 30}, "encoding": {"y": y}, "layer": layers}


def _lines(found: Points, chart: Chart) -> Spec:
    """Return lines over times, numbers or names, with bands of their intervals."""
    axis: Spec = {"grid": False, "ticks": True}
    scale: Spec = {"domain": found.labels}
    if found.label_type == "quantitative":
        axis, scale = axis | {"tickCount": _ticks(found.labels)}, {"zero": False}
    if found.label_type == "temporal":
        days = all(at.endswith("T00:00:00+00:00") for at in found.labels)
        axis |= {"format": "%Y-%m-%d" if days else "%Y-%m-%d %H:%M", "tickCount": min(len(found.labels), 7)}
        scale = {"type": "utc"}
    x = {"field": "label", "type": found.label_type, "title": one_line(in_words(chart.labels[0], chart.words))}
    y = _measure(found, chart)
    line = {"type": "line", "strokeCap": "round", "point": len(found.labels) <= _DOTS_MAX}
    gaps = {"impute": {"value": None}} if len(found.series) > 1 else {}  # a line is broken where it has no point
    layers = [_mark(line, y=y | gaps, **_series(found, "color", "strokeDash"))]
    if chart.lower:
        bounds = {"y": y | {"field": "lower"}, "y2": {"field": "upper"}}
        layers.insert(0, _mark({"type": "area", "opacity": 0.2}, **bounds, **_series(found, "color")))
    return {"height": 300, "encoding": {"x": x | {"axis": axis, "scale": scale}}, "layer": layers}


def _heat(found: Points, chart: Chart) -> Spec:
    """Return a matrix of cells, darker for higher values, with their texts where there is room."""
    values = [0.0] + [point["value"] for point in found.points if point["value"] is not None]
    low, high = min(values), max(values)
    colour = {"field": "value", "type": "quantitative", "title": found.measure,
              "legend": _PERCENT if chart.unit == "%" else {},
              "scale": {"scheme": "blues", "domain": [low, high if high > low else 1.0]}}  # fmt: skip
    ink = {"condition": {"test": f"datum.value > {low + 0.6 * (high - low)!r}", "value": _PAPER}, "value": _INK}
    layers = [_mark("rect", color=colour)]
    if len(found.series) <= _CELL_TEXTS_MAX:
        layers.append(_mark("text", text={"field": "text"}, color=ink))
    down, across = (one_line(in_words(name, chart.words)) for name in (chart.labels[0], chart.series or ""))
    y = {"field": "label", "type": "ordinal", "title": down, "axis": _NAMES}
    x = {"field": "series", "type": "ordinal", "title": across, "axis": _NAMES | {"orient": "top"}}
    return {"height": {"step": 27}, "encoding": {"x": x, "y": y}, "layer": layers}


def render(spec: Spec, form: PictureForm) -> bytes:
    """Render a specification: the same bytes for the same one and the same fonts. Raises ChartRefused.

    Blocks, and holds the interpreter meanwhile: for a process of its own, not for a thread of a server.
    """
    import vl_convert  # 0.7 s to its first chart, and 34 GB of addresses: only where a picture is asked for

    source = msgspec.json.encode(spec).decode()
    if len(source) > SPEC_BYTES_MAX:
        raise ChartRefused(f"the chart has more than {SPEC_BYTES_MAX:,} bytes of data: group by something coarser")
    svg = vl_convert.vegalite_to_svg(source, vl_version=_VERSION, allowed_base_urls=[])
    return svg.encode() if form == "svg" else vl_convert.svg_to_png(svg, scale=SCALE)

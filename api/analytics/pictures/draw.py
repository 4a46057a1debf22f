"""Drawing: from a table and a chart to the bytes of a picture."""

from typing import Literal, TypeAlias, assert_never

from msgspec import Struct

from api.analytics.charts import Bars, Chart, Funnel, Heat, Lines
from api.analytics.pictures.bars import draw_bars
from api.analytics.pictures.funnel import draw_funnel
from api.analytics.pictures.heat import draw_heat
from api.analytics.pictures.lines import draw_lines
from api.analytics.pictures.raster import png, without_font
from api.analytics.pictures.svg import Drawing
from store.analytics.table import Table

Form: TypeAlias = Literal["svg", "png"]

_SIGNS_TOLD_MAX = 12


class Picture(Struct, frozen=True):
    """A picture."""

    data: bytes
    warnings: tuple[str, ...] = ()
    """What is not as it should be, and what helps."""


def draw(table: Table, chart: Chart, form: Form) -> Picture:
    """A picture of a table: the same bytes for the same table (and, as PNG, the same fonts).

    A PNG holds up every thread of the process while it is drawn. Raises NoPicture.
    """
    drawing = _drawn(table, chart)
    if form == "svg":
        return Picture(drawing.svg.encode())
    missing = without_font(drawing.characters)
    return Picture(png(drawing.svg), (_no_font(missing),) if missing else ())


def _drawn(table: Table, chart: Chart) -> Drawing:
    match chart:
        case Funnel():
            return draw_funnel(table, chart)
        case Bars():
            return draw_bars(table, chart)
        case Lines():
            return draw_lines(table, chart)
        case Heat():
            return draw_heat(table, chart)
        case _:
            assert_never(chart)


def _no_font(missing: str) -> str:
    told = missing if len(missing) <= _SIGNS_TOLD_MAX else missing[:_SIGNS_TOLD_MAX] + "…"
    return (
        f"no font on this machine has {told}, boxes stand for it: install one that does "
        "(for Chinese, fonts-noto-cjk), or take the SVG, whose text the viewer's fonts draw"
    )

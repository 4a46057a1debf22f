"""From a Vega-Lite specification to SVG and PNG, by the library vl-convert."""

import unicodedata
from typing import Literal, TypeAlias
from xml.etree import ElementTree

import msgspec
from msgspec import Struct

from api.analytics.charts.chart import ChartRefused
from api.analytics.charts.vega_lite import Spec

PictureForm: TypeAlias = Literal["svg", "png"]

SCALE = 2.0  # pixels of a PNG a pixel of the SVG
SPEC_BYTES_MAX = 4_000_000
_VERSION = "6.4"  # of Vega-Lite, as in the schema of the specification
_NO_CHARACTER = "\u0378"  # Unicode has assigned it to nothing, so it is drawn as what no font has
_PROBED_MAX, _NAMED_MAX = 400, 12


class Picture(Struct, frozen=True):
    """A rendered chart."""

    data: bytes
    warnings: tuple[str, ...] = ()


def render(spec: Spec, form: PictureForm) -> Picture:
    """Render a specification: the same bytes for the same one and the same fonts. Raises ChartRefused.

    Blocks, and holds the interpreter meanwhile: for a process of its own, not for a thread of a server.
    """
    import vl_convert  # 0.7 s to its first chart, and 34 GB of addresses: only where a picture is asked for

    source = msgspec.json.encode(spec).decode()
    if len(source) > SPEC_BYTES_MAX:
        raise ChartRefused(f"the chart has more than {SPEC_BYTES_MAX:,} bytes of data: group by something coarser")
    svg = vl_convert.vegalite_to_svg(source, vl_version=_VERSION, allowed_base_urls=[])
    if form == "svg":
        return Picture(svg.encode())
    text = "".join(ElementTree.fromstring(svg).itertext())  # noqa: S314 - written by the line above
    return Picture(vl_convert.svg_to_png(svg, scale=SCALE), _warnings(without_font(text)))


def without_font(text: str) -> str:
    """Return the characters that no font on this machine has, in order; the first hundreds are examined."""
    doubtful = sorted(sign for sign in set(text) if sign > "\xff" and unicodedata.category(sign)[0] not in "MZ")
    box = _drawn(_NO_CHARACTER) if doubtful else b""
    return "".join(sign for sign in doubtful[:_PROBED_MAX] if _drawn(sign) == box)


def _drawn(sign: str) -> bytes:
    import vl_convert

    return vl_convert.svg_to_png(
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="24" font-family="sans-serif" font-size="16">'
        f'<text x="4" y="18">{sign}</text></svg>'
    )


def _warnings(missing: str) -> tuple[str, ...]:
    if not missing:
        return ()
    named = missing if len(missing) <= _NAMED_MAX else missing[:_NAMED_MAX] + "…"
    return (
        f"no font on this machine has {named}, boxes stand for it: install one that does "
        "(for Chinese, fonts-noto-cjk), or take the SVG, whose text the viewer's fonts draw",
    )

"""From SVG to PNG, with a font of ours for European letters and the machine's for all others."""

import functools
import unicodedata
from pathlib import Path

import font_roboto
import resvg_py

SCALE = 2.0  # pixels of the PNG a pixel of the picture
_FONTS = [str(Path(font_roboto.font_directory) / name) for name in ("Roboto-Regular.ttf", "Roboto-Medium.ttf")]
_NO_CHARACTER = "\u0378"  # Unicode has assigned it to nothing, so it is drawn as what no font has
_PROBED_MAX = 400
_UNSEEN = ("M", "Z", "Cc", "Cf")  # categories of what has no place of its own: accents, blanks, orders


def png(svg: str) -> bytes:
    """The picture as a PNG.

    Blocks for some 100 ms, and holds the interpreter meanwhile: for a process of its own, not for a thread of a server.
    """
    return _rendered(svg, SCALE)


def without_font(characters: frozenset[str]) -> str:
    """Those that no font on this machine has, in order; the first hundreds are looked at."""
    doubtful = sorted(
        sign for sign in characters if ord(sign) > 0xFF and not unicodedata.category(sign).startswith(_UNSEEN)
    )
    return "".join(sign for sign in doubtful[:_PROBED_MAX] if not _has_font(sign))


@functools.lru_cache(maxsize=8_192)
def _has_font(sign: str) -> bool:
    return _probe(sign) != _probe(_NO_CHARACTER)


def _probe(sign: str) -> bytes:
    return _rendered(
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="24" font-family="Roboto" font-size="16">'
        f'<text x="4" y="18">{sign}</text></svg>',
        1.0,
    )


def _rendered(svg: str, zoom: float) -> bytes:
    return resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom, font_files=_FONTS, sans_serif_family="Roboto")

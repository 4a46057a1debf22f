"""Writing SVG: a sheet that marks are put on, whatever the texts contain."""

import re
import unicodedata
from html import escape

from msgspec import Struct

from api.analytics.pictures import style

_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_BLANKS = re.compile(r"\s+")
_DESCRIPTION_MAX = 4_000  # characters


class Drawing(Struct, frozen=True):
    """A finished picture."""

    svg: str
    characters: frozenset[str]
    """All that are to be seen: a font must have them."""


class Sheet:
    """What was drawn so far. Texts may be anybody's: nothing in them becomes markup."""

    def __init__(self) -> None:
        self._marks: list[str] = []
        self._texts: set[str] = set()

    def rectangle(
        self, x: float, y: float, width: float, height: float, *, fill: str, radius: float = 2.0, tells: str = ""
    ) -> None:
        """A filled rectangle; what it tells is shown under a pointer."""
        self._put(
            "rect", f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}"', fill, tells
        )

    def dot(self, x: float, y: float, radius: float, *, fill: str, tells: str = "") -> None:
        """A filled circle."""
        self._put("circle", f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"', fill, tells)

    def rule(self, x1: float, y1: float, x2: float, y2: float, *, stroke: str = style.GRID) -> None:
        """A thin straight line."""
        self._marks.append(f'<path d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" stroke="{stroke}" fill="none"/>')

    def path(self, points: list[tuple[float, float]], *, stroke: str, dashes: str) -> None:
        """A line through points."""
        steps = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._marks.append(
            f'<path d="M{steps}" stroke="{stroke}" stroke-width="2" stroke-linejoin="round"{dashed} fill="none"/>'
        )

    def text(
        self, x: float, y: float, text: str, *, size: float = style.TEXT, fill: str = style.INK, anchor: str = "start",
        strong: bool = False, clear: bool = False, tells: str = "",
    ) -> None:  # fmt: skip
        """One line of text; y is its base line. A clear one keeps what lies beneath it off its letters.

        What it tells is shown under a pointer where the text is not that itself.
        """
        shown = fit(text)
        self._texts.add(shown)
        font = f' font-family="{style.WIDE_FONTS}"' if any(_is_wide(sign) for sign in shown) else ""
        weight = ' font-weight="500"' if strong else ""
        if clear:
            weight += f' stroke="{style.PAPER}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"'
        place = f'x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" text-anchor="{anchor}" fill="{fill}"{weight}{font}'
        self._marks.append(f"<text {place}>{_title(tells) if tells != shown else ''}{escape(shown)}</text>")

    def finished(self, height: float, title: str, description: str) -> Drawing:
        """The whole document. The title and the description are read out where no picture can be seen."""
        size = f'width="{_n(style.WIDTH)}" height="{_n(height)}" viewBox="0 0 {_n(style.WIDTH)} {_n(height)}"'
        told = fit(description)
        if len(told) > _DESCRIPTION_MAX:
            told = told[: _DESCRIPTION_MAX - 1] + "…"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(fit(title))}" '
            f'font-family="{style.FONTS}">',
            _title(title),
            f"<desc>{escape(told)}</desc>",
            f'<rect width="{_n(style.WIDTH)}" height="{_n(height)}" fill="{style.PAPER}"/>',
        )
        return Drawing("\n".join((*head, *self._marks, "</svg>\n")), frozenset().union(*self._texts))

    def _put(self, element: str, place: str, fill: str, tells: str) -> None:
        inner = f">{_title(tells)}</{element}>" if tells else "/>"
        self._marks.append(f'<{element} {place} fill="{fill}"{inner}')


def fit(text: str) -> str:
    """A text in one line, without what XML cannot hold or what would turn the writing round."""
    return _UNFIT.sub("\ufffd", _BLANKS.sub(" ", text))


def width_of(text: str, size: float) -> float:
    """About how wide a text is, whatever font draws it."""
    return size * sum(_em(sign) for sign in text)


def elided(text: str, width: float, size: float) -> str:
    """A text that is not wider, with its middle left out where it must be: what tells names apart is at both ends."""
    text = fit(text)
    if width_of(text, size) <= width:
        return text
    room = width - width_of("…", size)
    head, tail = "", ""
    while True:
        start, end = text[len(head)], text[-len(tail) - 1]
        if width_of(head + start + tail, size) > room:
            return f"{head}…{tail}"
        head += start
        if width_of(head + end + tail, size) > room:
            return f"{head}…{tail}"
        tail = end + tail


def wrapped(text: str, width: float, size: float, lines_max: int) -> list[str]:
    """A text in lines that are not wider, broken where words or parts of ids end; the last one elided."""
    lines: list[str] = []
    rest = fit(text)
    while len(lines) < lines_max - 1 and width_of(rest, size) > width:
        end = _line_end(rest, width, size)
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*lines, elided(rest, width, size)]


def _line_end(text: str, width: float, size: float) -> int:
    end = 1
    while end < len(text) and width_of(text[: end + 1], size) <= width:
        end += 1
    breaks = [place for place in range(end // 3, end) if text[place] in " /_-.:›,"]
    return breaks[-1] + 1 if breaks else end


def _is_wide(sign: str) -> bool:
    return unicodedata.east_asian_width(sign) in "WF"


def _em(sign: str) -> float:
    if _is_wide(sign):
        return 1.0
    if sign in " .,:;'|!iljt()[]/":
        return 0.32
    return 0.68 if sign.isupper() or sign in "mw%@—…" else 0.56


def _title(text: str) -> str:
    return f"<title>{escape(fit(text))}</title>" if text else ""


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")

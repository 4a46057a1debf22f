"""What all pictures have around them: title, legend, axes, notes."""

from collections.abc import Sequence

from api.analytics.pictures import style
from api.analytics.pictures.reading import spoken
from api.analytics.pictures.saying import said
from api.analytics.pictures.svg import Sheet, elided, width_of, wrapped

_TITLE_LINES_MAX = 2
_NOTE_LINES_MAX = 3
_LABEL_SHARE_MAX = 0.36  # of the width, for names at the left


def head(sheet: Sheet, title: str, measure: str) -> float:
    """The title, and beneath it what is measured. Gives the y that is free."""
    y = style.MARGIN + 14
    for line in wrapped(title, style.WIDTH - 2 * style.MARGIN, style.TITLE, _TITLE_LINES_MAX):
        sheet.text(style.MARGIN, y, line, size=style.TITLE, strong=True, tells=title)
        y += 23
    if measure:
        measure = elided(measure, style.WIDTH - 2 * style.MARGIN, style.TEXT)
        sheet.text(style.MARGIN, y, measure, fill=style.FAINT)
        y += 18
    return y + 4


def measure_of(values: Sequence[str], unit: str) -> str:
    """What is measured, in words: the column, where it is one, with a unit that does not stand at each number."""
    words = spoken(values[0]) if len(values) == 1 else ""
    if unit in {"", "%", "s", words}:
        return words
    return f"{words} ({unit})" if words else unit


def legend(sheet: Sheet, y: float, names: Sequence[str], *, dashed: bool = False) -> float:
    """Which colour (and which dashes) are which series, in as many lines as it needs. Gives the y that is free."""
    sample = 26 if dashed else 11
    x, line = style.MARGIN, y + 6
    for place, name in enumerate(names):
        shown = elided(name, 220, style.TEXT)
        width = sample + 6 + width_of(shown, style.TEXT) + 22
        if x > style.MARGIN and x + width > style.WIDTH - style.MARGIN:
            x, line = style.MARGIN, line + 20
        if dashed:
            ends = [(x, line - 4.5), (x + sample, line - 4.5)]
            sheet.path(ends, stroke=style.SERIES[place], dashes=style.DASHES[place])
        else:
            sheet.rectangle(x, line - 10, sample, 11, fill=style.SERIES[place])
        sheet.text(x + sample + 6, line, shown, tells=name)
        x += width
    return line + 16


def label_width(names: Sequence[str]) -> float:
    """How much room names at the left need, up to a share of the picture."""
    widest = max((width_of(name, style.TEXT) for name in names), default=0.0)
    return min(widest + 4, style.WIDTH * _LABEL_SHARE_MAX)


def named(sheet: Sheet, x: float, middle: float, name: str, width: float, lines_max: int = 2) -> None:
    """A name at the left, in up to two lines about the middle of what it names."""
    lines = wrapped(name, width, style.TEXT, lines_max)
    first = middle + 4.5 - 7 * (len(lines) - 1)
    for number, line in enumerate(lines):
        sheet.text(x, first + 14 * number, line, tells=name)


def value_axis(
    sheet: Sheet, ticks: Sequence[float], places: Sequence[float], top: float, bottom: float, unit: str
) -> None:
    """Light vertical lines with round numbers beneath them; the one at zero is darker."""
    for tick, x in zip(ticks, places, strict=True):
        sheet.rule(x, top, x, bottom, stroke=style.AXIS if tick == 0 else style.GRID)
        sheet.text(x, bottom + 15, said(tick, unit), size=style.SMALL, fill=style.FAINT, anchor="middle")


def foot(sheet: Sheet, y: float, notes: Sequence[str]) -> float:
    """What the picture leaves out, in small print. Gives the height of the picture."""
    y += 6
    for note in notes:
        for line in wrapped(note, style.WIDTH - 2 * style.MARGIN, style.SMALL, _NOTE_LINES_MAX):
            sheet.text(style.MARGIN, y + 8, line, size=style.SMALL, fill=style.FAINT)
            y += 15
    return y + style.MARGIN - 10


def nothing(sheet: Sheet, y: float) -> float:
    """In place of marks, where there is nothing to show. Gives the y that is free."""
    sheet.rectangle(style.MARGIN, y, style.WIDTH - 2 * style.MARGIN, 72, fill=style.GHOST, radius=6)
    sheet.text(style.WIDTH / 2, y + 41, "Nothing to show: the table has no rows.", fill=style.FAINT, anchor="middle")
    return y + 84

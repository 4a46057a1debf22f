"""How wide a text will stand in a picture, without a font at hand: an estimate that errs on the wide side."""

import unicodedata

_NARROW = frozenset("iljtf.,:;!|'()[] I")
_BROAD = frozenset("mwMW@%")


def text_width(text: str) -> float:
    """The width of a text in em, after Unicode's East Asian Width (UAX #11)."""
    return sum(_advance(char) for char in text)


def _advance(char: str) -> float:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0.0
    if unicodedata.east_asian_width(char) in {"W", "F"}:
        return 1.0
    if char in _NARROW:
        return 0.36
    return 0.9 if char in _BROAD else 0.7 if char.isupper() else 0.61


def fit(text: str, width: float) -> str:
    """A text on one line, cut with … where it is wider than so many em."""
    line = " ".join(text.split())
    if text_width(line) <= width:
        return line
    left = width - 1.0  # the … itself
    for index, char in enumerate(line):
        left -= _advance(char)
        if left < 0:
            return line[:index].rstrip() + "…"
    return line

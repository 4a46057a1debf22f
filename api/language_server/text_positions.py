"""Positions in a text: offsets in characters, and the lines and columns of editors."""

import re
from bisect import bisect_right
from functools import lru_cache

from lsprotocol.types import Position, PositionEncodingKind, Range

from scripts.editing.text_parts import TEXTS_MAX

_LINE_END = re.compile(r"\r\n?|\n")
_MARK = "\ufeff"


def without_mark(text: str) -> str:
    """Return a text without a byte order mark."""
    return text.removeprefix(_MARK)


class TextPositions:
    """Converts positions of a text in which an editor counts columns in units of an encoding, and a byte order mark."""

    def __init__(self, text: str, encoding: PositionEncodingKind | str) -> None:
        self.text = without_mark(text)
        self._encoding = encoding
        self._mark_units = self._units(_MARK) if text.startswith(_MARK) else 0
        ends = [*_LINE_END.finditer(self.text)]
        self._starts = [0, *(each.end() for each in ends)]
        self._ends = [*(each.start() for each in ends), len(self.text)]
        self.lines = [self.text[start:end] for start, end in zip(self._starts, self._ends, strict=True)]

    def column(self, position: Position) -> int:
        """Return the column of a position in characters, at most the length of its line."""
        if position.line >= len(self._starts):
            return 0
        line = self.lines[position.line]
        units = position.character - (self._mark_units if position.line == 0 else 0)
        if line.isascii() or self._encoding == PositionEncodingKind.Utf32:
            return max(0, min(units, len(line)))
        for column, character in enumerate(line):
            if units <= 0:
                return column
            units -= self._units(character)
        return len(line)

    def offset(self, position: Position) -> int:
        """Return the offset of a position, at most the length of the text."""
        if position.line >= len(self._starts):
            return len(self.text)
        return self._starts[position.line] + self.column(position)

    def at(self, line: int, column: int) -> int:
        """Return the offset of a line and column in characters, both from 0, as far as the text has them."""
        line = max(0, min(line, len(self._starts) - 1))
        return min(self._starts[line] + max(0, column), self._ends[line])

    def range(self, start: int, end: int) -> Range:
        """Return the range between two offsets."""
        return Range(self._position(start), self._position(end))

    def _position(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset) - 1
        units = self._units(self.text[self._starts[line] : offset])
        return Position(line, units + (self._mark_units if line == 0 else 0))

    def _units(self, text: str) -> int:
        if self._encoding == PositionEncodingKind.Utf8:
            return len(text.encode("utf-8", "surrogatepass"))
        if self._encoding == PositionEncodingKind.Utf32 or text.isascii():
            return len(text)
        return len(text.encode("utf-16-le", "surrogatepass")) // 2


@lru_cache(maxsize=TEXTS_MAX)
def positions_in(text: str, encoding: PositionEncodingKind | str) -> TextPositions:
    """Return the positions of a text; those of the last texts are cached, as most requests are about the same."""
    return TextPositions(text, encoding)

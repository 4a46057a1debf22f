"""Texts in which a mark stands for the cursor of an editor."""

from textwrap import dedent
from typing import NamedTuple

CURSOR = "¦"


class Cursor(NamedTuple):
    """A text without its mark, and where the mark was: as an offset, and as the index of a line and a column."""

    text: str
    offset: int
    line: int
    column: int

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


def cursor(marked: str) -> Cursor:
    """Return the text and the position of the mark."""
    before, after = dedent(marked).split(CURSOR)
    return Cursor(before + after, len(before), before.count("\n"), len(before) - before.rfind("\n") - 1)

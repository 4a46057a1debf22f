"""Changes of the text that correct a problem, as far as its fix leaves no doubt."""

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from scripts.expressions.suggestions import likeness
from scripts.model.diagnostics import Problem

_LINE_END = re.compile(r"\r\n?|\n")
_FIX = re.compile(
    r"Did you mean `([^`]+)`\?|Write (\{\{ \S+ \}\})\.|Write a plain '(..?)' instead\."
    r"|Write `(=?[\w.]+)`(?: instead| for the value of the variable| if a person is to take over)\."
)
_QUOTED = re.compile(r"`([^`]+)`|'([^']+)'|(\{\w+\})|(?<=full-width )(\S)")


class Patch(Struct, frozen=True):
    """A part of a line, and what to write in its place; line and column count from 1, in characters."""

    line: int
    column: int
    written: str
    text: str


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, as problems count them."""
    return _LINE_END.split(text)


def patch_of(problem: Problem, lines: Sequence[str]) -> Patch | None:
    """Return the change of a text's lines that corrects its problem; None if the fix leaves a choice, or if the message
    does not name the part that it is about.
    """
    fix = _FIX.fullmatch(problem.fix)
    if fix is None or problem.line > len(lines):
        return None
    meant, line, column = fix[fix.lastindex or 0], lines[problem.line - 1], problem.column
    quoted = [each[each.lastindex or 0] for each in _QUOTED.finditer(problem.message)]
    named = quoted or re.findall(r"[\w/.-]+$", problem.message)  # such as `unknown role giude`
    written = [*named, *(f"{holder}.{member}" for holder, member in pairwise(named))]
    for word in sorted(written, key=lambda word: -likeness(word, meant)):
        edge = r"\b" if word[0].isalnum() else ""
        places = [found.start() + 1 for found in re.finditer(f"{edge}{re.escape(word)}{edge}", line)]
        near = [place for place in places if place - column in {0, 1}]  # 1: after a quote
        if word != meant and len(near or places) == 1:
            return Patch(problem.line, (near or places)[0], word, meant)
    return None

"""The names of variables and of places in the sources of expressions and templates, with their ranges."""

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from scripts.expressions.expressions import is_reserved
from scripts.expressions.members import KINDS
from scripts.expressions.time_values import PLACES

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\W\d]\w*|\d[\w.]*|==|[^\s\w]", re.DOTALL)
_REGION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x..|u.{4}|U.{8}|.)", re.DOTALL)
_LOCAL = re.compile(r"\bfor\s+([^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*)\s+in\b")
_NO_VARIABLES = frozenset({"for", "endfor", "elif", "endif", "as", *KINDS})  # `as` is that of `foreach: list as item`

SourceName: TypeAlias = tuple[Literal["variable", "target"], str, int, int]
"""What a source names, the name, and its range."""


def names_in_text(written: str) -> Iterator[SourceName]:
    """Yield the names in the placeholders of a scalar, as it is written in a file, with its quotes and escapes."""
    plain = _without_escapes(written)
    local = {name for found in _LOCAL.finditer(plain) for name in re.findall(r"\w+", found[1])}
    for region in _REGION.finditer(plain):
        yield from (each for each in _names(plain, region.start() + 2, region.end() - 2) if each[1] not in local)


def names_in_expression(written: str) -> Iterator[SourceName]:
    """Yield the names in a scalar that is an expression, with or without `=` at its beginning."""
    yield from _names(_without_escapes(written), 0, len(written))


def _without_escapes(written: str) -> str:
    """Return a scalar of the same length without its quotes, in which escapes are blank, and escaped quotes quotes."""
    if written.startswith('"'):
        inner = _ESCAPE.sub(lambda found: ('"' if found[0] == '\\"' else " ").rjust(len(found[0])), written[1:-1])
    elif written.startswith("'"):
        inner = written[1:-1].replace("''", " '")
    else:
        return written
    return f" {inner} "


def _names(source: str, start: int, end: int) -> Iterator[SourceName]:
    found = list(_TOKEN.finditer(source, start, end))
    words = ["", "", *(each[0] for each in found), ""]
    for index, token in enumerate(found):
        earlier, before, word, after = words[index : index + 4]
        if word[0] in "\"'":
            inner = (word[1:-1], token.start() + 1, token.end() - 1)
            if before == "(" and earlier in PLACES:
                yield ("target", *inner)
            elif before == "[" and earlier == "vars":
                yield ("variable", *inner)
        elif word.isidentifier() and _is_variable(earlier, before, word, after):
            yield ("variable", word, token.start(), token.end())


def _is_variable(earlier: str, before: str, word: str, after: str) -> bool:
    """Return whether a word is no member, filter, test, function, argument's name, or part of the language."""
    is_test = before == "is" or (earlier == "is" and before == "not")
    is_argument = after == "=" and before in {"(", ","}
    is_syntax = is_reserved(word) or word in _NO_VARIABLES
    return not (before in {".", "|"} or is_test or is_argument or after == "(" or is_syntax)

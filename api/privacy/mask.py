"""Takes the values of personal variables out of what is shown: of values by their names, of texts where they occur."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runtime.scopes import CELLS_MAX
from scripts.values import Value
from store.masking import HIDDEN

CHARS_MIN = 2
"""Shorter spellings stay where they occur in texts: a single letter or digit tells of nobody, and is everywhere."""
SPELLINGS_MAX = CELLS_MAX
"""Of a session with more different values all texts are hidden."""

_SPACED = "0-9A-Za-z\u00c0-\u052f"  # letters of scripts that put spaces between words, and do not join others to them


class Mask:
    """The personal variables of a session, and every value that they had."""

    def __init__(self, names: frozenset[str], values: Iterable[tuple[str, Value]]) -> None:
        self.names = names
        spelt: dict[str, str] = {}
        for spelling, name in ((each, name) for name, value in values for each in spellings(value)):
            spelt.setdefault(spelling, name)
            if len(spelt) > SPELLINGS_MAX:
                break
        self._is_full = len(spelt) > SPELLINGS_MAX
        self._names_by_spelling = {_plain(spelling): name for spelling, name in reversed(spelt.items())}
        longest_first = sorted(spelt, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_pattern, longest_first)), re.IGNORECASE) if longest_first else None

    def text(self, text: str) -> str:
        """A text with the names of variables, in brackets, in the place of their values."""
        if self._is_full:
            return HIDDEN if text else ""
        return text if self._pattern is None else self._pattern.sub(self._named, text)

    def value(self, value: Value) -> Value:
        """A value of anything else: without those it was made of, as far as they are still to be seen in it."""
        match value:
            case str():
                return self.text(value)
            case bool() | None:
                return value
            case int() | float() if self._is_full:
                return HIDDEN
            case int() | float():
                name = next((found for each in spellings(value) if (found := self._names_by_spelling.get(each))), None)
                return value if name is None else named(name)
            case list():
                return [self.value(item) for item in value]
            case dict():
                return self.fields(value)

    def fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Values by names, of which some may be those of personal variables."""
        return {name: self.variable(name, value) for name, value in fields.items()}

    def variable(self, name: str, value: Value) -> Value:
        """The value of a variable; that one is set may be seen."""
        if name in self.names:
            return None if value is None else named(name)
        return self.value(value)

    def tells(self, text: str, value: Value) -> bool:
        """Whether every part of a value occurs in a text as it is spelt, so that the text is without it once masked."""
        if isinstance(value, bool):
            return False
        if isinstance(value, list | dict):
            return all(self.tells(text, each) for each in (value.values() if isinstance(value, dict) else value))
        return any(re.search(_pattern(each), text, re.IGNORECASE) for each in spellings(value))

    def _named(self, match: re.Match[str]) -> str:
        name = self._names_by_spelling.get(_plain(match.group()))
        return HIDDEN if name is None else named(name)  # a few letters are equal in either case, and yet have two


def named(name: str) -> str:
    """What stands in the place of a variable's value."""
    return f"[{name}]"


def spellings(value: Value) -> Iterator[str]:
    """How the parts of a value are written in texts, as far as those are long enough to be known again."""
    match value:
        case list():
            for item in value:
                yield from spellings(item)
        case dict():
            for item in value.values():
                yield from spellings(item)
        case str():
            yield from _long_enough(value.strip())
        case float() if value.is_integer():
            yield from _long_enough(str(int(value)))
            yield from _long_enough(str(value))
        case bool() | None:
            pass
        case _:
            yield from _long_enough(str(value))


def _long_enough(spelling: str) -> Iterator[str]:
    if len(spelling) >= CHARS_MIN:
        yield spelling


def _plain(spelling: str) -> str:
    return " ".join(spelling.lower().split())


def _pattern(spelling: str) -> str:
    """A spelling with whatever space between its words, and where it is of letters that have spaces around words, only
    as a whole word.
    """
    words = r"\s+".join(map(re.escape, spelling.split()))
    before = f"(?<![{_SPACED}])" if re.match(f"[{_SPACED}]", spelling[0]) else ""
    after = f"(?![{_SPACED}])" if re.match(f"[{_SPACED}]", spelling[-1]) else ""
    return before + words + after

"""Suggestions for misspelt words."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

LISTED_MAX = 20
SURE = 0.8  # similarity of two words that differ in one letter
_CLOSE = 0.75  # least similarity of a word and the one that is suggested for it
_CLOSE_START = 0.65  # of words with the same first letter, which is seldom wrong
_CLOSE_SHORT = 0.6  # of words with at most four letters, which one wrong letter changes more
_OPPOSITES = ({"entry", "exit"}, {"min", "max"}, {"start", "end"}, {"before", "after"})
_NO_COLON = re.compile(r"(?P<key>[^\W\d]\w*)(?:\s*(?P<sign>[:;=])\s*|\s+)(?P<value>\S.*)")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@cache
def _synonyms() -> Mapping[str, str]:
    """Return common names of other tools, by the corresponding word of this language."""
    return msgspec.yaml.decode(Path(__file__).with_name("synonyms.yaml").read_text("utf-8"), type=dict[str, str])


def suggest(word: str, allowed: Sequence[str], otherwise: str | None = None, *, used: Collection[str] = ()) -> str:
    """Return ``Did you mean `x`?`` for a similar word that is not `used` already, otherwise `otherwise` or the allowed
    words.
    """
    plain = snake_case(word)
    synonyms = [each for each, words in _synonyms().items() if each in allowed and plain in words.split()]
    same = [each for each in allowed if each != word and each.casefold() == plain]
    others = [each for each in allowed if not _is_opposite(plain, each)]
    close = synonyms[:1] or same or _closest(word, others) or _closest(plain, others)
    if close and close[0] not in used:
        return f"Did you mean `{close[0]}`?"
    if otherwise is not None:
        return otherwise
    names = ", ".join(f"`{name}`" for name in sorted(allowed)[:LISTED_MAX])
    more = f" and {len(allowed) - LISTED_MAX} more" if len(allowed) > LISTED_MAX else ""
    return f"Use one of {names}{more}." if names else ""


def _is_opposite(word: str, other: str) -> bool:
    """Return whether two keys differ in opposite words: `exit_condition` and `entry_condition`."""
    return set(word.split("_")) ^ set(other.split("_")) in _OPPOSITES


def stands_for(written: str, name: str) -> bool:
    """Return whether an unknown key is probably this name: misspelt, or without the colon before its value."""
    return re.split(r"[\s:：;=]", written)[0] == name or bool(suggest(written, [name], ""))


def colon_fix(written: str, names: Collection[str], *, is_list: bool = False) -> str:
    """Return the fix for one of these names with another sign than a colon and a space before its value, or an empty
    text. In a list, a text without a sign may be the rest of the item before it, unless it is one word.
    """
    found = _NO_COLON.fullmatch(written)
    if found is None or found["key"] not in names or (is_list and not found["sign"] and " " in found["value"]):
        return ""
    return f"Write a colon and a space after `{found['key']}`: `{found['key']}: {found['value']}`."


def _closest(word: str, allowed: Sequence[str]) -> list[str]:
    least = _CLOSE if len(word) > 4 else _CLOSE_SHORT
    if swapped := [each for each in allowed if each != word and sorted(each) == sorted(word)]:
        return swapped[:1]
    alike = [each for each in allowed if each[:1] == word[:1]]
    if len(word) == 2 and not word.isascii() and (found := [each for each in alike if len(each) == 2]):
        return found[:1]  # of two characters, the second may be wrong
    return difflib.get_close_matches(word, allowed, 1, least) or difflib.get_close_matches(word, alike, 1, _CLOSE_START)


def snake_case(word: str) -> str:
    """Return a word of any casing (`maxRounds`, `Max-Rounds`, `max rounds`) as the keys of scripts are written."""
    return re.sub(r"[\s-]+", "_", _HUMP.sub("_", word.strip())).casefold()


def likeness(one: str, other: str) -> float:
    """Return the similarity of two words, from 0 to 1."""
    return difflib.SequenceMatcher(None, one, other).ratio()


def resembles(word: str, names: Iterable[str]) -> bool:
    """Return whether a word is one of these names, or a misspelling of one that differs in a letter or so."""
    return any(likeness(word, each) >= SURE for each in names)

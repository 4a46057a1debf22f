"""Detection of duplicates, and the validity of units over time.

A similar unit is never deleted: a duplicate keeps its row and names the earlier unit. Only an explicit correction
(`superseded_by`) ends the validity of a unit; `holds_at` tests the validity at a time.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import regex

from runtime.memory.units import MemoryUnit

NEAR_WORDS = 0.9  # the share of words that two units have in common
WORDS_MIN = 5  # shorter units are duplicates only if they are equal

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]|[^\W_\u3040-\u9fff\uac00-\ud7af]+")
_NUMBER = re.compile(r"\d+|[一二三四五六七八九十百千万两]+")
_SIGN = regex.compile(r"[\p{Sm}\p{Sc}\p{So}%#&@]|(?<![\w-])-(?=\d)|(?<=\d)[.,:/](?=\d)")
"""Signs that change the meaning of words, as in C++, -5, 1.5, 5 %, $5; and emoji."""

Links = Mapping[str, str]
"""The earlier unit that says the same, by unit; the earlier unit is itself no duplicate."""


def words_of(text: str) -> list[str]:
    """Return the words of a text in order, without case, width and punctuation; a CJK character is a word."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


_NEGATIONS = frozenset(
    words_of(
        "not no never none nobody nothing neither nor without cannot t nicht nein kein keine keinen keinem keiner nie "
        "niemals ohne pas ne non jamais sans ni nunca sin nada não sem mai senza niet geen nooit не нет ни никогда без "
        "不没無无非别未莫勿"
    )
)
"""`t` comes from don't."""


def signs_of(text: str) -> str:
    """Return the signs in a text that change the meaning of its words, in order."""
    return "".join(_SIGN.findall(unicodedata.normalize("NFKC", text)))


def wording_of(unit: MemoryUnit) -> tuple[str, str, str] | None:
    """Return the key that exact duplicates share: source, words and signs; None for a unit without words."""
    words = " ".join(words_of(unit.content))
    return (unit.source, words, signs_of(unit.content)) if words else None


def exact_duplicates(units: Sequence[MemoryUnit]) -> Links:
    """Return the units with the same source and words as an earlier one, with that unit; `units` are oldest first."""
    first: dict[tuple[str, str, str], str] = {}
    links: dict[str, str] = {}
    for unit in units:
        wording = wording_of(unit)
        earlier = unit.unit_id if wording is None else first.setdefault(wording, unit.unit_id)
        if earlier != unit.unit_id:
            links[unit.unit_id] = earlier
    return links


def near_duplicates(units: Sequence[MemoryUnit], *, begin: int = 0) -> Links:
    """Return the units, from index `begin` on, that nearly repeat an earlier one of the same source, with that unit.

    `units` are oldest first. The words they share decide. Units with different numbers, signs or negations are never
    duplicates.
    """
    links: dict[str, str] = {}
    for later, earlier in sorted(_pairs(units, begin)):
        found = units[earlier]
        if _decisive(found.content) != _decisive(units[later].content):
            continue
        original = links.get(found.unit_id) or found.duplicate_of or found.unit_id
        links.setdefault(units[later].unit_id, original)
    return links


def _decisive(text: str) -> tuple[Counter[str], str]:
    """Return what distinguishes texts with nearly the same words: numbers and negations, and signs."""
    found = Counter(_NUMBER.findall(unicodedata.normalize("NFKC", text)))
    found.update(word for word in words_of(text) if word in _NEGATIONS)
    return found, signs_of(text)


def holds_at(unit: MemoryUnit, moment: datetime) -> bool:
    """Return whether a unit was valid at a moment: from its time on, until it was superseded."""
    since = unit.creation_time if unit.valid_from is None else unit.valid_from
    return since <= moment and (unit.valid_to is None or moment < unit.valid_to)


def _pairs(units: Sequence[MemoryUnit], begin: int) -> list[tuple[int, int]]:
    """Return pairs of indices of units that share enough words, the later one first.

    Two sets that share that many words share one of their few rarest words; only such pairs are compared (Chaudhuri,
    Ganti & Kaushik 2006, prefix filtering).
    """
    sets = [frozenset(words_of(unit.content)) for unit in units]
    counts = Counter(word for words in sets for word in words)
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    pairs: list[tuple[int, int]] = []
    for place, words in enumerate(sets):
        if len(words) < WORDS_MIN:
            continue
        shared_min = math.ceil(NEAR_WORDS * len(words))
        rarest = sorted(words, key=lambda word: (counts[word], word))[: len(words) - shared_min + 1]
        keys = [(units[place].source, word) for word in rarest]
        for other in {other for key in keys for other in places[key]} if place >= begin else ():
            if len(words & sets[other]) >= NEAR_WORDS * len(words | sets[other]):
                pairs.append((place, other))
        for key in keys:
            places[key].append(place)
    return pairs

"""Estimate measures of a message from signal words and the modifiers near them.

A message is split into clauses. Within a clause, the words shortly before a sign weaken (`a bit`, 有点), strengthen
(`very`, 特别) or negate it (`not`, 没什么); signs before a contrast (`but`, 但是) have less weight than those after
it.
The scheme is the usual one of lexicon methods (negation, degree, contrast; see VADER, Hutto and Gilbert 2014), with a
longest match instead of a tokeniser, because Chinese has no spaces.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, structs

from scripts.detectors.words import fold
from scripts.model.detectors import Measure, Sign

CHARS_MAX = 4_000  # characters of a message that are analysed
REACH = {True: 6, False: 24}  # distance in characters at which a modifier applies, in Chinese and otherwise
STRONGER, WEAKER = 1.35, 0.55
TURNED, GONE = -0.7, -1.0  # "not good" is weaker than the opposite of good; "no hope" is the full opposite
SPARED = -0.4  # "not sad" does not mean happy
DAMPED = 0.5  # negation of a measure without an opposite
BEFORE_CONTRAST = 0.35
_CLAUSE = re.compile(r"[,.;!?:…~。，！？；：、\n]+")
_LATIN = re.compile(r"[a-z0-9']")


class Estimate(Struct, frozen=True):
    """The value of each measure with a sign in a message, and the label of the strongest sign."""

    values: Mapping[str, float]
    label: str = ""


class _Entry(Struct, frozen=True):
    """The meaning of a word: the kind of a particle, or a sign with its values by measure."""

    word: str
    kind: str
    values: Mapping[str, float] = {}
    label: str = ""
    also: str = ""  # its kind of particle directly before another sign: 好 in 好累


class _WordMatch(Struct, frozen=True):
    """A word and its position in the clause."""

    start: int
    end: int
    entry: _Entry


class Vocabulary:
    """The words of a detector, indexed for the search in texts."""

    def __init__(self, measures: tuple[Measure, ...], signs: tuple[Sign, ...]) -> None:
        self.measures = {measure.name: measure for measure in measures}
        entries = {fold(word): _Entry(fold(word), kind) for word, kind in particles().items()}
        for word, feeling in feelings().items() if any(each.lexicon for each in measures) else ():
            both = {"valence": feeling.valence, "arousal": feeling.arousal}
            values = {each.name: each.within(both[each.lexicon]) for each in measures if each.lexicon}
            entries[fold(word)] = _Entry(fold(word), "sign", values)
        for sign in signs:
            for word in filter(None, map(fold, sign.words)):
                known = entries.get(word)
                values = {**(known.values if known is not None else {}), **sign.values}
                entries[word] = _Entry(word, "sign", values, sign.label)
        also = {fold(word): kind for word, kind in particles().items() if kind in {"stronger", "weaker"}}
        entries = {word: structs.replace(each, also=also.get(word, "")) for word, each in entries.items()}
        self._by_first: dict[str, list[_Entry]] = {}
        for entry in sorted(entries.values(), key=lambda each: -len(each.word)):
            self._by_first.setdefault(entry.word[0], []).append(entry)

    def find_words(self, clause: str) -> Iterator[_WordMatch]:
        """Yield the known words of a clause, the longest at each position."""
        at = 0
        while at < len(clause):
            inside = at > 0 and _LATIN.match(clause[at]) and _LATIN.match(clause[at - 1])
            known = () if inside else self._by_first.get(clause[at], ())
            found = next((entry for entry in known if _is_at(clause, at, entry)), None)
            if found is None:
                at += 1
                continue
            yield _WordMatch(at, at + len(found.word), found)
            at += len(found.word)


def _is_at(clause: str, at: int, entry: _Entry) -> bool:
    end = at + len(entry.word)
    if not clause.startswith(entry.word, at):
        return False
    return not (end < len(clause) and _LATIN.match(clause[end - 1]) and _LATIN.match(clause[end]))


_MarkedSign: TypeAlias = tuple[_WordMatch, list[_WordMatch]]
"""A sign with the particles before it."""


class _WeightedValues(Struct):
    """The values so far: by measure, pairs of value and weight."""

    vocabulary: Vocabulary
    values: dict[str, list[tuple[float, float]]]
    labels: list[tuple[float, str]]


def estimate(vocabulary: Vocabulary, text: str) -> Estimate:
    """Estimate each measure of a message; a measure without a sign is left out."""
    weighed = _WeightedValues(vocabulary, {}, [])
    for clause in _CLAUSE.split(fold(text[:CHARS_MAX])):
        _read_clause(weighed, clause)
    values = {}
    for name, pairs in weighed.values.items():
        total = sum(weight for _, weight in pairs)
        values[name] = round(vocabulary.measures[name].within(sum(v * w for v, w in pairs) / total), 4)
    strongest = max(weighed.labels, key=lambda each: each[0], default=(0.0, ""))
    return Estimate(values, strongest[1])


def _read_clause(weighed: _WeightedValues, clause: str) -> None:
    around: list[_WordMatch] = []  # the particles since the last sign
    last: _MarkedSign | None = None
    found = list(weighed.vocabulary.find_words(clause))
    for seen, following in itertools.zip_longest(found, found[1:]):
        leads = following is not None and following.entry.kind == "sign" and following.start == seen.end
        if leads and seen.entry.kind == "sign" and seen.entry.also:
            around.append(_WordMatch(seen.start, seen.end, _Entry(seen.entry.word, seen.entry.also)))
        elif seen.entry.kind == "sign":
            _weigh(weighed, last, [], clause)
            last, around = (seen, around), []
        elif seen.entry.kind == "contrast":
            _weigh(weighed, last, around, clause)
            last, around = None, []
            for pairs in weighed.values.values():
                pairs[:] = [(value, weight * BEFORE_CONTRAST) for value, weight in pairs]
            weighed.labels[:] = [(weight * BEFORE_CONTRAST, label) for weight, label in weighed.labels]
        elif seen.entry.kind != "nothing":
            around.append(seen)
    _weigh(weighed, last, around, clause)


def _weigh(weighed: _WeightedValues, sign: _MarkedSign | None, after: list[_WordMatch], clause: str) -> None:
    """Add a sign, modified by the particles before it; particles of degree also apply after it (压力有点大)."""
    if sign is None:
        return
    seen, before = sign
    near = _near(seen, before, clause)
    near += [each for each in _near(seen, after, clause) if each in {"stronger", "weaker"}]
    factor = STRONGER ** near.count("stronger") * WEAKER ** near.count("weaker")
    denials = near.count("negator") + near.count("absence")
    denied = denials % 2 == 1
    turned = GONE if "absence" in near else TURNED
    strongest = 0.0
    for name, value in seen.entry.values.items():
        measure = weighed.vocabulary.measures.get(name)
        if measure is None:
            continue
        change = _negation_factor(measure, value, turned) * min(factor, 1.0) if denied else factor
        found = measure.within(measure.neutral + (value - measure.neutral) * change)
        weighed.values.setdefault(name, []).append((found, 0.2 + measure.strength(found)))
        strongest = max(strongest, measure.strength(found))
    if seen.entry.label and not denied:
        weighed.labels.append((strongest, seen.entry.label))


def _near(seen: _WordMatch, around: list[_WordMatch], clause: str) -> list[str]:
    """Return the kinds of the particles that apply to a sign, each within reach of the next."""
    reach = REACH[not clause[seen.start].isascii()]
    near: list[str] = []
    edge = seen
    for other in sorted(around, key=lambda each: abs(each.start - seen.start)):
        first, second = sorted((edge, other), key=lambda each: each.start)
        if second.start - first.end > reach:
            break
        near.append(other.entry.kind)
        edge = other
    return near


def _negation_factor(measure: Measure, value: float, turned: float) -> float:
    """Return the factor of a negated sign's distance from neutral."""
    if not measure.min < measure.neutral < measure.max:
        return DAMPED
    return turned if value > measure.neutral else SPARED


# -- the words of `words.txt` ----------------------------------------------------------------------------------------


_WORDS = Path(__file__).with_name("words.txt")
_PARTICLES = {"stronger", "weaker", "negator", "absence", "contrast", "nothing"}


class LexiconEntry(Struct, frozen=True):
    """Valence (-1 to 1) and arousal (0 to 1) of a word."""

    valence: float
    arousal: float


@cache
def feelings() -> Mapping[str, LexiconEntry]:
    """Return every word for a feeling."""
    found = {}
    for head, word in _listed_words():
        kind, *numbers = head.split()
        if kind == "feeling":
            found[word] = LexiconEntry(float(numbers[0]), float(numbers[1]))
    return found


@cache
def particles() -> Mapping[str, str]:
    """Return the modifiers with their kind; a word in two sections has the kind of the later one."""
    return {word: head for head, word in _listed_words() if head in _PARTICLES}


def _listed_words() -> Iterator[tuple[str, str]]:
    """Yield section and word, in the order of the file."""
    head = ""
    for line in _WORDS.read_text("utf-8").splitlines():
        if line.startswith("["):
            head = line.strip("[]")
        elif line.startswith("zh: "):
            yield from ((head, word) for word in line[4:].split())
        elif line.startswith("en: "):
            yield from ((head, word.strip()) for word in line[4:].split(","))

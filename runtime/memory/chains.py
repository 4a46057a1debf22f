"""Chains of search results: each hit with its neighbours, as ranges of the conversation that contains it.

A chain never leaves its group, and no unit is in two chains. Neighbours have their own budget: they are added after
the hits are ranked, the best chain's first, and never replace a hit (`recall_context` of MemForest).
`recall_of` returns them as a session receives them.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from runtime.memory.units import MemoryUnit
from runtime.state.recall_types import Neighbour, RecalledUnit, RecallResult

CONTEXT_UNITS_MAX = 50
CONTEXT_CHARS_MAX = 20_000


class Hit(Struct, frozen=True):
    """A unit in a search result, with its score."""

    sequence: int
    score: float


class Chain(Struct, frozen=True, kw_only=True):
    """Units of one group, in order: hits and their neighbours."""

    group_id: str
    sequences: tuple[int, ...]
    hits: tuple[Hit, ...]  # the units that were found, the best first

    @property
    def score(self) -> float:
        """Return the score of the best hit."""
        return self.hits[0].score


class Around(Struct, frozen=True, kw_only=True):
    """How many neighbours of a hit are returned with it."""

    units: int = 1  # number before and number after each hit; 0: each hit is a chain of its own
    context_units_max: int = CONTEXT_UNITS_MAX  # neighbours of all chains together
    context_chars_max: int = CONTEXT_CHARS_MAX


ALONE = Around(units=0)


def chains_of(
    hits: Sequence[Hit],
    group_of: Mapping[int, str],
    order: Mapping[str, Sequence[int]],
    *,
    k: int,
    around: Around = ALONE,
    excluded: Collection[int] = (),
    chars_of: Callable[[int], int] = lambda sequence: 0,
) -> list[Chain]:
    """Return at most k chains, the best first; chains that overlap or touch are merged.

    No hit is in two chains. `order` has the messages of each group that still exist, oldest first; a hit that is not in
    it, such as a summary, is a chain of its own. `excluded` units are never returned, neither as hits nor as
    neighbours.
    """
    spans: list[_Span] = []
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.sequence)):
        if hit.sequence in excluded:
            continue
        new = _span(hit, group_of[hit.sequence], order, around.units)
        merged = [each for each in spans if around.units and _touch(each, new)]
        if len(spans) - len(merged) == k:
            break
        for each in merged:
            spans.remove(each)
        spans.append(_join([*merged, new]))
    ranked = sorted(spans, key=lambda span: (-span.hits[0].score, span.hits[0].sequence))
    return _within(ranked, order, around, excluded, chars_of)


class _Span(Struct, frozen=True):
    """A range of a group's order, from `begin` up to but excluding `end`; both are 0 for a hit outside the order."""

    group_id: str
    begin: int
    end: int
    hits: tuple[Hit, ...]


def _span(hit: Hit, group_id: str, order: Mapping[str, Sequence[int]], units: int) -> _Span:
    sequences = order.get(group_id, ())
    place = bisect_left(sequences, hit.sequence)
    if place == len(sequences) or sequences[place] != hit.sequence:
        return _Span(group_id, 0, 0, (hit,))
    return _Span(group_id, max(place - units, 0), min(place + units + 1, len(sequences)), (hit,))


def _touch(one: _Span, other: _Span) -> bool:
    if one.group_id != other.group_id or not one.end or not other.end:
        return False
    return one.begin <= other.end and other.begin <= one.end


def _join(spans: Sequence[_Span]) -> _Span:
    hits = sorted((hit for each in spans for hit in each.hits), key=lambda hit: (-hit.score, hit.sequence))
    begin, end = min(each.begin for each in spans), max(each.end for each in spans)
    return _Span(spans[0].group_id, begin, end, tuple(hits))


def _within(
    spans: Sequence[_Span],
    order: Mapping[str, Sequence[int]],
    around: Around,
    excluded: Collection[int],
    chars_of: Callable[[int], int],
) -> list[Chain]:
    """Return the ranges as chains, with as many neighbours as the budget allows, the nearest ones of each first."""
    units_left, chars_left = around.context_units_max, around.context_chars_max
    chains: list[Chain] = []
    for span in spans:
        selected = {hit.sequence for hit in span.hits}
        sequences = order.get(span.group_id, ())[span.begin : span.end]
        places = [place for place, sequence in enumerate(sequences) if sequence in selected]
        beside = [place for place in range(len(sequences)) if place not in places]
        for place in sorted(beside, key=lambda place: (min(abs(place - hit) for hit in places), place)):
            chars = chars_of(sequences[place])
            if sequences[place] not in excluded and units_left and chars <= chars_left:
                selected.add(sequences[place])
                units_left -= 1
                chars_left -= chars
        chains.append(Chain(group_id=span.group_id, sequences=tuple(sorted(selected)), hits=span.hits))
    return chains


# -- results ----------------------------------------------------------------------------------------------------------


_NO_SIGNALS: Mapping[str, float] = {}


def recall_of(
    chains: Sequence[Chain], units: Mapping[int, MemoryUnit], signals: Mapping[int, Mapping[str, float]]
) -> RecallResult:
    """Return the hits of chains, each with the neighbours nearest to it; `units` and `signals` are by sequence."""
    found: list[RecalledUnit] = []
    for chain in chains:
        beside = _beside(chain)
        for hit in chain.hits:
            unit = units[hit.sequence]
            found.append(
                RecalledUnit(
                    unit_id=unit.unit_id,
                    text=unit.content,
                    source=unit.source,
                    trust=unit.trust,
                    created_at=unit.creation_time,
                    score=hit.score,
                    signals=signals.get(hit.sequence, _NO_SIGNALS),
                    group_id=unit.group_id,
                    metadata=unit.metadata,
                    around=tuple(_neighbour(units[each], hit.sequence) for each in beside[hit.sequence]),
                )
            )
    return RecallResult(units=tuple(sorted(found, key=lambda unit: -unit.score)))


def _beside(chain: Chain) -> dict[int, list[int]]:
    """Return the neighbours of each hit, in order."""
    place = {sequence: number for number, sequence in enumerate(chain.sequences)}
    beside: dict[int, list[int]] = {hit.sequence: [] for hit in chain.hits}
    for sequence in chain.sequences:
        if sequence not in beside:
            nearest = min(beside, key=lambda hit: (abs(place[hit] - place[sequence]), hit))
            beside[nearest].append(sequence)
    return beside


def _neighbour(unit: MemoryUnit, hit: int) -> Neighbour:
    return Neighbour(
        unit_id=unit.unit_id,
        text=unit.content,
        source=unit.source,
        created_at=unit.creation_time,
        is_before=unit.sequence < hit,
    )

"""What is given back of what was found: each hit with its neighbours, as stretches of the conversation it stands in.

A chain never leaves its group, and no unit stands in two chains. Neighbours have a budget of their own: they are taken
once the hits are ranked, the best chain's first, and never in place of a hit (seed 000, `recall_context`).
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

CONTEXT_UNITS_MAX = 50
CONTEXT_CHARS_MAX = 20_000


class Hit(Struct, frozen=True):
    """A unit that was found, and how well it fits."""

    sequence: int
    score: float


class Chain(Struct, frozen=True, kw_only=True):
    """Units of one group, in order: hits and what stands beside them."""

    group_id: str
    sequences: tuple[int, ...]
    hits: tuple[Hit, ...]  # those of the units that were found, the best one first

    @property
    def score(self) -> float:
        """The score of its best hit."""
        return self.hits[0].score


class Around(Struct, frozen=True, kw_only=True):
    """How much of what stands beside a hit comes with it."""

    units: int = 1  # before it, and as many after it; 0: hits alone, each a chain of its own
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
    """At most k chains, the best first; chains that overlap or touch are one.

    No hit is given twice. `order` has for each group what was said in it and is still there, oldest first; a hit that
    is not in it, such as a summary, stands alone. `excluded` are never given, neither as a hit nor beside one.
    """
    stretches: list[_Stretch] = []
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.sequence)):
        if hit.sequence in excluded:
            continue
        new = _stretch(hit, group_of[hit.sequence], order, around.units)
        merged = [each for each in stretches if around.units and _touch(each, new)]
        if len(stretches) - len(merged) == k:
            break
        for each in merged:
            stretches.remove(each)
        stretches.append(_joined([*merged, new]))
    ranked = sorted(stretches, key=lambda stretch: (-stretch.hits[0].score, stretch.hits[0].sequence))
    return _within(ranked, order, around, excluded, chars_of)


class _Stretch(Struct, frozen=True):
    """Places of a group's order, from `begin` up to but without `end`; both 0 for a hit that stands alone."""

    group_id: str
    begin: int
    end: int
    hits: tuple[Hit, ...]


def _stretch(hit: Hit, group_id: str, order: Mapping[str, Sequence[int]], units: int) -> _Stretch:
    sequences = order.get(group_id, ())
    place = bisect_left(sequences, hit.sequence)
    if place == len(sequences) or sequences[place] != hit.sequence:
        return _Stretch(group_id, 0, 0, (hit,))
    return _Stretch(group_id, max(place - units, 0), min(place + units + 1, len(sequences)), (hit,))


def _touch(one: _Stretch, other: _Stretch) -> bool:
    if one.group_id != other.group_id or not one.end or not other.end:
        return False
    return one.begin <= other.end and other.begin <= one.end


def _joined(stretches: Sequence[_Stretch]) -> _Stretch:
    hits = sorted((hit for each in stretches for hit in each.hits), key=lambda hit: (-hit.score, hit.sequence))
    begin, end = min(each.begin for each in stretches), max(each.end for each in stretches)
    return _Stretch(stretches[0].group_id, begin, end, tuple(hits))


def _within(
    stretches: Sequence[_Stretch],
    order: Mapping[str, Sequence[int]],
    around: Around,
    excluded: Collection[int],
    chars_of: Callable[[int], int],
) -> list[Chain]:
    """The stretches as chains, with as many neighbours as the budget has, the nearest ones of each first."""
    units_left, chars_left = around.context_units_max, around.context_chars_max
    chains: list[Chain] = []
    for stretch in stretches:
        taken = {hit.sequence for hit in stretch.hits}
        sequences = order.get(stretch.group_id, ())[stretch.begin : stretch.end]
        places = [place for place, sequence in enumerate(sequences) if sequence in taken]
        beside = [place for place in range(len(sequences)) if place not in places]
        for place in sorted(beside, key=lambda place: (min(abs(place - hit) for hit in places), place)):
            chars = chars_of(sequences[place])
            if sequences[place] not in excluded and units_left and chars <= chars_left:
                taken.add(sequences[place])
                units_left -= 1
                chars_left -= chars
        chains.append(Chain(group_id=stretch.group_id, sequences=tuple(sorted(taken)), hits=stretch.hits))
    return chains

"""What was found in a memory, as a session gets it: the hits, the best first, each with what stands beside it."""

from collections.abc import Mapping, Sequence

from runtime.memory.chains import Chain
from runtime.memory.units import MemoryUnit
from runtime.recalled import Neighbour, Recalled, RecalledUnit

_NO_SIGNALS: Mapping[str, float] = {}


def recalled_of(
    chains: Sequence[Chain], units: Mapping[int, MemoryUnit], signals: Mapping[int, Mapping[str, float]]
) -> Recalled:
    """Chains as hits with their neighbours, each with the hit it is nearest to; `units` and `signals` by sequence."""
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
    return Recalled(units=tuple(sorted(found, key=lambda unit: -unit.score)))


def _beside(chain: Chain) -> dict[int, list[int]]:
    """The neighbours of each hit, in order."""
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

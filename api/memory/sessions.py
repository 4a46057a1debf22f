"""The memory of a session's user, as the session asks it within a turn."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from api.memory.asked import Query, RecalledChain
from api.memory.asked import RecalledUnit as Given
from api.memory.memories import Memories
from api.memory.refusals import MemoryRefused
from runtime.memory.recall.asking import Decay
from runtime.memory.units import MemoryUnit
from runtime.ports import MemoryFailed
from runtime.recalled import Neighbour, Recalled, RecalledUnit, RecallWish
from store.errors import FilterInvalid, StoreError
from store.memory.filters import parse

DAY_S = 86_400.0
SIGNALS_KEPT = 6  # of each unit, in the turn's event


class SessionMemory(Struct, frozen=True):
    """Asks for one session. What it recalls stands in the turn's events, which visits are admitted from: a turn that
    is not committed has visited nothing.
    """

    memories: Memories
    tenant: str
    user_id: str
    session_id: str

    async def recall(self, wish: RecallWish) -> Recalled:
        """What the user's memory holds of something, the best first. Raises MemoryFailed."""
        try:
            query = _query_of(wish, self.session_id)
            found = await self.memories.look(self.tenant, self.user_id, query, in_sight=wish.in_sight)
        except (FilterInvalid, MemoryRefused) as error:
            raise MemoryFailed(str(error), retryable=False) from error
        except StoreError as error:
            raise MemoryFailed("the memory cannot be read now") from error
        return Recalled(units=tuple(unit for chain in found.chains for unit in _units(chain)))


def _query_of(wish: RecallWish, session_id: str) -> Query:
    return Query(
        text=wish.query,
        k=wish.k,
        strategy=wish.strategy,
        filters=None if wish.filters is None else parse(wish.filters),
        min_score=wish.min_score,
        group=session_id,
        recall_context=wish.context,
        decay=None if wish.half_life_days is None else Decay(wish.half_life_days * DAY_S, wish.floor),
        as_of=wish.now,
        explain=True,
    )


def _units(chain: RecalledChain) -> list[RecalledUnit]:
    """The hits of a chain, each with what follows up to the next one; the first also with what comes before it."""
    first = next(place for place, given in enumerate(chain.units) if given.score is not None)
    around = [_neighbour(given.unit, is_before=True) for given in chain.units[:first]]
    hits: list[tuple[Given, list[Neighbour]]] = []
    for given in chain.units[first:]:
        if given.score is not None:
            hits.append((given, around))
            around = []
        else:
            hits[-1][1].append(_neighbour(given.unit, is_before=False))
    return [_hit(given, beside) for given, beside in hits]


def _neighbour(unit: MemoryUnit, *, is_before: bool) -> Neighbour:
    return Neighbour(
        unit_id=unit.unit_id,
        text=unit.content,
        source=unit.source,
        created_at=unit.creation_time,
        is_before=is_before,
    )


def _strongest(signals: Mapping[str, float]) -> dict[str, float]:
    """Those that speak for or against a unit most, as far as they are worth keeping with the turn."""
    strongest = sorted(signals, key=lambda name: -abs(signals[name]))[:SIGNALS_KEPT]
    return {name: round(signals[name], 3) for name in strongest}


def _hit(given: Given, around: Sequence[Neighbour]) -> RecalledUnit:
    return RecalledUnit(
        unit_id=given.unit.unit_id,
        text=given.unit.content,
        source=given.unit.source,
        trust=given.unit.trust,
        created_at=given.unit.creation_time,
        score=given.score or 0.0,
        signals=_strongest(given.signals),
        group_id=given.unit.group_id,
        metadata=given.unit.metadata,
        around=tuple(around),
    )

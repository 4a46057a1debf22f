"""The memory of a session's user, as the session asks it within a turn."""

from collections.abc import Mapping

from msgspec import Struct

from api.memory.asked import Query, RecalledChain
from api.memory.memories import Memories
from api.memory.refusals import MemoryRefused
from runtime.memory.chains import Chain, Hit
from runtime.memory.giving import recalled_of
from runtime.memory.recall.asking import decay_of_days
from runtime.ports import MemoryFailed
from runtime.recalled import Recalled, RecallWish
from store.errors import FilterInvalid, StoreError
from store.memory.filters import parse

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
        given = {each.unit.sequence: each for chain in found.chains for each in chain.units}
        return recalled_of(
            [_chain(chain) for chain in found.chains],
            {sequence: each.unit for sequence, each in given.items()},
            {sequence: _strongest(each.signals) for sequence, each in given.items()},
        )


def _query_of(wish: RecallWish, session_id: str) -> Query:
    return Query(
        text=wish.query,
        k=wish.k,
        strategy=wish.strategy,
        filters=None if wish.filters is None else parse(wish.filters),
        min_score=wish.min_score,
        group=session_id,
        recall_context=wish.context,
        decay=decay_of_days(wish.half_life_days, wish.floor),
        as_of=wish.now,
        explain=True,
    )


def _strongest(signals: Mapping[str, float]) -> dict[str, float]:
    """Those that speak for or against a unit most, as far as they are worth keeping with the turn."""
    strongest = sorted(signals, key=lambda name: -abs(signals[name]))[:SIGNALS_KEPT]
    return {name: round(signals[name], 3) for name in strongest}


def _chain(chain: RecalledChain) -> Chain:
    hits = [Hit(given.unit.sequence, given.score) for given in chain.units if given.score is not None]
    return Chain(
        group_id=chain.units[0].unit.group_id,
        sequences=tuple(given.unit.sequence for given in chain.units),
        hits=tuple(sorted(hits, key=lambda hit: (-hit.score, hit.sequence))),
    )

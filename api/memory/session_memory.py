"""Searches of a user's memory by a session within a turn."""

from collections.abc import Mapping

from msgspec import Struct

from api.memory.memories import Memories
from api.memory.requests import Query, RecalledChain
from api.memory_errors import InvalidMemoryRequest
from runtime.memory.chains import Chain, Hit, recalled_of
from runtime.memory.recall.query import decay_of_days
from runtime.state.ports import MemoryFailed
from runtime.state.recall_types import Recalled, RecallWish
from store.interface.errors import FilterInvalid, StoreError
from store.interface.memory_filters import parse

SIGNALS_MAX = 6  # of each unit, in the turn's event


class SessionMemory(Struct, frozen=True):
    """The memory port of one session.

    The turn's events list the recalled units, and visits are counted from the events: an uncommitted turn counts none.
    """

    memories: Memories
    tenant: str
    user_id: str
    session_id: str

    async def recall(self, wish: RecallWish) -> Recalled:
        """Search the user's memory; return the results best first. Raises MemoryFailed."""
        try:
            query = _query_of(wish, self.session_id)
            found = await self.memories.search(self.tenant, self.user_id, query, in_sight=wish.in_sight)
        except (FilterInvalid, InvalidMemoryRequest) as error:
            raise MemoryFailed(str(error), retryable=False) from error
        except StoreError as error:
            raise MemoryFailed("the memory cannot be read now") from error
        units = {each.unit.sequence: each for chain in found.chains for each in chain.units}
        return recalled_of(
            [_chain(chain) for chain in found.chains],
            {sequence: each.unit for sequence, each in units.items()},
            {sequence: _strongest(each.signals) for sequence, each in units.items()},
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
    """Return the SIGNALS_MAX strongest signals of a unit, which are stored with the turn."""
    strongest = sorted(signals, key=lambda name: -abs(signals[name]))[:SIGNALS_MAX]
    return {name: round(signals[name], 3) for name in strongest}


def _chain(chain: RecalledChain) -> Chain:
    hits = [Hit(each.unit.sequence, each.score) for each in chain.units if each.score is not None]
    return Chain(
        group_id=chain.units[0].unit.group_id,
        sequences=tuple(each.unit.sequence for each in chain.units),
        hits=tuple(sorted(hits, key=lambda hit: (-hit.score, hit.sequence))),
    )

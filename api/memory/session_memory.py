"""Searches of a user's memory by a session within a turn."""

from msgspec import Struct

from api.memory.memories import Memories
from api.memory.requests import Query
from api.schemas.memory_errors import InvalidMemoryRequest
from runtime.memory.recall.query import decay_of_days
from runtime.state.ports import MemoryFailed
from runtime.state.recall_types import RecallResult, RecallWish
from store.interface.errors import FilterInvalid, StoreError
from store.interface.memory_filters import parse


class SessionMemory(Struct, frozen=True):
    """The memory port of one session.

    The turn's events list the recalled units, and visits are counted from the events: an uncommitted turn counts none.
    """

    memories: Memories
    tenant: str
    user_id: str
    session_id: str

    async def recall(self, wish: RecallWish) -> RecallResult:
        """Search the user's memory; return the results best first. Raises MemoryFailed."""
        try:
            query = _query_of(wish, self.session_id)
            return await self.memories.recall(self.tenant, self.user_id, query, in_sight=wish.in_sight)
        except (FilterInvalid, InvalidMemoryRequest) as error:
            raise MemoryFailed(str(error), retryable=False) from error
        except StoreError as error:
            raise MemoryFailed("the memory cannot be read now") from error


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

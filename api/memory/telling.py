"""Who sums memories up: the server's language model, off the turn, or an extract where there is none."""

from itertools import count

from api.memory.calling import MemoryCalls
from runtime.memory.extracting import Extracting
from runtime.memory.summarising import Passage, Summarise, Told
from runtime.memory.telling import request_of, told
from runtime.ports import Clock


class Tellers:
    """Gives the memory of each user somebody who sums it up."""

    def __init__(self, calls: MemoryCalls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock

    def teller(self, tenant: str, user_id: str) -> Summarise:
        """Sums up the memory of a user. It raises ModelFailed, also where a budget is used up, and StoreError; what it
        was to sum up is tried again later.
        """
        return _Teller(self._calls, self._clock, tenant, user_id)


class _Teller:
    """One run over one memory."""

    def __init__(self, calls: MemoryCalls, clock: Clock, tenant: str, user_id: str) -> None:
        self._calls = calls
        self._clock = clock
        self._owner = tenant, user_id
        self._asked = count()

    async def __call__(self, passage: Passage) -> Told:
        """The summary of a passage."""
        request = request_of(passage, self._clock(), next(self._asked))
        if self._calls.needs_no_call(request):
            return await Extracting()(passage)
        reply = await self._calls.make(*self._owner, request)
        return await Extracting()(passage) if reply.extracted else told(reply)

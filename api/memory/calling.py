"""Calls of language models off the turn, for memories: metered against the budgets of a user's day and the tenant's,
kept in the record before and after they are made, and bounded in time.

They count for no turn and no session. What a call was good for stands in the memory; the record of the call has no
words.
"""

import asyncio
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from api.budgets import Spending
from api.journal import usage_columns
from api.metrics import Metrics
from runtime.calls import GIVEN_UP, digest_of
from runtime.deadlines import until
from runtime.ports import Clock, GivenUp, Ids, Meter, Model, ModelFailed, ModelReply, ModelRequest, Usage
from store.memory.calls import MemoryCallRow
from store.memory.record import MemoryRecord

CALL_S = 180.0  # for one call with all its attempts; nobody waits for it

_MS = timedelta(milliseconds=1)


class MemoryCalls:
    """Makes the calls of all memories."""

    def __init__(
        self, model: Model, record: MemoryRecord, spending: Spending, metrics: Metrics, clock: Clock, ids: Ids
    ) -> None:
        self._model = model
        self._record = record
        self._spending = spending
        self._metrics = metrics
        self._clock = clock
        self._ids = ids

    def needs_no_call(self, request: ModelRequest) -> bool:
        """Whether there is no language model to ask: what answers makes its account of the texts themselves."""
        return not self._model.goes_to(request)

    async def make(self, tenant: str, user_id: str, request: ModelRequest) -> ModelReply:
        """The model's reply, for a user's memory.

        Raises ModelFailed, also where a budget is used up, and StoreError.
        """
        meter = await self._spending.meter(tenant, user_id, request.now)
        exceeded = meter.exceeded() if meter is not None else None
        if exceeded is not None:
            raise ModelFailed(f"the budget `{exceeded}` is used up")
        begun = MemoryCallRow(
            tenant=tenant,
            user_id=user_id,
            call_id=self._ids(),
            purpose=request.purpose,
            model=self._model.goes_to(request),
            request_digest=digest_of(request),
            started_at=self._clock(),
        )
        await self._record.begin_call(begun)
        call = _Call(request, begun, meter)
        try:
            async with until(asyncio.get_running_loop().time() + CALL_S):
                reply = await self._asked(call)
        except TimeoutError:
            raise ModelFailed(f"the call of the model was {GIVEN_UP}") from None
        await self._end(call, None, reply.usage)
        return reply

    async def _asked(self, call: "_Call") -> ModelReply:
        try:
            return await self._model.complete(call.request)
        except ModelFailed as failed:
            await self._end(call, str(failed), failed.usage)
            raise
        except BaseException as reason:  # its time is over, or the server's
            cause = reason.__cause__
            await self._end(call, GIVEN_UP, cause.usage if isinstance(cause, GivenUp) else None)
            raise

    async def _end(self, call: "_Call", error: str | None, usage: Usage | None) -> None:
        if call.meter is not None:
            call.meter.count(usage)
        await self._record.end_call(_ended(call.begun, self._clock(), error, usage))
        self._metrics.count_call(call.request.purpose, done=error is None, usage=usage)


class _Call(NamedTuple):
    """A call that is under way."""

    request: ModelRequest
    begun: MemoryCallRow
    meter: Meter | None


def _ended(begun: MemoryCallRow, now: datetime, error: str | None, usage: Usage | None) -> MemoryCallRow:
    row = msgspec.structs.replace(
        begun,
        ended_at=now,
        outcome="done" if error is None else "failed",
        error=error,
        latency_ms=round((now - begun.started_at) / _MS),
    )
    return row if usage is None else msgspec.structs.replace(row, **usage_columns(usage))

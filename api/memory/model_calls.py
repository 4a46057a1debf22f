"""Calls of language models for memories, outside of turns, and the summaries that are made by them.

Calls are metered against the daily budgets of the user and the tenant, stored in the database before and after they
are made, and limited in time. They count for no turn and no session. The stored call contains no text; its result is
in the memory.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from itertools import count

import msgspec
from msgspec import Struct

from api.metrics import Metrics
from api.models.model_calls import Spending, usage_columns
from runtime.memory.summaries import Summarise, Summary, SummaryRequest
from runtime.memory.summarizers import extractive_summary, parse_summary, request_of
from runtime.state.deadlines import until
from runtime.state.ports import (
    Clock,
    GivenUp,
    Ids,
    Meter,
    Model,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Purpose,
    Usage,
    digest_of,
)
from runtime.turn.calls import GIVEN_UP
from store.interface.memory_rows import MemoryCallRow
from store.memory.memory_repository import MemoryRepository

CALL_S = 180.0  # for one call with all its attempts; long, because no user waits for it

_MS = timedelta(milliseconds=1)


class MemoryCalls(Struct, frozen=True):
    """Makes the model calls of all memories."""

    model: Model
    store: MemoryRepository
    spending: Spending
    metrics: Metrics
    clock: Clock
    ids: Ids

    def needs_no_call(self, request: ModelRequest) -> bool:
        """Return whether no language model is configured for the request, so that a summary is an extract."""
        return not self.model.goes_to(request)

    async def make(self, tenant: str, user_id: str, request: ModelRequest) -> ModelReply:
        """Call the model for a user's memory and return its reply.

        Raises ModelFailed, also if a budget is used up, and StoreError.
        """
        meter = await self.spending.meter(tenant, user_id, request.now)
        exceeded = meter.exhausted_budget()
        if exceeded is not None:
            raise ModelFailed(f"the budget `{exceeded}` is used up")
        row = MemoryCallRow(
            tenant=tenant,
            user_id=user_id,
            call_id=self.ids(),
            purpose=request.purpose,
            model=self.model.goes_to(request),
            request_digest=digest_of(request),
            started_at=self.clock(),
        )
        await self.store.begin_call(row)
        try:
            async with until(asyncio.get_running_loop().time() + CALL_S):
                reply = await self._complete(request, row, meter)
        except TimeoutError:
            raise ModelFailed(f"the call of the model was {GIVEN_UP}") from None
        await self._end(row, meter, None, reply.usage)
        return reply

    async def _complete(self, request: ModelRequest, row: MemoryCallRow, meter: Meter) -> ModelReply:
        try:
            return await self.model.complete(request)
        except ModelFailed as failed:
            await self._end(row, meter, str(failed), failed.usage)
            raise
        except BaseException as reason:  # timed out, or cancelled because the server stops
            cause = reason.__cause__
            await self._end(row, meter, GIVEN_UP, cause.usage if isinstance(cause, GivenUp) else None)
            raise

    async def _end(self, row: MemoryCallRow, meter: Meter, error: str | None, usage: Usage | None) -> None:
        meter.count(usage)
        now, purpose = self.clock(), msgspec.convert(row.purpose, Purpose)
        ended = msgspec.structs.replace(
            row,
            ended_at=now,
            outcome="done" if error is None else "failed",
            error=error,
            **{"latency_ms": round((now - row.started_at) / _MS), **usage_columns(usage)},
        )
        await self.store.end_call(ended)
        self.metrics.count_call(purpose, done=error is None, usage=usage)


# -- summaries --------------------------------------------------------------------------------------------------------


def summarizers(calls: MemoryCalls, clock: Clock) -> Callable[[str, str], Summarise]:
    """Return a function that returns the summariser of a tenant's user for one maintenance run.

    A summariser raises ModelFailed, also if a budget is used up, and StoreError; the caller tries again later.
    """

    def summarizer(tenant: str, user_id: str) -> Summarise:
        numbers = count()

        async def summarise(passage: SummaryRequest) -> Summary:
            request = request_of(passage, clock(), next(numbers))
            reply = None if calls.needs_no_call(request) else await calls.make(tenant, user_id, request)
            return await extractive_summary(passage) if reply is None or reply.extracted else parse_summary(reply)

        return summarise

    return summarizer

"""The limits of one turn, the budgets of its calls of language models, the numeric types of settings, and the current
deadline, which all code that runs under it can read.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from runtime.state.state import Spent

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Amount: TypeAlias = Annotated[float, Meta(gt=0)]
"""Seconds, or an amount of money."""


class Bounds(Struct, frozen=True):
    """Upper bounds of usage over a period; None is no bound. `cost` is in the currency of the models' prices."""

    tokens: int | None = None
    cost: float | None = None
    calls: int | None = None

    def exceeded_by(self, spent: Spent) -> str:
        """Return the first bound that is used up: ``tokens``, ``cost``, ``calls``, or an empty text."""
        pairs = (("tokens", self.tokens, spent.tokens), ("cost", self.cost, spent.cost))
        for name, bound, used in (*pairs, ("calls", self.calls, spent.calls)):
            if bound is not None and used >= bound:
                return name
        return ""


UNLIMITED = Bounds()


class Limits(Struct, frozen=True):
    """The limits of one turn. Names that end in `_s` are seconds."""

    actions_max: int = 1_000
    model_calls_max: int = 50
    output_chars_max: int = 100_000
    events_max: int = 10_000
    state_bytes_max: int = 1_000_000
    turn_s: float = 120.0
    context_s: float = 20.0  # of `turn_s`, for model calls of a context strategy
    recalls_max: int = 20  # memory searches
    tool_calls_max: int = 20
    recall_s: float = 10.0  # of `turn_s`, for each memory search
    turn_budget: Bounds = UNLIMITED
    session_budget: Bounds = UNLIMITED


# -- deadlines --------------------------------------------------------------------------------------------------------


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@asynccontextmanager
async def until(ends_at: float) -> AsyncIterator[asyncio.Timeout]:
    """End the block at a time of the event loop's clock; `math.inf` means no limit. Raises TimeoutError.

    Blocks may be nested; the earliest deadline of all enclosing blocks applies.
    """
    token = _deadline.set(min(ends_at, _deadline.get()))
    try:
        async with asyncio.timeout_at(None if ends_at == math.inf else ends_at) as limit:
            yield limit
    finally:
        _deadline.reset(token)


def time_left() -> float:
    """Return the seconds left until the earliest deadline: infinite if there is none, negative after it."""
    return _deadline.get() - asyncio.get_running_loop().time()

"""The moment by which the work at hand must be done, as everything beneath it can see it."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@asynccontextmanager
async def until(ends_at: float) -> AsyncIterator[asyncio.Timeout]:
    """End the block at a moment of the event loop's clock. Raises TimeoutError.

    An endless block has the moment `math.inf`. Blocks within it see the earliest moment of all that they stand in.
    """
    token = _deadline.set(min(ends_at, _deadline.get()))
    try:
        async with asyncio.timeout_at(None if ends_at == math.inf else ends_at) as limit:
            yield limit
    finally:
        _deadline.reset(token)


def time_left() -> float:
    """Give the seconds that are left of the earliest deadline; infinite where there is none, negative after it."""
    return _deadline.get() - asyncio.get_running_loop().time()

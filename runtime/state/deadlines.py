"""The current deadline, which all code that runs under it can read."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

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

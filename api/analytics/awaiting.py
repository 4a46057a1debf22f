"""An answer that is worked on only as long as somebody waits for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar.types import Receive

from api.errors import ApiError
from api.event_stream import left

T = TypeVar("T")


async def while_awaited(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What the work comes to; it is cancelled when the client has gone, who then hears of nothing any more."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})
    raise ApiError("QUERY_STOPPED", "nobody waits for the answer any more")

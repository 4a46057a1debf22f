"""Cancels the work for a request when its client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar.types import Receive

from api.asgi.sse_response import left
from api.errors import ApiError

T = TypeVar("T")


async def cancel_on_disconnect(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await work and return its result; cancel it if the client disconnects."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})
    raise ApiError("QUERY_STOPPED", "the client disconnected")

"""An answer that goes on: chunks of a stream to a client that may be slow, or gone."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any

from litestar import Request, Response
from litestar.background_tasks import BackgroundTask, BackgroundTasks
from litestar.datastructures import Cookie
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send
from msgspec import Struct

from api.access.guard import ending_of
from api.frames import EVENT_STREAM


class Pace(Struct, frozen=True):
    """How long a client may take for what it is sent, and how long the whole may take."""

    write_s: float
    stream_s: float


class EventStream(Response[Any]):
    """Server-sent events, as long as there are any, the client is there and reads, its key is good, and the server does
    not stop.

    `over` is called once nothing will be sent any more.
    """

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], over: Callable[[], None], closing: asyncio.Event, pace: Pace
    ) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(b"", headers=headers, media_type=EVENT_STREAM)
        self._parts = (chunks, over, closing, pace)

    def to_asgi_response(
        self,
        app: Any,
        request: Request[Any, Any, Any],
        *,
        background: BackgroundTask | BackgroundTasks | None = None,
        cookies: Iterable[Cookie] | None = None,
        encoded_headers: Iterable[tuple[bytes, bytes]] | None = None,
        headers: dict[str, str] | None = None,
        is_head_response: bool = False,
        media_type: Any = None,
        status_code: int | None = None,
        type_encoders: Any = None,
    ) -> ASGIResponse:
        """The answer as it is sent."""
        revoked = ending_of(request.scope)
        return _Sending(*self._parts, revoked, headers=headers, cookies=cookies, own=self.headers)


class _Sending(ASGIResponse):
    _should_set_content_length = False

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        over: Callable[[], None],
        closing: asyncio.Event,
        pace: Pace,
        revoked: asyncio.Event | None,
        *,
        headers: dict[str, str] | None,
        cookies: Iterable[Cookie] | None,
        own: dict[str, Any],
    ) -> None:
        super().__init__(headers={**(headers or {}), **own}, cookies=cookies, media_type=EVENT_STREAM, status_code=200)
        self._chunks = chunks
        self._over = over
        self._closings = [closing] if revoked is None else [closing, revoked]
        self._pace = pace
        self._is_writing = False

    async def send_body(self, send: Send, receive: Receive) -> None:
        """Sends the stream to whichever end comes first."""
        sending = asyncio.create_task(self._send_all(send))
        ends = [asyncio.create_task(left(receive)), *(asyncio.create_task(each.wait()) for each in self._closings)]
        try:
            await asyncio.wait({sending, *ends}, timeout=self._pace.stream_s, return_when=asyncio.FIRST_COMPLETED)
            can_end = not ends[0].done() and not self._is_writing
        finally:
            for task in (sending, *ends):
                task.cancel()
            await asyncio.wait({sending, *ends})
            self._over()
        if can_end:
            await self._send(send, b"", more=False)
        if not sending.cancelled():
            sending.result()

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._chunks) as chunks:
            async for chunk in chunks:
                if not await self._send(send, chunk, more=True):
                    return

    async def _send(self, send: Send, chunk: bytes, *, more: bool) -> bool:
        """Whether the client took it; one that reads slower than it is told comes back with the last id it has."""
        self._is_writing = True
        try:
            async with asyncio.timeout(self._pace.write_s):
                await send({"type": "http.response.body", "body": chunk, "more_body": more})
        except TimeoutError:
            return False
        self._is_writing = False
        return True


async def left(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass

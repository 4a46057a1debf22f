"""Server-sent events: frames for the events of a session, the ids after which a client resumes, and a response
that streams to clients which may be slow or disconnect, and ends when its key is revoked.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response
from litestar.datastructures import Cookie
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send
from msgspec import Struct

from api.auth.principal import REVOCATION
from api.background import cancel_all
from api.errors import invalid_field
from api.schemas.sessions import ResetView

T = TypeVar("T")

KEEP_ALIVE = b": nothing yet\n\n"
EVENT_STREAM = "text/event-stream"

_ID = re.compile(r"([0-9a-f-]{36}):([0-9]{1,15})(?:\.([0-9a-f]{1,32})\.([0-9]{1,15}))?")


class EventPosition(Struct, frozen=True):
    """The position of a client: the last event it has, and the last word frame of the turn after it."""

    seq: int = 0
    attempt: str = ""  # the run of that turn
    frame: int = 0  # number of its word frames


def read_place(text: str, session_id: str) -> EventPosition:
    """Parse the position from an event id. Raises ApiError REQUEST_INVALID."""
    match = _ID.fullmatch(text.strip())
    if match is None:
        raise invalid_field("Last-Event-ID", "it must be the `id` of a frame of this session's stream")
    if match[1] != session_id:
        raise invalid_field("Last-Event-ID", "it belongs to another session")
    return EventPosition(int(match[2]), match[3] or "", int(match[4] or 0))


def frame_id(session_id: str, seq: int) -> str:
    """Return the id of an event; the number 0 is the start of the session."""
    return f"{session_id}:{seq}"


def encode_frame(event: str, data: object, id_: str = "") -> bytes:
    """Encode one frame. A frame without an id does not change the client's last id."""
    head = f"id: {id_}\nevent: {event}\n" if id_ else f"event: {event}\n"
    return b"%sdata: %s\n\n" % (head.encode(), msgspec.json.encode(data))


def reset_frame(session_id: str, base: int, message: int) -> bytes:
    """Return a frame that makes a client drop the words from a message on, and return to the last event."""
    return encode_frame("message.reset", ResetView(message=message), frame_id(session_id, base))


class SendPace(Struct, frozen=True):
    """How long a client may take to accept a chunk, and how long the whole response may take."""

    write_s: float
    stream_s: float


class SseResponse(Response[Any]):
    """Server-sent events, until they end, the client disconnects or stops reading, its key is revoked, or the server
    stops.

    `over` is called once nothing more is sent.
    """

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], over: Callable[[], None], closing: asyncio.Event, pace: SendPace
    ) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(b"", headers=headers, media_type=EVENT_STREAM)
        self.chunks, self.over, self.closing, self.pace = chunks, over, closing, pace

    def to_asgi_response(
        self,
        app: Any,
        request: Request[Any, Any, Any],
        *,
        cookies: Iterable[Cookie] | None = None,
        headers: dict[str, str] | None = None,
        **_: Any,
    ) -> ASGIResponse:
        """Return the ASGI response."""
        revoked: asyncio.Event | None = request.scope["state"].get(REVOCATION)
        return _Sending(self, revoked, headers={**(headers or {}), **self.headers}, cookies=cookies)


class _Sending(ASGIResponse):
    _should_set_content_length = False

    def __init__(self, stream: SseResponse, revoked: asyncio.Event | None, **parts: Any) -> None:
        super().__init__(media_type=EVENT_STREAM, status_code=200, **parts)
        self._stream = stream
        self._closings = [stream.closing] if revoked is None else [stream.closing, revoked]
        self._is_writing = False

    async def send_body(self, send: Send, receive: Receive) -> None:
        """Send the stream until the first condition that ends it."""
        sending = asyncio.create_task(self._send_all(send))
        ends = [
            asyncio.create_task(wait_disconnect(receive)),
            *(asyncio.create_task(each.wait()) for each in self._closings),
        ]
        try:
            await asyncio.wait(
                {sending, *ends}, timeout=self._stream.pace.stream_s, return_when=asyncio.FIRST_COMPLETED
            )
            can_end = not ends[0].done() and not self._is_writing
        finally:
            for task in (sending, *ends):
                task.cancel()
            await asyncio.wait({sending, *ends})
            self._stream.over()
        if can_end:
            await self._send(send, b"", more=False)
        if not sending.cancelled():
            sending.result()

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._stream.chunks) as chunks:
            async for chunk in chunks:
                if not await self._send(send, chunk, more=True):
                    return

    async def _send(self, send: Send, chunk: bytes, *, more: bool) -> bool:
        """Send a chunk and return whether the client accepted it in time; a slow client reconnects with its last id."""
        self._is_writing = True
        try:
            async with asyncio.timeout(self._stream.pace.write_s):
                await send({"type": "http.response.body", "body": chunk, "more_body": more})
        except TimeoutError:
            return False
        self._is_writing = False
        return True


async def wait_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Await work and return its result; cancel it and return None if the client disconnects."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(wait_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        await cancel_all(working, leaving)

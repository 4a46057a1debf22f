"""An httpx transport to an ASGI application in this process, without a port, with streamed responses."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import httpx

CHUNKS_MAX = 64  # unread chunks of a response; beyond, the application waits
START_S = 600.0  # for the start of a response; above all time limits of the application
_Message: TypeAlias = Any  # a message as the ASGI specification defines it


ASGIApplication: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


class InProcess(httpx.AsyncBaseTransport):
    """A transport to an ASGI application. httpx's own ASGI transport returns a response only once it is complete."""

    def __init__(self, app: ASGIApplication) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response; its body is read as the application sends it."""
        exchange = _Exchange(self._app, _scope(request), await request.aread())
        try:
            status, headers = await exchange.wait_start()
        except BaseException:  # also if the caller gives up: there is no response yet that it could close
            await exchange.aclose()
            raise
        return httpx.Response(status, headers=headers, stream=exchange)


def _scope(request: httpx.Request) -> _Message:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.split(b"?")[0],
        "query_string": url.query,
        "server": (url.host, url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
        "state": {},
    }


class _Exchange(httpx.AsyncByteStream):
    """One request, on which the application runs from now on, and its response."""

    def __init__(self, app: ASGIApplication, scope: _Message, body: bytes) -> None:
        self._body: bytes | None = body
        self._messages: asyncio.Queue[_Message] = asyncio.Queue(CHUNKS_MAX)
        self._left = asyncio.Event()
        self._running = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _send(self, message: _Message) -> None:
        if not self._left.is_set():
            await self._messages.put(message)

    async def wait_start(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Return the status and headers as soon as the application sends them."""
        message = await self._next()
        return message["status"], list(message["headers"])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._next()
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                return

    async def aclose(self) -> None:
        """Stop reading; the application continues, as it does behind a server."""
        self._left.set()
        while not self._messages.empty():  # the application may wait for room
            self._messages.get_nowait()

    async def _next(self) -> _Message:
        """Return the next message of the application. Raises httpx.TransportError if it ended without one."""
        getting = asyncio.create_task(self._messages.get())
        try:
            await asyncio.wait({getting, self._running}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
        finally:  # also if the caller gives up
            getting.cancel()
        raise httpx.RemoteProtocolError("the application ended before its response did")

    async def _receive(self) -> _Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

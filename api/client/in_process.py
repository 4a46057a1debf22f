"""Requests to an application in this very process, without a port: whole answers and ones that come bit by bit."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import httpx
from litestar import Litestar

CHUNKS_MAX = 64  # of an answer that wait to be read; then the application waits
START_S = 600.0  # for the first word of an answer; the bounds of the application are below it
_Message: TypeAlias = Any  # ASGI's own, by its specification


class InProcess(httpx.AsyncBaseTransport):
    """Hands requests to an ASGI application. httpx's own transport for that gives an answer only once it is whole."""

    def __init__(self, app: Litestar) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer; its body is read as it comes."""
        exchange = _Exchange(await request.aread())
        exchange.begin(self._app, _scope(request))
        status, headers = await exchange.started()
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
    """One request and its answer."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._messages: asyncio.Queue[_Message] = asyncio.Queue(CHUNKS_MAX)
        self._left = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, app: Litestar, scope: _Message) -> None:
        """Lets the application work on it."""
        self._tasks.add(asyncio.create_task(self._run(app, scope)))

    async def _run(self, app: Litestar, scope: _Message) -> None:
        await app(scope, self._receive, self._send)

    async def _send(self, message: _Message) -> None:
        if not self._left.is_set():
            await self._messages.put(message)

    async def started(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Status and headers, as soon as there are any."""
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
        """Nobody reads on; what the application works on goes on as it would behind a server."""
        self._left.set()

    async def _next(self) -> _Message:
        """What the application sends next. Raises httpx.TransportError where that is nothing."""
        getting = asyncio.create_task(self._messages.get())
        await asyncio.wait({getting, *self._tasks}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return getting.result()
        getting.cancel()
        raise httpx.RemoteProtocolError("the application ended before its answer did")

    async def _receive(self) -> _Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

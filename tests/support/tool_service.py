"""A service on this machine that tools call, with programmed answers; it keeps every request as a witness."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from tests.support import openai_server


class ServiceAnswer(NamedTuple):
    """What a request gets: a JSON value, after a while."""

    body: Any = None
    status: int = 200
    wait_s: float = 0.0
    raw: str = ""  # instead of JSON
    hangs: bool = False  # no answer until `let_go`
    headers: dict[str, str] = {}  # noqa: RUF012  (never changed)


class ServiceRequest(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ToolService:
    """The server; it sends the programmed answers in their order, then what `answer` returns."""

    def __init__(self) -> None:
        self.requests: list[ServiceRequest] = []
        self.answered: list[ServiceRequest] = []  # those whose answer was sent as a whole
        self.answer: Callable[[ServiceRequest], ServiceAnswer] = lambda _: ServiceAnswer({"status": "sent"})
        self.target = ""
        self._answers: deque[ServiceAnswer] = deque()
        self._came = asyncio.Event()
        self._goes_on = asyncio.Event()

    @property
    def url(self) -> str:
        """Return the address without a path."""
        return f"http://{self.target}"

    def will(self, body: Any = None, status: int = 200, **more: Any) -> None:
        """Say what the next request gets."""
        self._answers.append(ServiceAnswer(body, status, **more))

    def let_go(self) -> None:
        """Answer the requests that hang."""
        self._goes_on.set()

    async def received(self, count: int) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(60):
            while len(self.requests) < count:
                self._came.clear()
                await self._came.wait()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["ToolService"]:
        """Serve on a free port of this machine."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.target = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (received := await openai_server._request(reader)) is not None:
                request = ServiceRequest(*received)
                answer = self._answers.popleft() if self._answers else self.answer(request)
                self.requests.append(request)
                self._came.set()
                await (self._goes_on.wait() if answer.hangs else asyncio.sleep(answer.wait_s))
                body = answer.raw or json.dumps(answer.body)
                headers = {"Content-Type": "application/json"} | answer.headers
                await openai_server._send(writer, answer.status, body, headers)
                self.answered.append(request)
        writer.transport.abort()

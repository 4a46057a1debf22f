"""A receiver of webhooks on this machine, with programmed answers, which stores all requests.

``receiver.will(503)`` says what the next request gets, otherwise it is 204; ``await receiver.wait_for(3)``
over plain HTTP on this machine, and misbehaves as waits for so
many requests.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from tests.support import openai_server

DELIVERED_S = 60.0  # of a busy machine


class Answer(NamedTuple):
    """What a request gets."""

    status: int = 204
    headers: dict[str, str] = {}  # noqa: RUF012  (never changed)
    body: str = ""
    wait_s: float = 0.0
    endless: bool = False  # a body without an end
    cut: bool = False  # the connection breaks instead


class Delivery(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def event(self) -> str:
        """Return which event of which session: the turn and the number in it, and what it is."""
        event = self.json
        return f"{':'.join(event['id'].split(':')[1:])} {event['type']}"


class Receiver:
    """The server; it sends the programmed answers in their order, and 500 to what it `refuses`."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.refuses: Callable[[Any], bool] | None = None
        self.url = ""
        self._answers: deque[Answer] = deque()

    def will(self, status: int = 204, times: int = 1, *, headers: dict[str, str] | None = None, **more: Any) -> None:
        """Say what the next requests get."""
        self._answers.extend([Answer(status, headers or {}, **more)] * times)

    async def wait_for(self, count: int, of: Callable[[Delivery], bool] = lambda _: True) -> list[Delivery]:
        """Wait for so many requests."""
        until = time.monotonic() + DELIVERED_S
        while len(found := [each for each in self.deliveries if of(each)]) < count:
            assert time.monotonic() < until, [each.event for each in found]
            await asyncio.sleep(0.005)
        return found

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator["Receiver"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        try:
            yield self
        finally:
            server.close()

    def _answer(self, body: bytes) -> Answer:
        if self.refuses is not None and self.refuses(json.loads(body)):
            return Answer(500)
        return self._answers.popleft() if self._answers else Answer()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (request := await openai_server._request(reader)) is not None:
                _, path, headers, body = request
                answer = self._answer(body)
                self.deliveries.append(Delivery(path, headers, body, answer.status))
                await asyncio.sleep(answer.wait_s)
                if answer.cut:
                    break
                if answer.endless:
                    writer.write(openai_server._head(answer.status, {"Content-Length": "1000000000000"}))
                    while True:
                        writer.write(b"x" * 1_000)
                        await writer.drain()
                await openai_server._send(writer, answer.status, answer.body, answer.headers)
        writer.transport.abort()

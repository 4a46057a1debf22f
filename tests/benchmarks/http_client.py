"""A small keep-alive HTTP client, so that what is measured is the server and not the client library."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec


class Connection:
    """One connection to a server on this machine."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: Any, key: str | None = None) -> Any:
        """The JSON answer of a POST, with an idempotency key or without.

        Raises RuntimeError for any status but 200 and 201.
        """
        return await self._answer(*await self._ask("POST", path, body, "application/json", key))

    async def get(self, path: str) -> Any:
        """The JSON answer of a GET. Raises RuntimeError for any status but 200 and 201."""
        return await self._answer(*await self._ask("GET", path, None, "application/json"))

    async def _answer(self, reader: asyncio.StreamReader, head: bytes) -> Any:
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        answer = await reader.readexactly(length)
        if not head.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 201 ")):
            raise RuntimeError(answer.decode())
        return msgspec.json.decode(answer)

    async def stream(self, path: str, body: Any) -> bytes:
        """The whole stream that answers a POST. Raises RuntimeError where the answer is none."""
        return b"".join([chunk async for chunk in self.chunks("POST", path, body)])

    async def chunks(self, method: str, path: str, body: Any = None) -> AsyncIterator[bytes]:
        """The chunks of a stream as they come. Raises RuntimeError where the answer is none."""
        reader, head = await self._ask(method, path, body, "text/event-stream")
        if b"text/event-stream" not in head:
            raise RuntimeError(head.decode())
        while size := int(await reader.readuntil(b"\r\n"), 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)

    async def _ask(
        self, method: str, path: str, body: Any, accept: str, key: str | None = None
    ) -> tuple[asyncio.StreamReader, bytes]:
        """Sends a request; the head of its answer."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        payload = b"" if body is None else msgspec.json.encode(body)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Accept: {accept}\r\nContent-Length: {len(payload)}\r\n"
        )
        head += f"Idempotency-Key: {key}\r\n\r\n" if key else "\r\n"
        self._writer.write(head.encode() + payload)
        return self._reader, await self._reader.readuntil(b"\r\n\r\n")

    async def close(self) -> None:
        """Ends the connection."""
        if self._writer is not None:
            self._writer.close()
            await self._writer.wait_closed()

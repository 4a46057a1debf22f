"""A small keep-alive HTTP client, so that what is measured is the server and not the client library."""

import asyncio
from typing import Any

import msgspec


class Connection:
    """One connection to a server on this machine."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: Any) -> Any:
        """The JSON answer of a POST. Raises RuntimeError for any status but 200."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        payload = msgspec.json.encode(body)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\n\r\n"
        )
        self._writer.write(head.encode() + payload)
        answer_head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in answer_head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        answer = await self._reader.readexactly(length)
        if b" 200 " not in answer_head.split(b"\r\n", 1)[0]:
            raise RuntimeError(answer.decode())
        return msgspec.json.decode(answer)

    async def close(self) -> None:
        """Ends the connection."""
        if self._writer is not None:
            self._writer.close()
            await self._writer.wait_closed()

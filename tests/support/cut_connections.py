"""A proxy in front of PostgreSQL that cuts a connection when a transaction is committed, as a failing network does."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

CHUNK_BYTES = 65_536
SOCKET = ".s.PGSQL.5432"

Cut: TypeAlias = Literal["before", "during", "after"]
"""When a connection is cut: before COMMIT reaches PostgreSQL, before its answer is there, or instead of the answer."""


class CuttingProxy:
    """Forwards connections to the socket in a folder."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / SOCKET
        self._next: list[Cut] = []
        self._port = 0
        self.cuts = 0
        """How many connections were cut."""

    def url(self, url: str) -> str:
        """Return the address of a database of the server by way of this proxy."""
        name = url.partition("@/")[2].partition("?")[0]
        return f"postgresql://postgres@127.0.0.1:{self._port}/{name}?sslmode=disable&gssencmode=disable"

    def cut(self, *cuts: Cut) -> None:
        """Cut the connections of the next commits."""
        self._next = list(cuts)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Forward connections while the context lasts, in a thread, since a test that opens a store blocks its loop."""
        loop, started, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

        async def serve() -> None:
            server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
            self._port = server.sockets[0].getsockname()[1]
            started.set()
            await stop.wait()
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        started.wait()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()

    async def _forward(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Forward a connection until one side ends it, or it is cut."""
        server, to_server = await asyncio.open_unix_connection(str(self._socket))
        answers = asyncio.create_task(_forward_answers(server, to_client))
        try:
            while chunk := await client.read(CHUNK_BYTES):
                cut = self._next.pop(0) if self._next and b"COMMIT" in chunk else None
                if cut is not None:
                    self.cuts += 1
                    answers.cancel()
                    await asyncio.wait([answers])
                if cut == "before":
                    break
                to_server.write(chunk)
                await to_server.drain()
                if cut == "during":
                    break
                if cut == "after":
                    await server.read(1)  # it has committed
                    break
        except (OSError, asyncio.CancelledError):
            pass  # one side is gone, or the test is over
        finally:
            answers.cancel()
            to_client.transport.abort()
            to_server.transport.abort()


async def _forward_answers(server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await server.read(CHUNK_BYTES):
            to_client.write(chunk)
            await to_client.drain()
    to_client.close()

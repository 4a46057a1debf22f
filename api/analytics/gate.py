"""Who may have an analytics file open: any number of readers, or the one that brings it up to date."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from store.errors import StoreBusy


class Gate:
    """That of one file. One event loop uses it."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._readers = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def has_readers(self) -> bool:
        """Whether somebody reads the file."""
        return self._readers > 0

    @asynccontextmanager
    async def ahead(self, timeout_s: float) -> AsyncIterator[None]:
        """Nobody else comes in meanwhile; readers that are in stay. Raises StoreBusy."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._turn.acquire()
        except TimeoutError:
            raise StoreBusy("the analytics file is being brought up to date") from None
        try:
            yield
        finally:
            self._turn.release()

    async def empty(self, timeout_s: float) -> None:
        """Wait until no reader is in. Raises StoreBusy."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            raise StoreBusy("queries over the analytics file do not end") from None

    def enter(self) -> None:
        """One reader more; only for who is `ahead`."""
        self._readers += 1
        self._empty.clear()

    def leave(self) -> None:
        """One reader less."""
        self._readers -= 1
        if not self._readers:
            self._empty.set()

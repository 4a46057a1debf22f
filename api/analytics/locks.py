"""Locks of analytics files: of their folder between processes, and of one file between readers and a refresh."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from filelock import AsyncFileLock, Timeout

from api.background import within
from store.interface.errors import FolderUnwritable, StoreBusy

FILE_NAME = "lock"


class FolderLock:
    """The lock of a folder, which is created if missing. Within one process any number of tasks hold it together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # without an executor, because a try does not block; one that fails is repeated every 50 ms
        self._lock = AsyncFileLock(folder / FILE_NAME, run_in_executor=False, preserve_lock_file=True)

    @asynccontextmanager
    async def hold(self, timeout_s: float) -> AsyncIterator[None]:
        """Lock the folder against other processes inside the context. Raises StoreBusy, FolderUnwritable."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            await self._lock.acquire(timeout_s)
        except Timeout:
            raise StoreBusy("another command uses the analytics files; try again later") from None
        except OSError as error:
            raise FolderUnwritable(self._folder, error) from error
        try:
            yield
        finally:
            await self._lock.release()


class ReadersWriterLock:
    """The lock of one file. Use it in one event loop only."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._readers = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def has_readers(self) -> bool:
        """Return whether the file has readers."""
        return self._readers > 0

    @asynccontextmanager
    async def exclusive_entry(self, timeout_s: float) -> AsyncIterator[None]:
        """Block new readers and writers inside the context; current readers stay. Raises StoreBusy."""
        async with within(timeout_s, StoreBusy("the analytics file is being refreshed; try again later")):
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    async def wait_empty(self, timeout_s: float) -> None:
        """Wait until there is no reader. Raises StoreBusy."""
        error = StoreBusy("running queries block the refresh of the analytics file; try again later")
        async with within(timeout_s, error):
            await self._empty.wait()

    def enter(self) -> None:
        """Add a reader; call it only inside `exclusive_entry`."""
        self._readers += 1
        self._empty.clear()

    def leave(self) -> None:
        """Remove a reader."""
        self._readers -= 1
        if not self._readers:
            self._empty.set()

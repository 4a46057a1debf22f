"""One process at a time works on the analytics files: two commands may read a record that no server holds."""

import asyncio
import fcntl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from store.errors import StoreBusy, StoreUnavailable

FILE_NAME = "lock"
_LOOK_S = 0.05


class FolderLock:
    """That of a folder, which is made where there is none. Within a process any number hold it at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taking = asyncio.Lock()
        self._holders = 0
        self._file: BinaryIO | None = None

    @asynccontextmanager
    async def held(self, timeout_s: float) -> AsyncIterator[None]:
        """No other process holds it meanwhile. Raises StoreBusy, StoreUnavailable."""
        async with self._taking:
            self._file = self._file or await self._taken(timeout_s)
            self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders and self._file is not None:
                self._file.close()  # which gives it back
                self._file = None

    async def _taken(self, timeout_s: float) -> BinaryIO:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            file = (self._folder / FILE_NAME).open("wb")
        except OSError as error:
            raise StoreUnavailable(f"{self._folder} cannot be written: {error.strerror}") from error
        until = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    file.close()
                    raise StoreBusy("another command works on the analytics files") from None
                await asyncio.sleep(_LOOK_S)
            else:
                return file

"""A few threads that read, each with its own cursor, for a bounded number of callers and a bounded time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import duckdb

from store.database import Database
from store.errors import ReadTimedOut, StoreBusy, StoreError, StoreUnavailable, told

READERS = 4
WAITING_MAX = 1_024
"""Reads that may wait for a thread."""
READ_TIMEOUT_S = 10.0

Cursor: TypeAlias = duckdb.DuckDBPyConnection
T = TypeVar("T")


class Readers:
    """Runs reads off the event loop."""

    def __init__(self, database: Database, timeout_s: float = READ_TIMEOUT_S) -> None:
        self._database = database
        self._timeout_s = timeout_s
        self._cursors = [database.cursor() for _ in range(READERS)]
        self._free = asyncio.Semaphore(READERS)
        self._waiting = 0
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="cuebook-reader")

    async def read(self, work: Callable[[Cursor], T]) -> T:
        """The result of `work`, run in a thread. Raises StoreBusy, ReadTimedOut, StoreUnavailable."""
        if self._waiting >= WAITING_MAX:
            raise StoreBusy(f"{WAITING_MAX} reads are waiting already")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._free.acquire()
        except TimeoutError:
            raise StoreBusy(f"no reader came free within {self._timeout_s:g} s") from None
        finally:
            self._waiting -= 1
        return await self._run(work, self._cursors.pop())

    async def _run(self, work: Callable[[Cursor], T], cursor: Cursor) -> T:
        result = asyncio.get_running_loop().run_in_executor(self._pool, _guarded, work, cursor)
        result.add_done_callback(lambda finished: self._give_back(cursor, finished))
        try:
            async with asyncio.timeout(self._timeout_s):
                # Shielded: a cursor is free again when its thread has left it, not when its caller has.
                return await asyncio.shield(result)
        except TimeoutError:
            cursor.interrupt()
            raise ReadTimedOut(f"a read took longer than {self._timeout_s:g} s and was stopped") from None
        except asyncio.CancelledError:
            cursor.interrupt()
            raise

    def _give_back(self, cursor: Cursor, finished: asyncio.Future[T]) -> None:
        if not finished.cancelled():
            finished.exception()  # looked at, so that asyncio does not report an interrupted read nobody waits for
        self._cursors.append(cursor)
        self._free.release()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Nothing is read meanwhile, and there are no cursors; reads wait, as for a reader that is busy."""
        held, is_paused = 0, False
        try:
            async with asyncio.timeout(2 * self._timeout_s):  # a read that takes longer than its limit is stopped
                while held < READERS:
                    await self._free.acquire()
                    held += 1
            is_paused = True
            while self._cursors:
                self._cursors.pop().close()
            yield
        except TimeoutError:
            raise StoreBusy("the reads under way do not end") from None
        finally:
            if is_paused:  # where the file cannot be opened any more, no reader comes free again
                self._cursors = [self._database.cursor() for _ in range(READERS)]
            for _ in range(held):
                self._free.release()

    def close(self) -> None:
        """Wait for the reads under way, at most their time limit, then end the threads."""
        self._pool.shutdown(wait=True)
        for cursor in self._cursors:
            cursor.close()


def _guarded(work: Callable[[Cursor], T], cursor: Cursor) -> T:
    try:
        return work(cursor)
    except duckdb.InterruptException as error:
        raise ReadTimedOut("the read was stopped") from error
    except StoreError:
        raise
    except duckdb.Error as error:
        raise StoreUnavailable(f"the read failed: {told(error)}") from error

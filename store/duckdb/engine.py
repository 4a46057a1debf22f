"""The engine of the repositories over DuckDB: reading threads and the writing thread; read-only, it has no writer.

Each reading thread has its own connection. The number of waiting callers and the time are bounded.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TypeVar

import duckdb

from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.writer import Writer
from store.interface.errors import (
    ReadTimedOut,
    RestartNeeded,
    StoreBusy,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
    describe_error,
)
from store.sql.repository import ChangedIds

READERS = 4
WAITING_MAX = 1_024
"""Maximum number of reads that wait for a thread."""
READ_TIMEOUT_S = 10.0

T = TypeVar("T")


class DuckDBEngine:
    """The threads that use an open database file, outside the event loop."""

    def __init__(self, database: Database, writer: Writer | None, timeout_s: float = READ_TIMEOUT_S) -> None:
        self.database = database
        self.writer_or_none = writer
        self._timeout_s = timeout_s
        self._connections = [database.connection() for _ in range(READERS)]
        self._free = asyncio.Semaphore(READERS)
        self._waiting = 0
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="cuebook-reader")

    @cached_property
    def writer(self) -> Writer:
        """The writing thread. Raises StoreReadOnly."""
        if self.writer_or_none is None:
            raise StoreReadOnly("the database is open read-only")
        return self.writer_or_none

    async def read(self, work: Callable[[DuckDBConnection], T]) -> T:
        """Run `work` in a thread and return its result. Raises StoreBusy, ReadTimedOut, StoreUnavailable."""
        if self._waiting >= WAITING_MAX:
            raise StoreBusy(f"{WAITING_MAX} reads are already waiting")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._free.acquire()
        except TimeoutError:
            raise StoreBusy(f"no reader became free within {self._timeout_s:g} s") from None
        finally:
            self._waiting -= 1
        return await self._run(work, self._connections.pop())

    async def read_durable(self, work: Callable[[DuckDBConnection], T | None]) -> T | None:
        """Run a function in a reading thread, and return what it found once that is on disk.

        A reader sees a commit before its sync, which may fail. Raises what `read` raises.
        """
        found = await self.read(work)
        if found is not None and self.writer_or_none is not None:
            await self.writer_or_none.ensure_durable()
        return found

    async def write(
        self, work: Callable[[DuckDBConnection], T], changed: Callable[[T], ChangedIds] = lambda _: ChangedIds()
    ) -> T:
        """Run a function in the writing thread, and return its result after its transaction is on disk.

        Raises StoreBusy, StoreUnavailable, StoreReadOnly, and what the function raises.
        """
        return await self.writer.run(work, changed)

    async def _run(self, work: Callable[[DuckDBConnection], T], connection: DuckDBConnection) -> T:
        result = asyncio.get_running_loop().run_in_executor(self._pool, _guard, work, connection)
        result.add_done_callback(lambda finished: self._release(connection, finished))
        try:
            async with asyncio.timeout(self._timeout_s):
                # Shielded: the cursor is free again when its thread has finished, not when its caller has.
                return await asyncio.shield(result)
        except TimeoutError:
            connection.cursor.interrupt()
            raise ReadTimedOut(f"a read took longer than {self._timeout_s:g} s and was stopped") from None
        except asyncio.CancelledError:
            connection.cursor.interrupt()
            raise

    def _release(self, connection: DuckDBConnection, finished: asyncio.Future[T]) -> None:
        if not finished.cancelled():
            finished.exception()  # retrieved, so that asyncio does not log an interrupted read that has no caller
        self._connections.append(connection)
        self._free.release()

    @asynccontextmanager
    async def reads_paused(self) -> AsyncIterator[None]:
        """Pause all reads and close all cursors; reads wait meanwhile. Raises StoreBusy if running reads do not end."""
        permits, is_paused = 0, False
        try:
            async with asyncio.timeout(2 * self._timeout_s):  # a read that takes longer than its limit is stopped
                while permits < READERS:
                    await self._free.acquire()
                    permits += 1
            is_paused = True
            while self._connections:
                self._connections.pop().cursor.close()
            yield
        except TimeoutError:
            raise StoreBusy("the running reads do not end") from None
        finally:
            if is_paused:  # if this fails because the file cannot be opened, no reader becomes free again
                self._connections = [self.database.connection() for _ in range(READERS)]
            for _ in range(permits):
                self._free.release()

    def close_readers(self) -> None:
        """Wait for the running reads, at most their time limit, then end the threads."""
        self._pool.shutdown(wait=True)
        for connection in self._connections:
            connection.cursor.close()


def _guard(work: Callable[[DuckDBConnection], T], connection: DuckDBConnection) -> T:
    try:
        return work(connection)
    except duckdb.InterruptException as error:
        raise ReadTimedOut("the read was stopped") from error
    except StoreError:
        raise
    except duckdb.FatalException as error:
        raise RestartNeeded(f"the read failed: {describe_error(error)}") from error
    except duckdb.Error as error:
        raise StoreUnavailable(f"the read failed: {describe_error(error)}") from error

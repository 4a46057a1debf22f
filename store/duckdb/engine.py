"""The engine of the repositories over DuckDB: reading threads and the writing thread; read-only, it has no writer."""

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.readers import Readers
from store.duckdb.writer import Writer
from store.interface.errors import StoreReadOnly
from store.sql.repository import Changed

T = TypeVar("T")


class DuckDBEngine:
    """The threads that use an open database file."""

    def __init__(self, database: Database, readers: Readers, writer: Writer | None) -> None:
        self.database = database
        self.readers = readers
        self.writer_or_none = writer

    @cached_property
    def writer(self) -> Writer:
        """The writing thread. Raises StoreReadOnly."""
        if self.writer_or_none is None:
            raise StoreReadOnly("the database is open read-only")
        return self.writer_or_none

    async def read(self, work: Callable[[DuckDBConnection], T]) -> T:
        """Run a function in a reading thread. Raises StoreBusy, ReadTimedOut, StoreUnavailable."""
        return await self.readers.read(work)

    async def read_durable(self, work: Callable[[DuckDBConnection], T | None]) -> T | None:
        """Run a function in a reading thread, and return what it found once that is on disk.

        A reader sees a commit before its sync, which may fail. Raises what `read` raises.
        """
        found = await self.readers.read(work)
        if found is not None and self.writer_or_none is not None:
            await self.writer_or_none.ensure_durable()
        return found

    async def write(
        self, work: Callable[[DuckDBConnection], T], changed: Callable[[T], Changed] = lambda _: Changed()
    ) -> T:
        """Run a function in the writing thread, and return its result after its transaction is on disk.

        Raises StoreBusy, StoreUnavailable, StoreReadOnly, and what the function raises.
        """
        return await self.writer.run(work, changed)

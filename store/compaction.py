"""Rewriting the record into a fresh file: one that rows were deleted from keeps their bytes, in blocks it reuses later.

The rows go table by table, in their order, into a file beside the old one, which then takes its place. Meanwhile turns
wait in the writer's queue; reads wait only while the files change places.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import duckdb

from store.database import Database, Size, options, quoted
from store.errors import DiskTooSmall, StoreUnavailable, told
from store.fetch import Cursor
from store.readers import Readers
from store.writer import Writer

MARGIN_BYTES = 64_000_000
"""Of disk space beside the copy: for the log of what is written before and after it."""
MARGIN_SHARE = 0.1
"""Rows may be packed less tightly in another file."""
MEMORY = "1GB"
"""For the rows under way and what is read meanwhile; without a bound it would be most of the machine's."""

Tell: TypeAlias = Callable[[str], None]
"""Hears which step begins."""


class Compacted(NamedTuple):
    """What came of it, in bytes of file and log."""

    bytes_before: int
    bytes_after: int


def needed_bytes(size: Size) -> int:
    """The disk space it takes to rewrite a database of this size."""
    return round(_used(size) * (1 + MARGIN_SHARE)) + MARGIN_BYTES


def require_room(size: Size) -> None:
    """Raise DiskTooSmall where a second copy does not fit on the disk."""
    if size.disk_free < needed_bytes(size):
        raise DiskTooSmall(needed_bytes(size), size.disk_free)


def _used(size: Size) -> int:
    return size.file - size.unused + size.log


class Compaction:
    """One compaction: how far it is, and the way to stop it."""

    def __init__(self, database: Database, tell: Tell) -> None:
        self.step = "waiting for what is being written"
        self.bytes_expected = 0
        self._database = database
        self._cursor = database.cursor()
        self._tell = tell
        self._is_stopped = False

    @property
    def bytes_written(self) -> int:
        """How much of the fresh file is there."""
        fresh = self._database.fresh
        return fresh.stat().st_size if fresh.exists() else 0

    def stop(self) -> None:
        """Give up, if the files have not changed places yet."""
        self._is_stopped = True
        self._cursor.interrupt()

    async def run(self, writer: Writer, readers: Readers) -> Compacted:
        """Rewrite the file. Where that fails the old one is as it was.

        Raises DatabaseFileLost, DiskTooSmall, StoreBusy, StoreUnavailable.
        """
        try:
            self._database.require_file()
            before = await asyncio.to_thread(self._database.size, self._cursor)
            require_room(before)
            self.bytes_expected = _used(before)
            async with writer.held():
                await asyncio.to_thread(self._rewrite)
                async with readers.paused():
                    await asyncio.to_thread(self._replace)
        finally:
            self._cursor.close()
        after = await readers.read(self._database.size)
        return Compacted(before.file + before.log, after.file + after.log)

    def _begin(self, step: str) -> None:
        self.step = step
        self._tell(step)

    def _go_on(self, step: str) -> None:
        """Begin a step that can still be left undone. Raises StoreUnavailable."""
        if self._is_stopped:
            raise StoreUnavailable("the compaction was stopped")
        self._begin(step)

    def _rewrite(self) -> None:
        """Write all rows to the fresh file; it is gone again where that fails."""
        try:
            self._go_on("making a new file")
            self._database.make_fresh()
            self._cursor.execute(f"ATTACH {quoted(self._database.fresh)} AS fresh ({options()})")
            try:
                self._cursor.execute(f"SET GLOBAL memory_limit = '{MEMORY}'")
                self._copy()
            finally:
                self._cursor.execute("RESET GLOBAL memory_limit")
                self._cursor.execute("DETACH fresh")
                self._cursor.close()  # nobody may have one when the files change places
        except duckdb.Error as error:
            self._database.remove_fresh()
            raise StoreUnavailable(f"the record could not be rewritten: {told(error)}") from error
        except BaseException:
            self._database.remove_fresh()
            raise

    def _replace(self) -> None:
        try:
            self._database.take_fresh(self._begin)
        except StoreUnavailable:
            self._database.remove_fresh()
            raise

    def _copy(self) -> None:
        found = self._cursor.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = 'cuebook' ORDER BY estimated_size, table_name"
        ).fetchall()
        for (table,) in found:
            self._go_on(f"copying {table}")
            _copy_table(self._cursor, table)
        self._cursor.execute("UPDATE fresh.main.erasures SET compacted_at = now() WHERE compacted_at IS NULL")
        self._go_on("writing it to disk")
        self._cursor.execute("CHECKPOINT fresh")


def _copy_table(cursor: Cursor, table: str) -> None:
    """All rows of a table, in their order. Raises StoreUnavailable where the copy has not as many."""
    source, target = f"cuebook.main.{table}", f"fresh.main.{table}"
    cursor.execute(f"DELETE FROM {target}")  # noqa: S608  (there are `migrations`: those that made it)
    cursor.execute(f"INSERT INTO {target} BY NAME SELECT * FROM {source}")  # noqa: S608
    counts = cursor.execute(f"SELECT (SELECT count(*) FROM {source}), (SELECT count(*) FROM {target})").fetchall()  # noqa: S608
    if counts[0][0] != counts[0][1]:
        raise StoreUnavailable(f"{table} has {counts[0][0]} rows, its copy has {counts[0][1]}")

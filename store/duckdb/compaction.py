"""Rewrite the database into a new file, because DuckDB leaves the bytes of deleted rows in blocks that it reuses later.

All rows are copied table by table, in their order, into a file in the same folder, which then replaces the old one.
During the copy, turns wait in the writer's queue; reads wait only while the file is replaced.
"""

import asyncio

import duckdb

from store.duckdb.database import Database
from store.duckdb.database_file import options, quoted
from store.duckdb.fetch import Cursor
from store.duckdb.readers import Readers
from store.duckdb.writer import Writer
from store.interface.errors import DiskTooSmall, StoreUnavailable, describe_error
from store.interface.maintenance_rows import CompactionResult, OnStep, Size

MEMORY = "1GB"
"""Memory limit of the copy and the concurrent reads; DuckDB's default is most of the machine's memory."""


def require_room(size: Size) -> None:
    """Raise DiskTooSmall if a second copy does not fit on the disk."""
    if size.disk_free < size.needed:
        raise DiskTooSmall(size.needed, size.disk_free)


class Compaction:
    """A compaction: run it once, observe its progress, or stop it."""

    def __init__(self, database: Database, on_step: OnStep) -> None:
        self.step = "waiting for writes in progress"
        self.bytes_expected = 0
        self._database = database
        self._cursor = database.cursor()
        self._on_step = on_step
        self._is_stopped = False

    @property
    def bytes_written(self) -> int:
        """The current size of the new file, in bytes."""
        fresh = self._database.fresh
        return fresh.stat().st_size if fresh.exists() else 0

    def stop(self) -> None:
        """Stop the compaction, unless the file has already been replaced."""
        self._is_stopped = True
        self._cursor.interrupt()

    async def run(self, writer: Writer, readers: Readers) -> CompactionResult:
        """Rewrite the file. If that fails, the old file is unchanged.

        Raises DatabaseFileLost, DiskTooSmall, StoreBusy, StoreUnavailable.
        """
        try:
            self._database.require_file()
            before = await asyncio.to_thread(self._database.size, self._cursor)
            require_room(before)
            self.bytes_expected = before.used
            async with writer.paused():
                await asyncio.to_thread(self._rewrite)
                async with readers.paused():
                    await asyncio.to_thread(self._replace)
        finally:
            self._cursor.close()
        after = await readers.read(self._database.size)
        return CompactionResult(before.file + before.log, after.file + after.log)

    def _begin(self, step: str) -> None:
        self.step = step
        self._on_step(step)

    def _begin_or_stop(self, step: str) -> None:
        """Begin a step before which the compaction can be stopped. Raises StoreUnavailable if it was stopped."""
        if self._is_stopped:
            raise StoreUnavailable("the compaction was stopped")
        self._begin(step)

    def _rewrite(self) -> None:
        """Write all rows to the new file; delete the new file if that fails."""
        try:
            self._begin_or_stop("creating a new file")
            self._database.make_fresh()
            self._cursor.execute(f"ATTACH {quoted(self._database.fresh)} AS fresh ({options()})")
            try:
                self._cursor.execute(f"SET GLOBAL memory_limit = '{MEMORY}'")
                self._copy()
            finally:
                self._cursor.execute("RESET GLOBAL memory_limit")
                self._cursor.execute("DETACH fresh")
                self._cursor.close()  # no cursor may be open when the file is replaced
        except duckdb.Error as error:
            self._database.remove_fresh()
            raise StoreUnavailable(f"the database could not be rewritten: {describe_error(error)}") from error
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
            self._begin_or_stop(f"copying {table}")
            _copy_table(self._cursor, table)
        self._cursor.execute("UPDATE fresh.main.erasures SET compacted_at = now() WHERE compacted_at IS NULL")
        self._begin_or_stop("writing the new file to disk")
        self._cursor.execute("CHECKPOINT fresh")


def _copy_table(cursor: Cursor, table: str) -> None:
    """Copy all rows of a table, in their order. Raises StoreUnavailable if the numbers of rows differ."""
    source, target = f"cuebook.main.{table}", f"fresh.main.{table}"
    cursor.execute(f"DELETE FROM {target}")  # noqa: S608  (`migrations` has rows: those of the new file)
    cursor.execute(f"INSERT INTO {target} BY NAME SELECT * FROM {source}")  # noqa: S608
    counts = cursor.execute(f"SELECT (SELECT count(*) FROM {source}), (SELECT count(*) FROM {target})").fetchall()  # noqa: S608
    if counts[0][0] != counts[0][1]:
        raise StoreUnavailable(f"table {table} has {counts[0][0]} rows, but its copy has {counts[0][1]}")

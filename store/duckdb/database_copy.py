"""Copy all rows of the database into a new file, table by table, in their order; reads and turns continue meanwhile."""

import asyncio
import contextlib
from pathlib import Path

import duckdb

from store.duckdb.connection import with_cursor
from store.duckdb.database import Database, make_empty, remove_database
from store.duckdb.database_file import options, quote
from store.duckdb.engine import DuckDBEngine
from store.duckdb.statements import Cursor, transaction
from store.interface.errors import DiskTooSmall, StoreUnavailable, describe_error, write_failure
from store.interface.maintenance_rows import CompactionResult, OnStep, Size
from store.interface.private_files import FILE_NAME, make_folder, sync

MEMORY = "1GB"
"""Memory limit of the copy and the concurrent reads; DuckDB's default is most of the machine's memory."""


def require_room(size: Size, free: int) -> None:
    """Raise DiskTooSmall if a copy does not fit into the free bytes of a disk."""
    if free < size.needed:
        raise DiskTooSmall(size.needed, free)


class DatabaseCopy:
    """A copy: write it once, observe its progress, or stop it. It has the rows of the moment at which it begins."""

    def __init__(self, database: Database, target: Path, bytes_expected: int, on_step: OnStep) -> None:
        self.step = "waiting for writes in progress"
        self.bytes_expected = bytes_expected
        self._target = target
        self._cursor = database.cursor()
        self._on_step = on_step
        self._is_stopped = False

    @property
    def bytes_written(self) -> int:
        """The current size of the new file, in bytes."""
        return self._target.stat().st_size if self._target.exists() else 0

    def stop(self) -> None:
        """Stop the copy, unless all of it is written."""
        self._is_stopped = True
        with contextlib.suppress(duckdb.ConnectionException):  # closed: all of it is written
            self._cursor.interrupt()

    def begin(self, step: str) -> None:
        """Begin a step."""
        self.step = step
        self._on_step(step)

    def write(self, *, erased_bytes_remain: bool) -> None:
        """Write the new file, and close it; delete it if that fails.

        Unless `erased_bytes_remain` elsewhere, the receipts of erasures in the copy say that those bytes are gone.
        Raises StoreUnavailable.
        """
        try:
            self._begin_or_stop("creating a new file")
            make_empty(self._target)
            self._cursor.execute(f"ATTACH {quote(self._target)} AS fresh ({options()})")
            try:
                self._cursor.execute(f"SET GLOBAL memory_limit = '{MEMORY}'")
                self._copy_tables()
                if not erased_bytes_remain:
                    self._cursor.execute(
                        "UPDATE fresh.main.erasures SET compacted_at = now() WHERE compacted_at IS NULL"
                    )
                self._begin_or_stop("writing the new file to disk")
                self._cursor.execute("CHECKPOINT fresh")
            finally:
                self._cursor.execute("RESET GLOBAL memory_limit")
                self._cursor.execute("DETACH fresh")
        except duckdb.Error as error:
            remove_database(self._target)
            failed = StoreUnavailable(f"the database could not be copied: {describe_error(error)}")
            raise write_failure(error, "the copy of the database", failed) from error
        except BaseException:
            remove_database(self._target)
            raise

    def close(self) -> None:
        """Close the cursor."""
        self._cursor.close()

    def _begin_or_stop(self, step: str) -> None:
        """Begin a step before which the copy can be stopped. Raises StoreUnavailable if it was stopped."""
        if self._is_stopped:
            raise StoreUnavailable("the copy of the database was stopped")
        self.begin(step)

    def _copy_tables(self) -> None:
        found = self._cursor.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = 'cuebook' ORDER BY estimated_size, table_name"
        ).fetchall()
        for (table,) in found:  # a new file has some rows of its own
            self._cursor.execute(f"DELETE FROM fresh.main.{table}")  # noqa: S608
        with transaction(self._cursor):  # it reads the rows of one moment, whatever is committed
            for (table,) in found:
                self._begin_or_stop(f"copying {table}")
                _copy_table(self._cursor, table)


def _copy_table(cursor: Cursor, table: str) -> None:
    """Copy all rows of a table, in their order. Raises StoreUnavailable if the numbers of rows differ."""
    source, target = f"cuebook.main.{table}", f"fresh.main.{table}"
    cursor.execute(f"INSERT INTO {target} BY NAME SELECT * FROM {source}")  # noqa: S608
    counts = cursor.execute(f"SELECT (SELECT count(*) FROM {source}), (SELECT count(*) FROM {target})").fetchall()  # noqa: S608
    if counts[0][0] != counts[0][1]:
        raise StoreUnavailable(f"table {table} has {counts[0][0]} rows, but its copy has {counts[0][1]}")


async def back_up(copy: DatabaseCopy, folder: Path) -> int:
    """Write a backup, `copy`, and sync it; return the size of the file in bytes. Raises OSError, StoreUnavailable."""
    path = folder / FILE_NAME
    await asyncio.to_thread(copy.write, erased_bytes_remain=True)
    await asyncio.to_thread(sync, path)
    await asyncio.to_thread(sync, folder)
    return path.stat().st_size


def target_in(folder: Path) -> Path:
    """Create a folder, and return the path of the copy in it. Raises OSError."""
    make_folder(folder)
    return folder / FILE_NAME


async def compact(copy: DatabaseCopy, before: Size, engine: DuckDBEngine) -> CompactionResult:
    """Rewrite the file as `copy`, because DuckDB leaves the bytes of deleted rows in blocks that it reuses later.

    All rows are copied into a file in the same folder, which then replaces the old one. During the copy, turns wait in
    the writer's queue; reads wait only while the file is replaced. If it fails, the old file is unchanged.

    Raises DatabaseFileLost, StoreBusy, StoreUnavailable.
    """
    database = engine.database
    async with engine.writer.pause():
        await asyncio.to_thread(copy.write, erased_bytes_remain=False)
        copy.close()  # no cursor may be open when the file is replaced
        try:
            async with engine.reads_paused():
                await asyncio.to_thread(database.take_fresh, copy.begin)
        except OSError as error:
            raise StoreUnavailable(f"{database.path} could not be replaced: {error.strerror}") from error
        finally:  # after the replacement it does not exist
            await asyncio.to_thread(remove_database, database.fresh)
    after = await engine.read(with_cursor(database.size))
    return CompactionResult(before.file + before.log, after.file + after.log)

"""Rewrite the database into a new file, because DuckDB leaves the bytes of deleted rows in blocks that it reuses later.

All rows are copied into a file in the same folder, which then replaces the old one. During the copy, turns wait in the
writer's queue; reads wait only while the file is replaced.
"""

import asyncio

from store.duckdb.connection import with_cursor
from store.duckdb.database import Database, remove_database
from store.duckdb.database_copy import DatabaseCopy
from store.duckdb.readers import Readers
from store.duckdb.writer import Writer
from store.interface.errors import StoreUnavailable
from store.interface.maintenance_rows import CompactionResult, Size


async def compact(
    copy: DatabaseCopy, before: Size, database: Database, writer: Writer, readers: Readers
) -> CompactionResult:
    """Rewrite the file as `copy`. If that fails, the old file is unchanged.

    Raises DatabaseFileLost, StoreBusy, StoreUnavailable.
    """
    async with writer.paused():
        await asyncio.to_thread(copy.write, erased_bytes_remain=False)
        copy.close()  # no cursor may be open when the file is replaced
        try:
            async with readers.paused():
                await asyncio.to_thread(database.take_fresh, copy.begin)
        except OSError as error:
            raise StoreUnavailable(f"{database.path} could not be replaced: {error.strerror}") from error
        finally:  # after the replacement it does not exist
            await asyncio.to_thread(remove_database, database.fresh)
    after = await readers.read(with_cursor(database.size))
    return CompactionResult(before.file + before.log, after.file + after.log)

"""Write a copy of the database into a folder while it is used; reads and turns continue meanwhile."""

import asyncio
from pathlib import Path

from store.duckdb.database_copy import DatabaseCopy
from store.interface.private_files import FILE_NAME, make_folder, sync


async def back_up(copy: DatabaseCopy, folder: Path) -> int:
    """Write `copy` and sync it; return the size of the file in bytes. Raises OSError, StoreUnavailable."""
    path = folder / FILE_NAME
    await asyncio.to_thread(copy.write, erased_bytes_remain=True)
    await asyncio.to_thread(sync, path)
    await asyncio.to_thread(sync, folder)
    return path.stat().st_size


def target_in(folder: Path) -> Path:
    """Create a folder, and return the path of the copy in it. Raises OSError."""
    make_folder(folder)
    return folder / FILE_NAME

"""Writes a memory to a file, page by page."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path

from api.memory.row_mapping import fields_of
from api.memory.transfers import as_json, as_parquet, as_sqlite
from api.memory.transfers.memory_document import SHARED, AddUnits, Form, GroupPart, Header, UnitPart
from store.interface.errors import MemoryMoved, StoreBusy
from store.interface.memory_rows import OwnerRow
from store.memory.memory_repository import MemoryRepository

PAGE_UNITS = 1_000
ATTEMPTS_MAX = 7
"""Attempts, if units are added or removed during the export."""
PAUSE_S = 0.1
"""Pause before the second attempt; doubles before each further one: 6.3 s in all, so that maintenance can end."""

_WRITING: Mapping[Form, Callable[[Path, Header], AbstractContextManager[AddUnits]]] = {
    "json": as_json.writing,
    "parquet": as_parquet.writing,
    "sqlite": as_sqlite.writing,
}


async def export_memory(
    memory: MemoryRepository, tenant: str, user_id: str, path: Path, form: Form, *, embedder: str | None = None
) -> bool:
    """Write a consistent copy of a memory, with the vectors of `embedder` if set; return whether there is a memory.

    Raises StoreBusy if the memory changes during all attempts, OSError, and the errors of reading the database.
    """
    for attempt in range(ATTEMPTS_MAX):
        if attempt:
            await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1))
        owner = await memory.owner(tenant, user_id)
        if owner is None:
            return False
        with suppress(MemoryMoved):
            await _export(memory, owner, path, form, embedder)
            return True
    raise StoreBusy("the memory changes faster than it can be exported; try again later")


async def _export(memory: MemoryRepository, owner: OwnerRow, path: Path, form: Form, embedder: str | None) -> None:
    """Write the pages. Raises MemoryMoved if the memory changed between two pages."""
    tenant, user_id = owner.tenant, owner.user_id
    before = await memory.stamp(tenant, user_id)
    groups = [
        GroupPart(group_id=row.group_id, created_at=row.created_at) for row in await memory.groups(tenant, user_id)
    ]
    header = Header(memory_id=owner.memory_id, embedder=embedder, groups=groups)
    after = 0
    async with _in_thread(_WRITING[form](path, header)) as add:
        while rows := await memory.units(tenant, user_id, after=after, limit=PAGE_UNITS):
            found: dict[int, bytes] = {}
            if embedder is not None:
                read = await memory.vectors(tenant, user_id, embedder, after=after, last=rows[-1].sequence)
                found = dict(zip(read.sequences, read.vectors, strict=True))
            parts = [UnitPart(**fields_of(row, SHARED), vector=found.get(row.sequence)) for row in rows]
            await asyncio.to_thread(add, parts)
            after = rows[-1].sequence
        if await memory.stamp(tenant, user_id) != before:
            raise MemoryMoved("units of the memory were added or removed during the export")


@asynccontextmanager
async def _in_thread(file: AbstractContextManager[AddUnits]) -> AsyncIterator[AddUnits]:
    """Open and close the file in a thread, not in the event loop."""
    add = await asyncio.to_thread(file.__enter__)
    try:
        yield add
    except BaseException as error:
        await asyncio.to_thread(file.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(file.__exit__, None, None, None)

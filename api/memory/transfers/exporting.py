"""Writes a memory to a file, page by page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from api.memory.transfers import as_json, as_parquet, as_sqlite
from api.memory.transfers.document import Form, GroupPart, Header, Sink, Tell, UnitPart
from store.errors import MemoryMoved, StoreBusy
from store.memory.record import MemoryRecord
from store.memory.rows import OwnerRow, UnitRow

PAGE_UNITS = 1_000
ATTEMPTS_MAX = 7
"""A memory whose units come and go meanwhile is written again."""
PAUSE_S = 0.1
"""Before the second attempt, and twice as long before each further one: 6.3 s in all, for the work on it to end."""


class Exported(Struct, frozen=True):
    """What was written."""

    units: int
    groups: int
    vectors: int


async def export_memory(
    memory: MemoryRecord,
    tenant: str,
    user_id: str,
    path: Path,
    form: Form,
    *,
    embedder: str | None = None,
    tell: Tell = lambda done, total: None,
) -> Exported | None:
    """Write a memory as it is at one moment, with the vectors of an embedder if one is named; None where there is none.

    Raises StoreBusy where it does not stay the same for long enough, OSError, and what reading the record raises.
    """
    for attempt in range(ATTEMPTS_MAX):
        if attempt:
            await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1))
        owner = await memory.owner(tenant, user_id)
        if owner is None:
            return None
        try:
            return await _export(memory, owner, path, form, embedder, tell)
        except MemoryMoved:
            continue
    raise StoreBusy("the memory changes faster than it can be written down")


async def _export(
    memory: MemoryRecord, owner: OwnerRow, path: Path, form: Form, embedder: str | None, tell: Tell
) -> Exported:
    """Write the pages. Raises MemoryMoved where they are not all of one moment."""
    tenant, user_id = owner.tenant, owner.user_id
    before = await memory.stamp(tenant, user_id)
    groups = [
        GroupPart(group_id=row.group_id, created_at=row.created_at) for row in await memory.groups(tenant, user_id)
    ]
    header = Header(memory_id=owner.memory_id, embedder=embedder, groups=groups)
    units, vectors, after = 0, 0, 0
    async with _aside(_writing(path, form, header)) as sink:
        while rows := await memory.units(tenant, user_id, after=after, limit=PAGE_UNITS):
            found: dict[int, bytes] = {}
            if embedder is not None:
                last = rows[-1].sequence
                read = await memory.vectors_between(tenant, user_id, embedder, after=after, last=last)
                found = dict(zip(read.sequences, read.vectors, strict=True))
            await asyncio.to_thread(sink.add, [_part(row, found.get(row.sequence)) for row in rows])
            units, vectors, after = units + len(rows), vectors + len(found), rows[-1].sequence
            tell(after, owner.sequence)
        if await memory.stamp(tenant, user_id) != before:
            raise MemoryMoved("units of the memory came or went while it was written down")
    return Exported(units, len(groups), vectors)


@asynccontextmanager
async def _aside(file: AbstractContextManager[Sink]) -> AsyncIterator[Sink]:
    """The file, opened and closed off the event loop."""
    sink = await asyncio.to_thread(file.__enter__)
    try:
        yield sink
    except BaseException as error:
        await asyncio.to_thread(file.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(file.__exit__, None, None, None)


def _writing(path: Path, form: Form, header: Header) -> AbstractContextManager[Sink]:
    match form:
        case "json":
            return as_json.writing(path, header)
        case "parquet":
            return as_parquet.writing(path, header)
        case "sqlite":
            return as_sqlite.writing(path, header)


def _part(row: UnitRow, vector: bytes | None) -> UnitPart:
    return UnitPart(**{name: getattr(row, name) for name in _SHARED}, vector=vector)


_SHARED = [name for name in UnitPart.__struct_fields__ if name != "vector"]

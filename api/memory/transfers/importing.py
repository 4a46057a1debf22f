"""Brings a memory out of a file into the record: all of it is checked first, and written in one transaction.

Its units come after those that are there, in their order, and in collections: what was said in a session is that
session's only in the record it comes from. A summary of the whole memory is left out where the memory has one already;
what it told is told in that one next.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from api.memory.transfers import as_json, as_parquet, as_sqlite
from api.memory.transfers.checking import Content, checked
from api.memory.transfers.document import Form, Source, Tell, UnitPart
from store.errors import MemoryMoved, StoreBusy
from store.memory.filters import parse
from store.memory.record import MemoryRecord
from store.memory.rows import GroupRow, MemoryChange, OwnerRow, UnitRow, VectorRows

BATCH_UNITS = 2_000
ATTEMPTS_MAX = 3
"""What was planned for a memory that has changed meanwhile is planned anew."""
TOLD_MAX = 10
"""Ids that are told where some are taken."""

OnTaken: TypeAlias = Literal["refuse", "rename"]


class IdsTaken(ValueError):
    """Groups or units of a file have ids that are taken in the memory; nothing was written."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids
        more = f" and {len(ids) - TOLD_MAX} more" if len(ids) > TOLD_MAX else ""
        super().__init__(
            f"the memory has {', '.join(map(repr, ids[:TOLD_MAX]))}{more} already: "
            "give what is taken other ids with `rename`, or bring it into another memory"
        )


class Target(Struct, frozen=True, kw_only=True):
    """Whose memory it becomes, and how."""

    tenant: str
    user_id: str
    memory_id: str
    """Of the memory, where the user has none yet."""
    now: datetime
    on_taken: OnTaken = "refuse"
    is_trusted: bool = False
    """Whether units are trusted as the file says; else all of them are foreign."""
    dry_run: bool = False


class Imported(Struct, frozen=True, kw_only=True):
    """What came of a file, or would come."""

    units: int
    groups: int
    vectors: int
    embedder: str | None
    renamed: Mapping[str, str]
    """By the ids in the file that were taken."""
    left_out: int
    """Summaries of the whole memory."""


async def import_memory(
    memory: MemoryRecord, target: Target, path: Path, form: Form, *, tell: Tell = lambda done, total: None
) -> Imported:
    """Bring a file into a memory. `tell` is called in another thread, while the file is read.

    Raises DocumentInvalid, IdsTaken, OSError, StoreBusy, and what writing the record raises.
    """
    return await import_content(memory, target, await asyncio.to_thread(_read, path, form, target.now, tell))


async def import_content(memory: MemoryRecord, target: Target, content: Content) -> Imported:
    """Bring what has been checked into a memory. Raises IdsTaken, StoreBusy, and what writing the record raises."""
    for _ in range(ATTEMPTS_MAX):
        stamp = await memory.stamp(target.tenant, target.user_id)
        plan = await _planned(memory, target, content)
        if target.dry_run:
            return plan.outcome
        try:
            await memory.bring(target.tenant, target.user_id, stamp, plan.changes())
        except MemoryMoved:
            continue
        return plan.outcome
    raise StoreBusy("the memory changes faster than something can be brought into it")


def _read(path: Path, form: Form, now: datetime, tell: Tell) -> Content:
    with _reading(path, form, now) as source:
        return checked(source, tell)


def _reading(path: Path, form: Form, now: datetime) -> AbstractContextManager[Source]:
    match form:
        case "json":
            return as_json.reading(path)
        case "parquet":
            return as_parquet.reading(path)
        case "sqlite":
            return as_sqlite.reading(path, now)


# -- what becomes of it ---------------------------------------------------------------------------------------------


class _Plan(Struct, frozen=True, kw_only=True):
    """What is written, and under which ids and numbers."""

    owner: OwnerRow
    groups: list[GroupRow]
    units: list[UnitPart]
    first: int
    """The number that the first unit gets."""
    ids: Mapping[str, str]
    """Of units, by those in the file."""
    group_ids: Mapping[str, str]
    embedder: str | None
    is_trusted: bool
    outcome: Imported

    def changes(self) -> Iterator[MemoryChange]:
        """What is written, some units at a time."""
        numbers = [unit.sequence for unit in self.units]
        tenant, user_id = self.owner.tenant, self.owner.user_id
        yield MemoryChange(tenant=tenant, user_id=user_id, owner=self.owner, groups=self.groups)
        for begin in range(0, len(self.units), BATCH_UNITS):
            parts = self.units[begin : begin + BATCH_UNITS]
            rows = [self._row(part, self.first + begin + place, numbers) for place, part in enumerate(parts)]
            seen = [
                (row.sequence, part.vector) for row, part in zip(rows, parts, strict=True) if part.vector is not None
            ]
            vectors = None
            if self.embedder is not None and seen:
                sequences = [sequence for sequence, _ in seen]
                vectors = VectorRows(self.embedder, sequences, [None] * len(seen), [vector for _, vector in seen])
            yield MemoryChange(tenant=tenant, user_id=user_id, units=rows, vectors=vectors)

    def _row(self, part: UnitPart, sequence: int, numbers: list[int]) -> UnitRow:
        last = self.first + len(numbers) - 1
        return UnitRow(
            tenant=self.owner.tenant,
            user_id=self.owner.user_id,
            unit_id=self.ids[part.unit_id],
            sequence=sequence,
            group_id=self.group_ids[part.group_id],
            rank=part.rank,
            level=part.level,
            content=part.content,
            source=part.source,
            creation_time=part.creation_time,
            end_time=part.end_time,
            metadata=dict(part.metadata),
            parent_id=self._id(part.parent_id),
            visit_count=part.visit_count,
            last_visit=max(sequence, self.first - 1 + bisect_right(numbers, part.last_visit)),
            never_delete=part.never_delete,
            trust=part.trust if self.is_trusted else "foreign",
            is_extract=part.is_extract,
            is_stale=part.is_stale,
            tells_from=min(last, self.first + bisect_left(numbers, part.tells_from)) if part.tells_from else 0,
            valid_from=part.valid_from,
            valid_to=part.valid_to,
            superseded_by=self._id(part.superseded_by),
            duplicate_of=self._id(part.duplicate_of),
        )

    def _id(self, unit_id: str | None) -> str | None:
        """The id of another unit of the file; null where that is none of what is written."""
        return None if unit_id is None else self.ids.get(unit_id)


async def _planned(memory: MemoryRecord, target: Target, content: Content) -> _Plan:
    """What is to be written into the memory as it is now. Raises IdsTaken."""
    tenant, user_id = target.tenant, target.user_id
    owner = await memory.owner(tenant, user_id) or OwnerRow(
        tenant=tenant, user_id=user_id, memory_id=target.memory_id, sequence=0, created_at=target.now
    )
    has_account = bool(await memory.matching(tenant, user_id, parse({"rank": 2})))
    units = [unit for unit in content.units if unit.rank < 2 or not has_account]
    file_groups = [group.group_id for group in content.header.groups]
    taken = await memory.ids_taken(tenant, user_id, [*(unit.unit_id for unit in units), *file_groups])
    taken |= {owner.memory_id, *(group.group_id for group in await memory.groups(tenant, user_id))}
    taken |= {behind.session_id for behind in await memory.behind(tenant, user_id)}
    ids, group_ids, renamed = _ids(content, units, owner.memory_id, taken)
    if renamed and target.on_taken == "refuse":
        raise IdsTaken(list(renamed))
    groups = [
        GroupRow(tenant=tenant, user_id=user_id, group_id=group_ids[group.group_id], created_at=group.created_at)
        for group in content.header.groups
    ]
    vectors = sum(unit.vector is not None for unit in units)
    return _Plan(
        owner=msgspec.structs.replace(owner, sequence=owner.sequence + len(units)),
        groups=groups,
        units=units,
        first=owner.sequence + 1,
        ids=ids,
        group_ids=group_ids,
        embedder=content.header.embedder,
        is_trusted=target.is_trusted,
        outcome=Imported(
            units=len(units),
            groups=len(groups),
            vectors=vectors,
            embedder=content.header.embedder if vectors else None,
            renamed=renamed,
            left_out=len(content.units) - len(units),
        ),
    )


def _ids(
    content: Content, units: list[UnitPart], memory_id: str, taken: set[str]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """The new ids of units and of groups, and both of those that were taken. The root of a group has the group's id."""
    used = taken | {unit.unit_id for unit in units} | {group.group_id for group in content.header.groups}
    renamed: dict[str, str] = {}

    def free(known: str) -> str:
        if known not in taken:
            return known
        if known not in renamed:
            renamed[known] = next(each for number in count(2) if (each := f"{known}~{number}") not in used)
            used.add(renamed[known])
        return renamed[known]

    whole = content.header.memory_id
    group_ids = {group.group_id: free(group.group_id) for group in content.header.groups} | {whole: memory_id}
    ids = {
        unit.unit_id: memory_id if unit.rank == 2 and unit.unit_id == whole else free(unit.unit_id) for unit in units
    }
    return ids, group_ids, renamed

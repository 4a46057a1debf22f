"""Imports a memory from a file: validates all of it first, and writes it in one transaction.

The units are appended in their order, and sessions become collections, because their messages belong to sessions of
another database. A summary of the whole memory is left out if the memory has one already; the next update of that
one covers the imported units.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from api.memory.requests import is_within_utc
from api.memory.row_mapping import fields_of
from api.memory.transfers import as_json, as_parquet, as_sqlite
from api.memory.transfers.memory_document import (
    CHARS_MAX,
    FLOAT_BYTES,
    SHARED,
    UNITS_MAX,
    DocumentInvalid,
    Form,
    Header,
    MemorySource,
    UnitPart,
    may_contain,
)
from api.schemas.memory_work import MemoryImportView
from runtime.memory.short_term import ShortTermMemory
from scripts.expressions.values import ValueRefused, to_value
from store.interface.errors import MemoryMoved, StoreBusy
from store.interface.memory_filters import parse
from store.interface.memory_rows import GroupRow, MemoryChange, OwnerRow, UnitRow, VectorRows
from store.interface.rows import JsonText
from store.memory.memory_repository import MemoryRepository

LENGTH_TOLERANCE = 1e-3
"""Maximum deviation of a vector's length from 1."""
BATCH_UNITS = 2_000
ATTEMPTS_MAX = 3
"""Attempts, if the memory changes between planning and writing."""
REPORTED_MAX = 10
"""Maximum number of existing ids in an error message."""


class Content(Struct, frozen=True):
    """The complete content of a file."""

    header: Header
    units: list[UnitPart]


class IdsExist(ValueError):
    """Groups or units of a file have ids that the memory already contains; nothing was written."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids
        more = f" and {len(ids) - REPORTED_MAX} more" if len(ids) > REPORTED_MAX else ""
        super().__init__(
            f"the memory already contains {', '.join(map(repr, ids[:REPORTED_MAX]))}{more}: "
            "import the file into another memory, or remove them first"
        )


class ImportTarget(Struct, frozen=True, kw_only=True):
    """The target of an import, and its options."""

    tenant: str
    user_id: str
    memory_id: str
    """The id of the memory, if the user has none yet."""
    now: datetime
    is_trusted: bool = False
    """Whether to use the trust levels of the file; otherwise all units are foreign."""
    dry_run: bool = False


async def import_memory(memory: MemoryRepository, target: ImportTarget, path: Path, form: Form) -> MemoryImportView:
    """Import a file into a memory.

    Raises DocumentInvalid, IdsExist, OSError, StoreBusy, and the errors of writing the database.
    """
    return await import_content(memory, target, await asyncio.to_thread(_read, path, form, target.now))


async def import_content(memory: MemoryRepository, target: ImportTarget, content: Content) -> MemoryImportView:
    """Import validated content into a memory. Raises IdsExist, StoreBusy, and the errors of writing the database."""
    for _ in range(ATTEMPTS_MAX):
        stamp = await memory.stamp(target.tenant, target.user_id)
        plan = await _plan(memory, target, content)
        if target.dry_run:
            return plan.outcome
        try:
            await memory.import_units(target.tenant, target.user_id, stamp, plan.changes())
        except MemoryMoved:
            continue
        return plan.outcome
    raise StoreBusy("the memory changes faster than the file can be imported; try again later")


def _read(path: Path, form: Form, now: datetime) -> Content:
    try:
        with open_source(path, form, now) as source:
            return read_content(source)
    except UnicodeDecodeError as error:
        raise DocumentInvalid(f"the file contains text that is not UTF-8: {error}") from error
    except RecursionError as error:
        raise DocumentInvalid("the file contains values that are nested too deeply") from error


def open_source(path: Path, form: Form, now: datetime) -> AbstractContextManager[MemorySource]:
    """Open a file for reading; units of MemForest without a time get `now`. Raises DocumentInvalid."""
    match form:
        case "json":
            return as_json.reading(path)
        case "parquet":
            return as_parquet.reading(path)
        case "sqlite":
            return as_sqlite.reading(path, now)


# -- planning -------------------------------------------------------------------------------------------------------


class _ImportPlan(Struct, frozen=True, kw_only=True):
    """The rows to write, with their new numbers."""

    owner: OwnerRow
    groups: list[GroupRow]
    units: list[UnitPart]
    first: int
    """The number of the first unit."""
    ids: Mapping[str, str]
    """The ids of the imported units by their ids in the file; only that of the summary of the whole memory changes."""
    embedder: str | None
    is_trusted: bool
    outcome: MemoryImportView

    def changes(self) -> Iterator[MemoryChange]:
        """Yield the changes to write, each of at most BATCH_UNITS units."""
        numbers = [unit.sequence for unit in self.units]
        tenant, user_id = self.owner.tenant, self.owner.user_id
        yield MemoryChange(tenant=tenant, user_id=user_id, owner=self.owner, groups=self.groups)
        for begin in range(0, len(self.units), BATCH_UNITS):
            parts = self.units[begin : begin + BATCH_UNITS]
            rows = [self._row(part, self.first + begin + place, numbers) for place, part in enumerate(parts)]
            embedded = [
                (row.sequence, part.vector) for row, part in zip(rows, parts, strict=True) if part.vector is not None
            ]
            vectors = None
            if self.embedder is not None and embedded:
                sequences = [sequence for sequence, _ in embedded]
                values = [vector for _, vector in embedded]
                vectors = VectorRows(self.embedder, sequences, [None] * len(embedded), values)
            yield MemoryChange(tenant=tenant, user_id=user_id, units=rows, vectors=vectors)

    def _row(self, part: UnitPart, sequence: int, numbers: list[int]) -> UnitRow:
        last = self.first + len(numbers) - 1
        fields = fields_of(part, SHARED) | {
            "unit_id": self.ids[part.unit_id],
            "sequence": sequence,
            "group_id": self.owner.memory_id if part.rank == 2 else part.group_id,
            "metadata": dict(part.metadata),
            "parent_id": self._id(part.parent_id),
            "last_visit": max(sequence, self.first - 1 + bisect_right(numbers, part.last_visit)),
            "trust": part.trust if self.is_trusted else "foreign",
            "tells_from": min(last, self.first + bisect_left(numbers, part.tells_from)) if part.tells_from else 0,
            # also by a unit that was forgotten, without which it would count as valid
            "superseded_by": part.superseded_by and self.ids.get(part.superseded_by, part.superseded_by),
            "duplicate_of": self._id(part.duplicate_of),
        }
        return UnitRow(tenant=self.owner.tenant, user_id=self.owner.user_id, **fields)

    def _id(self, unit_id: str | None) -> str | None:
        """Return the new id of another unit of the file, or None if that is not imported."""
        return None if unit_id is None else self.ids.get(unit_id)


async def _plan(memory: MemoryRepository, target: ImportTarget, content: Content) -> _ImportPlan:
    """Plan the import into the current state of the memory. Raises IdsExist."""
    tenant, user_id = target.tenant, target.user_id
    owner = await memory.owner(tenant, user_id) or OwnerRow(
        tenant=tenant, user_id=user_id, memory_id=target.memory_id, sequence=0, created_at=target.now
    )
    has_account = bool(await memory.matching(tenant, user_id, parse({"rank": 2})))
    units = [unit for unit in content.units if unit.rank < 2 or not has_account]
    file_groups = [group.group_id for group in content.header.groups]
    existing = await memory.existing_ids(tenant, user_id, [*(unit.unit_id for unit in units), *file_groups])
    existing |= {owner.memory_id, *(group.group_id for group in await memory.groups(tenant, user_id))}
    existing |= {behind.session_id for behind in await memory.pending_ingest(tenant, user_id)}
    ids = {unit.unit_id: unit.unit_id for unit in units}
    if content.header.memory_id in ids:
        ids[content.header.memory_id] = owner.memory_id
    taken = [each for each in (*file_groups, *ids) if each in existing and each != content.header.memory_id]
    if taken:
        raise IdsExist(list(dict.fromkeys(taken)))
    members = _members(units, owner.sequence + 1)
    groups = [
        GroupRow(
            tenant=tenant,
            user_id=user_id,
            group_id=group.group_id,
            created_at=group.created_at,
            short_term=_with_context(members.get(group.group_id, ())),
        )
        for group in content.header.groups
    ]
    vectors = sum(unit.vector is not None for unit in units)
    return _ImportPlan(
        owner=msgspec.structs.replace(owner, sequence=owner.sequence + len(units)),
        groups=groups,
        units=units,
        first=owner.sequence + 1,
        ids=ids,
        embedder=content.header.embedder,
        is_trusted=target.is_trusted,
        outcome=MemoryImportView(
            units=len(units),
            groups=len(groups),
            vectors=vectors,
            embedder=content.header.embedder if vectors else None,
            left_out=len(content.units) - len(units),
            dry_run=target.dry_run,
        ),
    )


def _members(units: Iterable[UnitPart], first: int) -> dict[str, list[int]]:
    """Return the new numbers of the messages and notes of each group; `first` is that of the first unit."""
    members: dict[str, list[int]] = {}
    for number, unit in enumerate(units, first):
        if unit.rank == 0:
            members.setdefault(unit.group_id, []).append(number)
    return members


def _with_context(members: Iterable[int]) -> JsonText:
    """Return the short-term memory of a group whose context is the newest of its messages and notes."""
    return JsonText(msgspec.json.encode(ShortTermMemory().with_messages(members)))


# -- validation -------------------------------------------------------------------------------------------------------


def read_content(source: MemorySource) -> Content:
    """Read and validate a file. Raises DocumentInvalid for inconsistent content, and for more than can be read."""
    groups = {group.group_id for group in source.header.groups}
    if len(groups) < len(source.header.groups):
        raise DocumentInvalid("groups: a group is listed twice")
    for number, group in enumerate(source.header.groups):
        _require_utc(group.created_at, f"groups[{number}]: created_at")
    if source.header.memory_id in groups:
        raise DocumentInvalid(f"groups: {source.header.memory_id!r} is the id of the memory")
    units: list[UnitPart] = []
    places: dict[str, str] = {}
    last, chars, dimension = 0, 0, None
    for place, unit in source.units:
        if len(units) == UNITS_MAX:
            raise DocumentInvalid(f"{place}: at most {UNITS_MAX} units can be read")
        chars += len(unit.content) + len(msgspec.json.encode(unit.metadata))
        if chars > CHARS_MAX:
            raise DocumentInvalid(f"{place}: contents and metadata have more than {CHARS_MAX} characters together")
        if unit.unit_id in places:
            raise DocumentInvalid(f"{place}: unit {unit.unit_id!r} is already at {places[unit.unit_id]}")
        if unit.sequence <= last:
            raise DocumentInvalid(f"{place}: sequence {unit.sequence} is not above the previous one, {last}")
        _require_consistent(unit, place, groups, source.header.memory_id)
        if unit.vector:
            dimension = dimension or len(unit.vector)
            _require_vector(unit.vector, dimension, place, source.header.embedder)
        places[unit.unit_id] = place
        last = unit.sequence
        units.append(unit)
    _require_tree(units, places)
    return Content(source.header, units)


def _require_consistent(unit: UnitPart, place: str, groups: set[str], memory_id: str) -> None:
    if unit.rank < 2 and unit.group_id not in groups:
        raise DocumentInvalid(f"{place}: group {unit.group_id!r} is not among the groups")
    if unit.rank == 2 and unit.group_id != memory_id:
        raise DocumentInvalid(f"{place}: a unit of rank 2 must be in the group of the memory, {memory_id!r}")
    if (unit.rank == 0) != (unit.level == 0):
        raise DocumentInvalid(f"{place}: level {unit.level} does not fit rank {unit.rank}; only rank 0 has level 0")
    try:
        to_value(unit.metadata)  # metadata that is nested too deeply could be stored, but not be read again
    except ValueRefused as error:
        raise DocumentInvalid(f"{place}: metadata: {error}") from error
    for name in ("creation_time", "end_time", "valid_from", "valid_to"):
        _require_utc(getattr(unit, name), f"{place}: {name}")
    if unit.end_time < unit.creation_time:
        raise DocumentInvalid(f"{place}: end_time is before creation_time")


def _require_utc(time: datetime | None, place: str) -> None:
    if time is not None and not is_within_utc(time):
        raise DocumentInvalid(f"{place} is not within the years 1 to 9999 of UTC")


def _require_vector(vector: bytes, size: int, place: str, embedder: str | None) -> None:
    if embedder is None:
        raise DocumentInvalid(f"{place}: there is a vector, but the header names no embedder")
    if len(vector) != size or size % FLOAT_BYTES:
        raise DocumentInvalid(f"{place}: the vector has {len(vector)} bytes, but the first one has {size}")
    length = float(np.linalg.norm(np.frombuffer(vector, "<f4").astype(np.float64)))
    if not abs(length - 1) <= LENGTH_TOLERANCE:  # also true for NaN
        raise DocumentInvalid(f"{place}: the length of the vector is {length:g}; it must be 1")


def _require_tree(units: Iterable[UnitPart], places: dict[str, str]) -> None:
    """Check that every parent is a higher summary of the same group or of the memory, which rules out cycles."""
    by_id = {unit.unit_id: unit for unit in units}
    for unit in by_id.values():
        if unit.parent_id is None:
            continue
        parent = by_id.get(unit.parent_id)
        if parent is None:
            raise DocumentInvalid(f"{places[unit.unit_id]}: parent {unit.parent_id!r} is not in the file")
        if not may_contain(parent, unit) or (parent.rank, parent.level) <= (unit.rank, unit.level):
            raise DocumentInvalid(
                f"{places[unit.unit_id]}: parent {unit.parent_id!r} is not a higher summary of its group or memory"
            )

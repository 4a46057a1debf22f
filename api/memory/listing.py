"""What there is in a memory: units by pages, groups, and how it stands."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from api.memory.banks import Banks
from api.memory.embedding import Embedding
from api.memory.jobs import JOBS_MAX
from api.memory.loaded import Loaded
from runtime.memory.units import MemoryUnit
from store.fetch import cursor_of, position_of
from store.memory.filters import Filter
from store.memory.record import MemoryRecord
from store.memory.rows import GroupRow, JobRow


class Which(Struct, frozen=True, kw_only=True):
    """Of which units a page is."""

    filters: Filter | None = None
    group: str | None = None
    rank: int | None = None


class PlacedUnit(Struct, frozen=True):
    """A unit with what was said before and after it in its group, and what it sums up."""

    unit: MemoryUnit
    pre_id: str | None
    next_id: str | None
    children_ids: Sequence[str]


class UnitPage(Struct, frozen=True):
    """Some units, and the cursor of the page after them; None on the last one."""

    units: Sequence[PlacedUnit]
    next: str | None


class Group(Struct, frozen=True, kw_only=True):
    """A session or collection, and how much is in it and in its mind."""

    row: GroupRow
    units: int
    summaries: int
    context: int
    short_term: int | None


class GroupPage(Struct, frozen=True):
    """Some groups, and the cursor of the page after them; None on the last one."""

    groups: Sequence[Group]
    next: str | None


class Standing(Struct, frozen=True, kw_only=True):
    """How a memory stands."""

    memory_id: str | None  # None: nothing has ever been in it
    round: int
    units: Mapping[int, int]  # by rank
    groups: int
    is_stale: bool
    embedder: str | None
    embedder_state: str
    vectors: Mapping[str, int]  # by embedder
    without_vector: int
    seen_otherwise: int
    jobs: Sequence[JobRow]  # that wait or are under way


class Listing:
    """Reads of memories that have everything in them that was committed. Raises StoreError."""

    def __init__(self, record: MemoryRecord, banks: Banks, embedding: Embedding) -> None:
        self._record = record
        self._banks = banks
        self._embedding = embedding

    async def units(self, tenant: str, user_id: str, which: Which, limit: int, cursor: str | None) -> UnitPage:
        """A page of units, the oldest first. Raises CursorInvalid, FilterInvalid."""
        after = 0 if cursor is None else position_of(cursor, tuple[int])[0]
        async with self._banks.held(tenant, user_id) as loaded:
            allowed = (
                None if which.filters is None else set(await self._record.matching(tenant, user_id, which.filters))
            )
            found: list[MemoryUnit] = []
            for sequence, unit in loaded.units.items():
                if sequence > after and _is_one(unit, which) and (allowed is None or sequence in allowed):
                    found.append(unit)
                    if len(found) > limit:
                        break
            placed = await asyncio.to_thread(_placed, loaded, found[:limit])
        return UnitPage(placed, cursor_of((placed[-1].unit.sequence,)) if len(found) > limit else None)

    async def unit(self, tenant: str, user_id: str, unit_id: str) -> PlacedUnit | None:
        """One unit."""
        async with self._banks.held(tenant, user_id) as loaded:
            unit = loaded.shown(unit_id)
            return None if unit is None else _placed(loaded, [unit])[0]

    async def groups(self, tenant: str, user_id: str, limit: int, cursor: str | None) -> GroupPage:
        """A page of sessions and collections, the oldest first. Raises CursorInvalid."""
        after = None if cursor is None else position_of(cursor, tuple[str, str])
        async with self._banks.held(tenant, user_id) as loaded:
            rows = sorted(loaded.groups.values(), key=_place)
            left = [row for row in rows if after is None or _place(row) > after]
            groups = _counted(loaded, left[:limit])
        return GroupPage(groups, cursor_of(_place(groups[-1].row)) if len(left) > limit else None)

    async def group(self, tenant: str, user_id: str, group_id: str) -> Group | None:
        """One session or collection."""
        async with self._banks.held(tenant, user_id) as loaded:
            row = loaded.groups.get(group_id)
            return None if row is None else _counted(loaded, [row])[0]

    async def standing(self, tenant: str, user_id: str) -> Standing:
        """How a memory stands."""
        async with self._banks.held(tenant, user_id) as loaded:
            return Standing(
                memory_id=loaded.owner.memory_id if loaded.round else None,
                round=loaded.round,
                units=Counter(unit.rank for unit in loaded.units.values() if not unit.is_stale),
                groups=len(loaded.groups),
                is_stale=loaded.owner.is_stale or bool(loaded.stale),
                embedder=loaded.embedder,
                embedder_state=self._embedding.state,
                vectors=await self._record.embedders(tenant, user_id),
                without_vector=len(loaded.without_vector),
                seen_otherwise=len(loaded.seen_otherwise),
                jobs=await self._record.unfinished_jobs(tenant, user_id, JOBS_MAX),
            )


def _is_one(unit: MemoryUnit, which: Which) -> bool:
    return which.group in {None, unit.group_id} and which.rank in {None, unit.rank} and not unit.is_stale


def _placed(loaded: Loaded, units: Sequence[MemoryUnit]) -> list[PlacedUnit]:
    children: dict[str, list[str]] = {unit.unit_id: [] for unit in units if unit.rank > 0}
    if children:
        for unit in loaded.units.values():
            if unit.parent_id in children:
                children[unit.parent_id].append(unit.unit_id)
    return [PlacedUnit(unit, *loaded.neighbours(unit.sequence), children.get(unit.unit_id, ())) for unit in units]


def _place(row: GroupRow) -> tuple[str, str]:
    """Where a group stands in the list of them: its time as text in UTC, which is in the order of time."""
    return row.created_at.isoformat(timespec="microseconds"), row.group_id


def _counted(loaded: Loaded, rows: Sequence[GroupRow]) -> list[Group]:
    summaries = Counter(unit.group_id for unit in loaded.units.values() if unit.rank == 1 and not unit.is_stale)
    return [
        Group(
            row=row,
            units=len(loaded.order.get(row.group_id, ())),
            summaries=summaries[row.group_id],
            context=len(mind.context),
            short_term=None if mind.short_term is None else len(mind.short_term),
        )
        for row in rows
        for mind in [loaded.minds[row.group_id].working]
    ]

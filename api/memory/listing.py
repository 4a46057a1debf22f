"""Lists the units and groups of a memory page by page, and reports its statistics."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from api.memory.cache import MemoryCache
from api.memory.embedding import EmbeddingService
from api.memory.jobs import JOBS_MAX
from api.memory.loaded_memory import LoadedMemory
from runtime.memory.units import MemoryUnit
from store.interface.memory_filters import Filter
from store.interface.memory_rows import GroupRow, JobRow
from store.interface.pages import Page, cursor_of, position_of
from store.memory.memory_repository import MemoryRepository


class UnitFilter(Struct, frozen=True, kw_only=True):
    """Selects the units of a page."""

    filters: Filter | None = None
    group: str | None = None
    rank: int | None = None


class PlacedUnit(Struct, frozen=True):
    """A unit with its neighbours in its group, and for a summary the units that it covers."""

    unit: MemoryUnit
    pre_id: str | None
    next_id: str | None
    children_ids: Sequence[str]


class Group(Struct, frozen=True, kw_only=True):
    """A session or collection, with the sizes of its long and short-term memory."""

    row: GroupRow
    units: int
    summaries: int
    context: int
    short_term: int | None


class MemoryStats(Struct, frozen=True, kw_only=True):
    """Statistics of a memory."""

    memory_id: str | None  # None: it never contained a unit
    round: int
    units: Mapping[int, int]  # by rank
    groups: int
    is_stale: bool
    embedder: str | None
    embedder_state: str
    vectors: Mapping[str, int]  # by embedder
    without_vector: int
    seen_otherwise: int
    jobs: Sequence[JobRow]  # queued or running


class Listing(Struct, frozen=True):
    """Reads memories, including all committed turns. Every method raises StoreError."""

    store: MemoryRepository
    memory_cache: MemoryCache
    embedding: EmbeddingService

    async def units(
        self, tenant: str, user_id: str, which: UnitFilter, limit: int, cursor: str | None
    ) -> Page[PlacedUnit]:
        """Return a page of units, oldest first. Raises CursorInvalid, FilterInvalid."""
        after = 0 if cursor is None else position_of(cursor, tuple[int])[0]
        async with self.memory_cache.locked(tenant, user_id) as loaded:
            allowed = None if which.filters is None else set(await self.store.matching(tenant, user_id, which.filters))
            found: list[MemoryUnit] = []
            for sequence, unit in loaded.units.items():
                if sequence > after and _matches(unit, which) and (allowed is None or sequence in allowed):
                    found.append(unit)
                    if len(found) > limit:
                        break
            placed = await asyncio.to_thread(_with_links, loaded, found[:limit])
        return Page(placed, cursor_of((placed[-1].unit.sequence,)) if len(found) > limit else None)

    async def unit(self, tenant: str, user_id: str, unit_id: str) -> PlacedUnit | None:
        """Return a unit, or None if there is none with this id."""
        async with self.memory_cache.locked(tenant, user_id) as loaded:
            unit = loaded.shown(unit_id)
            return None if unit is None else _with_links(loaded, [unit])[0]

    async def groups(self, tenant: str, user_id: str, limit: int, cursor: str | None) -> Page[Group]:
        """Return a page of sessions and collections, oldest first. Raises CursorInvalid."""
        after = None if cursor is None else position_of(cursor, tuple[str, str])
        async with self.memory_cache.locked(tenant, user_id) as loaded:
            rows = sorted(loaded.groups.values(), key=_sort_key)
            left = [row for row in rows if after is None or _sort_key(row) > after]
            groups = _with_counts(loaded, left[:limit])
        return Page(groups, cursor_of(_sort_key(groups[-1].row)) if len(left) > limit else None)

    async def group(self, tenant: str, user_id: str, group_id: str) -> Group | None:
        """Return a session or collection, or None if there is none with this id."""
        async with self.memory_cache.locked(tenant, user_id) as loaded:
            row = loaded.groups.get(group_id)
            return None if row is None else _with_counts(loaded, [row])[0]

    async def stats(self, tenant: str, user_id: str) -> MemoryStats:
        """Return the statistics of a memory."""
        async with self.memory_cache.locked(tenant, user_id) as loaded:
            return MemoryStats(
                memory_id=loaded.owner.memory_id if loaded.round else None,
                round=loaded.round,
                units=Counter(unit.rank for unit in loaded.units.values() if not unit.is_stale),
                groups=len(loaded.groups),
                is_stale=loaded.owner.is_stale or bool(loaded.stale),
                embedder=loaded.embedder,
                embedder_state=self.embedding.state,
                vectors=await self.store.embedders(tenant, user_id),
                without_vector=len(loaded.without_vector),
                seen_otherwise=len(loaded.seen_otherwise),
                jobs=await self.store.unfinished_jobs(tenant, user_id, JOBS_MAX),
            )


def _matches(unit: MemoryUnit, which: UnitFilter) -> bool:
    return which.group in {None, unit.group_id} and which.rank in {None, unit.rank} and not unit.is_stale


def _with_links(loaded: LoadedMemory, units: Sequence[MemoryUnit]) -> list[PlacedUnit]:
    children: dict[str, list[str]] = {unit.unit_id: [] for unit in units if unit.rank > 0}
    if children:
        for unit in loaded.units.values():
            if unit.parent_id in children:
                children[unit.parent_id].append(unit.unit_id)
    return [PlacedUnit(unit, *loaded.neighbours(unit.sequence), children.get(unit.unit_id, ())) for unit in units]


def _sort_key(row: GroupRow) -> tuple[str, str]:
    """Return the sort key of a group: its time as text in UTC, which sorts by time, and its id."""
    return row.created_at.isoformat(timespec="microseconds"), row.group_id


def _with_counts(loaded: LoadedMemory, rows: Sequence[GroupRow]) -> list[Group]:
    summaries = Counter(unit.group_id for unit in loaded.units.values() if unit.rank == 1 and not unit.is_stale)
    return [
        Group(
            row=row,
            units=len(loaded.order.get(row.group_id, ())),
            summaries=summaries[row.group_id],
            context=len(short_term.context),
            short_term=None if short_term.short_term is None else len(short_term.short_term),
        )
        for row in rows
        for short_term in [loaded.short_terms[row.group_id].working]
    ]

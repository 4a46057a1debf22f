"""Lists the units and groups of a memory page by page, and reports its statistics."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from api.memory.cache import MemoryCache
from api.memory.embedding import EmbeddingService
from api.memory.jobs import JOBS_MAX
from api.memory.loaded_memory import LoadedMemory
from api.schemas.memory import GroupView, UnitView
from api.schemas.memory_work import EmbedderView, JobView, StatusView, UnitsByRank
from runtime.memory.units import MemoryUnit
from store.interface.memory_filters import Filter
from store.interface.memory_rows import GroupRow
from store.interface.pages import Page, cursor_of, position_of
from store.memory.memory_repository import MemoryRepository


class UnitFilter(Struct, frozen=True, kw_only=True):
    """Selects the units of a page."""

    filters: Filter | None = None
    group: str | None = None
    rank: int | None = None


class Listing(Struct, frozen=True):
    """Reads memories, including all committed turns. Every method raises StoreError."""

    store: MemoryRepository
    memory_cache: MemoryCache
    embedding: EmbeddingService

    async def units(
        self, tenant: str, user_id: str, which: UnitFilter, limit: int, cursor: str | None
    ) -> Page[UnitView]:
        """Return a page of units, oldest first. Raises CursorInvalid, FilterInvalid."""
        after = 0 if cursor is None else position_of(cursor, tuple[int])[0]
        async with self.memory_cache.lock(tenant, user_id) as loaded:
            allowed = None if which.filters is None else set(await self.store.matching(tenant, user_id, which.filters))
            found: list[MemoryUnit] = []
            for sequence, unit in loaded.units.items():
                if sequence > after and _matches(unit, which) and (allowed is None or sequence in allowed):
                    found.append(unit)
                    if len(found) > limit:
                        break
            placed = await asyncio.to_thread(_with_links, loaded, found[:limit])
        return Page(placed, cursor_of((placed[-1].sequence,)) if len(found) > limit else None)

    async def unit(self, tenant: str, user_id: str, unit_id: str) -> UnitView | None:
        """Return a unit, or None if there is none with this id."""
        async with self.memory_cache.lock(tenant, user_id) as loaded:
            unit = loaded.visible_unit(unit_id)
            return None if unit is None else _with_links(loaded, [unit])[0]

    async def groups(self, tenant: str, user_id: str, limit: int, cursor: str | None) -> Page[GroupView]:
        """Return a page of sessions and collections, oldest first. Raises CursorInvalid."""
        after = None if cursor is None else position_of(cursor, tuple[str, str])
        async with self.memory_cache.lock(tenant, user_id) as loaded:
            rows = sorted(loaded.groups.values(), key=_sort_key)
            left = [row for row in rows if after is None or _sort_key(row) > after]
            groups = _with_counts(loaded, left[:limit])
        return Page(groups, cursor_of(_sort_key(left[limit - 1])) if len(left) > limit else None)

    async def group(self, tenant: str, user_id: str, group_id: str) -> GroupView | None:
        """Return a session or collection, or None if there is none with this id."""
        async with self.memory_cache.lock(tenant, user_id) as loaded:
            row = loaded.groups.get(group_id)
            return None if row is None else _with_counts(loaded, [row])[0]

    async def status(self, tenant: str, user_id: str) -> StatusView:
        """Return the statistics of a memory, and the maintenance that it needs."""
        async with self.memory_cache.lock(tenant, user_id) as loaded:
            units = Counter(unit.rank for unit in loaded.units.values() if not unit.is_stale)
            due = {"embed": bool(loaded.seen_otherwise), "summarise": loaded.owner.is_stale or bool(loaded.stale)}
            jobs = await self.store.unfinished_jobs(tenant, user_id, JOBS_MAX)
            return StatusView(
                user_id=user_id,
                memory_id=loaded.owner.memory_id if loaded.round else None,
                round=loaded.round,
                units=UnitsByRank(said=units[0], of_groups=units[1], of_all=units[2]),
                groups=len(loaded.groups),
                is_stale=due["summarise"],
                embedder=EmbedderView(id=loaded.embedder, state=self.embedding.state),
                vectors=await self.store.embedders(tenant, user_id),
                without_vector=len(loaded.without_vector),
                seen_otherwise=len(loaded.seen_otherwise),
                offers=[job for job in ("embed", "summarise") if due[job]],
                jobs=[JobView.of(job) for job in jobs],
            )


def _matches(unit: MemoryUnit, which: UnitFilter) -> bool:
    return which.group in {None, unit.group_id} and which.rank in {None, unit.rank} and not unit.is_stale


def _with_links(loaded: LoadedMemory, units: Sequence[MemoryUnit]) -> list[UnitView]:
    children: dict[str, list[str]] = {unit.unit_id: [] for unit in units if unit.rank > 0}
    if children:
        for unit in loaded.units.values():
            if unit.parent_id in children:
                children[unit.parent_id].append(unit.unit_id)
    placed: list[UnitView] = []
    for unit in units:
        before, after = loaded.neighbours(unit.sequence)
        below = children.get(unit.unit_id, ())
        shown = loaded.without_withdrawn(unit)
        placed.append(UnitView.of(shown, pre_id=before, next_id=after, children_ids=below))
    return placed


def _sort_key(row: GroupRow) -> tuple[str, str]:
    """Return the sort key of a group: its time as text in UTC, which sorts by time, and its id."""
    return row.created_at.isoformat(timespec="microseconds"), row.group_id


def _with_counts(loaded: LoadedMemory, rows: Sequence[GroupRow]) -> list[GroupView]:
    summaries = Counter(unit.group_id for unit in loaded.units.values() if unit.rank == 1 and not unit.is_stale)
    return [
        GroupView.of(
            row,
            units=len(loaded.order.get(row.group_id, ())),
            summaries=summaries[row.group_id],
            context=len(short_term.context),
            short_term=None if short_term.short_term is None else len(short_term.short_term),
        )
        for row in rows
        for short_term in [loaded.short_terms[row.group_id].working]
    ]

"""The use cases of memories: add, search, read, change and remove units of one tenant and user."""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from api.memory.cache import MemoryCache
from api.memory.embedding import EmbeddingService
from api.memory.external import Externals
from api.memory.ingest import latest_session, newest_of
from api.memory.loaded_memory import LoadedMemory, vector_rows
from api.memory.requests import UNITS_MAX, NewUnit, Query
from api.memory.search import find, search, top_k
from api.memory.transaction import MemoryTransaction
from api.schemas.ids import has_control
from api.schemas.memory import GROUP_CHARS_MAX, RecalledView
from api.schemas.memory_errors import InvalidMemoryRequest, UnitIdExists
from runtime.memory.chains import recall_of
from runtime.memory.units import MemoryUnit
from runtime.state.ports import Clock, Ids
from runtime.state.recall_types import RecallResult
from store.embedders.embedder import LENGTH_MIN, EmbedderMisconfigured, EmbedderUnavailable, Vectors
from store.interface.errors import MemoryMoved
from store.interface.memory_rows import VectorRows
from store.memory.memory_repository import MemoryRepository

ATTEMPTS_MAX = 10  # to change a memory; each fails only if another server has changed it since it was read
LATEST = "LATEST"
"""Name for the newest session of a user."""
CAPACITY_MAX = 1_000
"""Maximum units in a short-term memory."""
CONTEXT_LENGTH_MAX = 1_000
CAPACITY_DEFAULT = 50
"""Capacity of a short-term memory if no other is set."""
SIGNALS_MAX = 6  # of each unit, in the turn's event

_MESSAGE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+", re.IGNORECASE)
T = TypeVar("T")


class StartedGroup(Struct, frozen=True):
    """A collection that was begun or continued; whether it is new."""

    group_id: str
    is_new: bool


class Memories(Struct, frozen=True):
    """The memories of all users. Raises StoreError if the database cannot be read or written."""

    store: MemoryRepository
    memory_cache: MemoryCache
    embedding: EmbeddingService
    clock: Clock
    ids: Ids
    externals: Externals
    enqueue: Callable[[str, str], None] = lambda tenant, user_id: None  # requests maintenance of a memory

    # -- add ----------------------------------------------------------------------------------------------------------

    async def add(self, tenant: str, user_id: str, group_id: str, units: Sequence[NewUnit]) -> list[MemoryUnit]:
        """Add units to a collection, created if missing; all or none, durable on return.

        A unit with the id and content of an existing one is that unit. Raises InvalidMemoryRequest, UnitIdExists.
        """
        units = _check(group_id, units)
        if any(unit.vector is not None for unit in units):
            await self.embedding.available()
        now = self.clock()

        def add_units(loaded: LoadedMemory, draft: MemoryTransaction) -> list[MemoryUnit]:
            if loaded.session_of(group_id) is not None:
                raise InvalidMemoryRequest(
                    f"{group_id!r} is a session, whose units are its messages; add to a collection of another name"
                )
            _check_name(loaded, group_id)
            added = [_add_unit(loaded, draft, self._unit_of(group_id, unit, now)) for unit in units]
            _supersede(loaded, draft, units, added)
            draft.vectors = self._vectors(loaded, units, added)
            return added

        return await self._do(tenant, user_id, add_units)

    def _unit_of(self, group_id: str, new: NewUnit, now: datetime) -> MemoryUnit:
        start = (new.creation_time or min(now, new.end_time or now)).astimezone(UTC)
        return MemoryUnit(
            unit_id=new.unit_id or self.ids(),
            content=new.content,
            source=new.source,
            creation_time=start,
            end_time=(new.end_time or start).astimezone(UTC),
            metadata=dict(new.metadata),
            group_id=group_id,
            never_delete=new.never_delete,
            trust=new.trust,
            valid_from=start,
        )

    def _vectors(
        self, loaded: LoadedMemory, units: Sequence[NewUnit], added: Sequence[MemoryUnit]
    ) -> VectorRows | None:
        """Return the vectors that the caller supplied with units. Raises InvalidMemoryRequest."""
        pairs = [(unit.sequence, new.vector) for new, unit in zip(units, added, strict=True) if new.vector is not None]
        if not pairs:
            return None
        matrix = np.stack([_normalise(vector, loaded) for _, vector in pairs])
        return vector_rows(_embedder_of(loaded), [sequence for sequence, _ in pairs], matrix, {})

    async def start_group(
        self,
        tenant: str,
        user_id: str,
        group_id: str,
        *,
        short_term: int | None = None,
        context_length: int | None = None,
    ) -> StartedGroup:
        """Return a collection, created if it is missing.

        `short_term` is the capacity of its short-term memory and `context_length` that of its context, in units; None
        leaves them unchanged. LATEST is the newest group, or a new one if there is none. Raises InvalidMemoryRequest.
        """
        short_term, context_length = _checked_room(short_term, context_length)

        def start(loaded: LoadedMemory, draft: MemoryTransaction) -> StartedGroup:
            name = (newest_of(loaded.groups.values()) or self.ids()) if group_id == LATEST else group_id or self.ids()
            _check_group(name)
            _check_name(loaded, name)
            draft.group(name)
            capacity = draft.short_term(name).room.capacity if short_term is None else short_term or None
            draft.set_capacity(name, capacity, context_length)
            return StartedGroup(name, is_new=name not in loaded.groups)

        return await self._do(tenant, user_id, start)

    # -- search and read ----------------------------------------------------------------------------------------------

    async def query(self, tenant: str, user_id: str, query: Query) -> RecalledView:
        """Search by a text or vector. The results count as visited, which is written later.

        Raises InvalidMemoryRequest, FilterInvalid.
        """
        query.check()
        query_with_vector = await self._with_checked_vector(tenant, user_id, query)
        external = await self.externals.search(query_with_vector)
        async with self.memory_cache.lock(tenant, user_id, flushed=query.filters is not None) as loaded:
            if query.external_only:
                return RecalledView(chains=top_k([], external, query.k), round=loaded.round)
            allowed = await self._find_allowed(tenant, user_id, query)
            work = partial(search, loaded, query_with_vector, allowed, self.clock(), external)
            recalled, change = await asyncio.to_thread(work)
            self.memory_cache.write_later(loaded, change)
        self.enqueue(tenant, user_id)
        return recalled

    async def recall(self, tenant: str, user_id: str, query: Query, *, in_sight: int) -> RecallResult:
        """Search within a turn, without counting visits.

        `in_sight` is the first message of the session that the prompt contains already, 0 for none; messages from it
        on are not returned. Raises InvalidMemoryRequest, FilterInvalid.
        """
        query.check()
        query_with_vector = await self._with_vector(query)
        async with self.memory_cache.lock(tenant, user_id, flushed=query.filters is not None) as loaded:
            allowed = await self._find_allowed(tenant, user_id, query)
            found = await asyncio.to_thread(find, loaded, query_with_vector, allowed, self.clock(), in_sight)
            signals = {sequence: _strongest(hit.signals) for sequence, hit in found.hits.items()}
            return recall_of(found.chains, loaded.units, signals)

    async def _find_allowed(self, tenant: str, user_id: str, query: Query) -> Collection[int] | None:
        return None if query.filters is None else await self.store.matching(tenant, user_id, query.filters)

    async def _with_checked_vector(self, tenant: str, user_id: str, query: Query) -> Query:
        """Return the query with its own vector, checked and normalised, else with that of its text if available.

        Raises InvalidMemoryRequest.
        """
        if query.vector is None:
            return await self._with_vector(query)
        await self.embedding.available()
        async with self.memory_cache.lock(tenant, user_id, flushed=False) as loaded:
            return replace(query, vector=_normalise(query.vector, loaded))

    async def _with_vector(self, query: Query) -> Query:
        """Return the query with the vector of its text, if the embedder is available."""
        if query.vector is not None or query.strategy == "lexical":
            return query
        try:
            return replace(query, vector=await self.embedding.question(query.text))
        except (EmbedderUnavailable, EmbedderMisconfigured):
            return query  # search by words alone

    async def context(self, tenant: str, user_id: str, group_id: str, length: int | None = None) -> list[MemoryUnit]:
        """Return the context of a group, or its latest `length` units; oldest first."""
        async with self.memory_cache.lock(tenant, user_id) as loaded:
            short_term = loaded.short_term(group_id)
            sequences = short_term.working.context if length is None else short_term.newest(length)
            return [loaded.without_withdrawn(loaded.units[sequence]) for sequence in sequences]

    # -- change -------------------------------------------------------------------------------------------------------

    async def remove(self, tenant: str, user_id: str, unit_ids: Sequence[str]) -> int:
        """Remove units and return how many of them existed."""

        def remove_units(loaded: LoadedMemory, draft: MemoryTransaction) -> int:
            found = {loaded.sequence_of[unit_id] for unit_id in unit_ids if unit_id in loaded.sequence_of}
            draft.retract(found)
            return len(found)

        return await self._do(tenant, user_id, remove_units)

    async def remove_group(self, tenant: str, user_id: str, group_id: str) -> bool:
        """Remove a group with its units and summaries; return false if there is none. A session itself is unchanged."""

        def remove_units(loaded: LoadedMemory, draft: MemoryTransaction) -> bool:
            if group_id not in loaded.groups:
                return False
            top = [sequence for sequence, unit in loaded.units.items() if unit.rank == 2]
            removed = [unit for unit in loaded.units.values() if unit.group_id == group_id]
            if loaded.session_of(group_id) is None:
                draft.remove_group(group_id)
            else:  # its row stays: it contains the last ingested turn, without which the turns were ingested again
                draft.remove(sequence for sequence, unit in loaded.units.items() if unit.group_id == group_id)
            draft.remove(top)
            for unit in loaded.units.values():
                if unit.rank == 1 and unit.unit_id == unit.group_id and unit.group_id != group_id:
                    draft.relate(replace(unit, parent_id=None))
            draft.restore_validity(removed)
            draft.is_stale = bool(top) or loaded.owner.is_stale
            return True

        return await self._do(tenant, user_id, remove_units)

    async def pin(self, tenant: str, user_id: str, unit_id: str, *, pinned: bool) -> MemoryUnit | None:
        """Pin or unpin a unit; return it, or None if there is none. A pinned unit is never forgotten."""

        def set_pin(loaded: LoadedMemory, draft: MemoryTransaction) -> MemoryUnit | None:
            unit = loaded.visible_unit(unit_id)
            if unit is None:
                return None
            changed = replace(unit, never_delete=pinned)
            draft.relate(changed)
            return loaded.without_withdrawn(changed)

        return await self._do(tenant, user_id, set_pin)

    async def restore(self, tenant: str, user_id: str, group_id: str, source: str) -> int:
        """Copy the latest units of another group, or of the LATEST other one that has any, into a group's short-term
        memory.

        Return the number of units in it. Raises InvalidMemoryRequest if there is no such group.
        """

        def refill(loaded: LoadedMemory, draft: MemoryTransaction) -> int:
            found = latest_session(loaded, group_id) if source == LATEST else source
            if source != LATEST:
                loaded.require_group(source)
            draft.group(group_id)
            if draft.short_term(group_id).room.capacity is None:
                draft.set_capacity(group_id, CAPACITY_DEFAULT)
            before = draft.short_term(group_id).working.short_term or ()
            draft.restore(group_id, loaded.order.get(found, []))
            if found == group_id:  # its own earlier units, before those that it has used
                draft.recall(group_id, before)
            return len(draft.short_term(group_id).working.short_term or ())

        return await self._do(tenant, user_id, refill)

    async def _do(self, tenant: str, user_id: str, work: Callable[[LoadedMemory, MemoryTransaction], T]) -> T:
        for _ in range(ATTEMPTS_MAX - 1):
            with suppress(MemoryMoved):
                return await self._try(tenant, user_id, work)
        return await self._try(tenant, user_id, work)

    async def _try(self, tenant: str, user_id: str, work: Callable[[LoadedMemory, MemoryTransaction], T]) -> T:
        async with self.memory_cache.lock(tenant, user_id) as loaded:
            draft = MemoryTransaction(loaded, self.clock())
            result = await asyncio.to_thread(work, loaded, draft)
            await self.memory_cache.write(loaded, draft.change())
        self.enqueue(tenant, user_id)
        return result


def _strongest(signals: Mapping[str, float]) -> dict[str, float]:
    """Return the SIGNALS_MAX strongest signals of a unit, which are stored with the turn."""
    strongest = sorted(signals, key=lambda name: -abs(signals[name]))[:SIGNALS_MAX]
    return {name: round(signals[name], 3) for name in strongest}


def _check(group_id: str, units: Sequence[NewUnit]) -> list[NewUnit]:
    """Return units as they can be stored. Raises InvalidMemoryRequest."""
    _check_group(group_id)
    if len(units) > UNITS_MAX:
        raise InvalidMemoryRequest(f"at most {UNITS_MAX:,} units can be added at a time, not {len(units):,}")
    checked = []
    for number, unit in enumerate(units, 1):
        try:
            checked.append(unit.check())
        except InvalidMemoryRequest as error:
            raise InvalidMemoryRequest(f"unit {number} {error}") from error
    return checked


def _checked_room(short_term: int | None, context_length: int | None) -> tuple[int | None, int | None]:
    """Return both capacities as whole numbers: programs may compute them. Raises InvalidMemoryRequest."""
    if short_term is not None and not _is_whole(short_term, 0, CAPACITY_MAX):
        raise InvalidMemoryRequest(f"short-term memory holds from 0 to {CAPACITY_MAX:,} units; 0: there is none")
    if context_length is not None and not _is_whole(context_length, 1, CONTEXT_LENGTH_MAX):
        raise InvalidMemoryRequest(f"a context holds from 1 to {CONTEXT_LENGTH_MAX:,} units")
    return (
        None if short_term is None else int(short_term),
        None if context_length is None else int(context_length),
    )


def _is_whole(number: int, least: int, most: int) -> bool:
    return isinstance(number, int | np.integer) and least <= number <= most


def _check_group(group_id: str) -> None:
    if group_id == LATEST:
        raise InvalidMemoryRequest(f"{LATEST} is reserved for the newest session or collection; choose another name")
    if not (isinstance(group_id, str) and group_id.strip() and len(group_id) <= GROUP_CHARS_MAX):
        raise InvalidMemoryRequest(f"the name of a collection must have 1 to {GROUP_CHARS_MAX} characters")
    if has_control(group_id):
        raise InvalidMemoryRequest("the name of a collection contains a control character or a line break")


def _check_name(loaded: LoadedMemory, group_id: str) -> None:
    """Check that no unit has the id of a group, which is the id of the group's summary. Raises InvalidMemoryRequest."""
    unit = loaded.get(group_id)
    if group_id == loaded.owner.memory_id or (unit is not None and (unit.rank == 0 or unit.group_id != group_id)):
        raise InvalidMemoryRequest(f"there is a unit with the id {group_id!r}: give the collection another name")


def _check_id(loaded: LoadedMemory, unit: MemoryUnit) -> None:
    """Raise InvalidMemoryRequest for an id that is reserved for a message or a summary."""
    reserved = {unit.group_id, loaded.owner.memory_id}
    if unit.unit_id in reserved or unit.unit_id in loaded.groups or _MESSAGE_ID.fullmatch(unit.unit_id):
        raise InvalidMemoryRequest(f"{unit.unit_id!r} is reserved for a message or a summary: give the unit another id")


def _add_unit(loaded: LoadedMemory, draft: MemoryTransaction, unit: MemoryUnit) -> MemoryUnit:
    """Add a unit, or return the one with the same id and content. Raises InvalidMemoryRequest, UnitIdExists."""
    known = loaded.get(unit.unit_id)
    if known is None:
        if any(added.unit_id == unit.unit_id for added in draft.units.values()):
            raise UnitIdExists(f"two of the units have the id {unit.unit_id!r}")
        _check_id(loaded, unit)
        return draft.add(unit)
    if (known.content, known.source) != (unit.content, unit.source):
        raise UnitIdExists(f"there is another unit with the id {unit.unit_id!r}")
    return known


def _supersede(
    loaded: LoadedMemory, draft: MemoryTransaction, new: Sequence[NewUnit], added: Sequence[MemoryUnit]
) -> None:
    """Supersede the units that the new ones replace. Raises InvalidMemoryRequest."""
    for each, unit in zip(new, added, strict=True):
        if not each.supersedes:
            continue
        old = loaded.get(each.supersedes)
        if old is None:
            raise InvalidMemoryRequest(f"there is no unit {each.supersedes!r} to be superseded")
        if old.rank:
            raise InvalidMemoryRequest(f"{each.supersedes!r} is a summary: supersede the unit that it summarises")
        _require_no_circle(loaded, draft, old, unit)
        by = draft.unit(old.sequence).superseded_by
        if by not in (None, unit.unit_id):
            raise InvalidMemoryRequest(f"{each.supersedes!r} is superseded by {by!r} already: supersede that one")
        draft.supersede(old.sequence, unit.unit_id, unit.valid_from or unit.creation_time)


def _require_no_circle(loaded: LoadedMemory, draft: MemoryTransaction, old: MemoryUnit, unit: MemoryUnit) -> None:
    """Raise InvalidMemoryRequest if `old` is the unit itself, or supersedes it, directly or by units between them."""
    sequence: int | None = unit.sequence
    seen: set[int] = set()
    while sequence is not None and sequence not in seen:
        if sequence == old.sequence:
            raise InvalidMemoryRequest(
                f"{old.unit_id!r} cannot be superseded by itself or by a unit that it supersedes"
            )
        seen.add(sequence)
        sequence = loaded.sequence_of.get(draft.unit(sequence).superseded_by or "")


def _embedder_of(loaded: LoadedMemory) -> str:
    """Return the embedder of a memory's vectors. Raises InvalidMemoryRequest if there is none."""
    if loaded.embedder is None:
        raise InvalidMemoryRequest("vectors are compared with those of the embedder, but there is none: set `embedder`")
    return loaded.embedder


def _normalise(vector: Vectors, loaded: LoadedMemory) -> Vectors:
    """Return a caller's vector scaled to length 1. Raises InvalidMemoryRequest."""
    _embedder_of(loaded)
    dimension, vector = loaded.dimension, np.asarray(vector)  # programs may pass lists
    if vector.dtype.kind not in "fiu":
        raise InvalidMemoryRequest("a vector must consist of numbers")
    if vector.shape != (dimension,):
        raise InvalidMemoryRequest(f"a vector must have {dimension} numbers, this one has {vector.size}")
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if not np.isfinite(length) or length < LENGTH_MIN:
        raise InvalidMemoryRequest("a vector must have finite numbers that are not all zero")
    scaled: Vectors = (vector / length).astype(np.float32)
    return scaled

"""Users' memories: what can be put into one, asked of it, and done to it. Everything here is of one tenant and user."""

import asyncio
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from api.memory.admission import latest_session
from api.memory.asked import (
    GROUP_CHARS_MAX,
    UNITS_MAX,
    NewUnit,
    Query,
    Recalled,
)
from api.memory.banks import Banks
from api.memory.draft import Draft
from api.memory.embedding import Embedding
from api.memory.external import Externals
from api.memory.finding import best_of, find
from api.memory.loaded import Loaded, vector_rows
from api.memory.minds import CAPACITY_DEFAULT, CAPACITY_MAX, CONTEXT_LENGTH_MAX, Mind
from api.memory.refusals import MemoryRefused, UnitTaken
from runtime.memory.units import MemoryUnit
from runtime.memory.working import newest
from runtime.ports import Clock, Ids
from store.embedders.embedder import LENGTH_MIN, EmbedderMisconfigured, EmbedderUnavailable, Vectors
from store.memory.record import MemoryRecord
from store.memory.rows import VectorRows

LATEST = "LATEST"
"""Stands for the session of a user that was begun last."""

_MESSAGE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+", re.IGNORECASE)
T = TypeVar("T")


class Memories:
    """The memories of all users. Raises StoreError where the record cannot be read or written."""

    def __init__(
        self,
        record: MemoryRecord,
        banks: Banks,
        embedding: Embedding,
        clock: Clock,
        ids: Ids,
        externals: Externals,
        notice: Callable[[str, str], None] = lambda tenant, user_id: None,
    ) -> None:
        self._record = record
        self._banks = banks
        self._embedding = embedding
        self._clock = clock
        self._ids = ids
        self._externals = externals
        self._notice = notice  # that there is work to do

    # -- put in -------------------------------------------------------------------------------------------------------

    async def add(self, tenant: str, user_id: str, group_id: str, units: Sequence[NewUnit]) -> list[MemoryUnit]:
        """Add units to a collection, which is made where there is none; durable when it returns, all or nothing.

        A unit with the id of one that says the same is that one. Raises MemoryRefused, UnitTaken.
        """
        _check_new(group_id, units)
        now = self._clock()

        def put(loaded: Loaded, draft: Draft) -> list[MemoryUnit]:
            if loaded.session_of(group_id) is not None:
                raise MemoryRefused("a session's units are what is said in it; add to a collection of another name")
            _check_name(loaded, group_id)
            added = [_added(loaded, draft, self._unit_of(group_id, unit, now)) for unit in units]
            _supersede(loaded, draft, units, added, now)
            draft.vectors = self._vectors(loaded, units, added)
            return added

        return await self._do(tenant, user_id, put)

    def _unit_of(self, group_id: str, new: NewUnit, now: datetime) -> MemoryUnit:
        begun = (new.creation_time or min(now, new.end_time or now)).astimezone(UTC)
        return MemoryUnit(
            unit_id=new.unit_id or self._ids(),
            content=new.content,
            source=new.source,
            creation_time=begun,
            end_time=(new.end_time or begun).astimezone(UTC),
            metadata=new.metadata,
            group_id=group_id,
            never_delete=new.never_delete,
            trust=new.trust,
            valid_from=begun,
        )

    def _vectors(self, loaded: Loaded, units: Sequence[NewUnit], added: Sequence[MemoryUnit]) -> VectorRows | None:
        """The vectors that came with units. Raises MemoryRefused."""
        given = [(unit.sequence, new.vector) for new, unit in zip(units, added, strict=True) if new.vector is not None]
        if not given:
            return None
        matrix = np.stack([_fitting(vector, loaded) for _, vector in given])
        return vector_rows(_embedder_of(loaded), [sequence for sequence, _ in given], matrix, {})

    async def start_group(
        self,
        tenant: str,
        user_id: str,
        group_id: str,
        *,
        short_term: int | None = None,
        context_length: int | None = None,
    ) -> str:
        """The id of a collection, made where there is none. With `short_term` it keeps that many units in mind, with
        `context_length` that many in its context; else it stays as it is.

        LATEST is the one that was begun last; where there is none it is a new one. Raises MemoryRefused.
        """
        _check_room(short_term, context_length)

        def start(loaded: Loaded, draft: Draft) -> str:
            name = (latest_session(loaded, "") or self._ids()) if group_id == LATEST else group_id or self._ids()
            _check_group(name)
            _check_name(loaded, name)
            draft.group(name)
            capacity = draft.mind(name).room.capacity if short_term is None else short_term or None
            draft.make_room(name, capacity, context_length)
            return name

        return await self._do(tenant, user_id, start)

    # -- ask ----------------------------------------------------------------------------------------------------------

    async def query(self, tenant: str, user_id: str, query: Query) -> Recalled:
        """What comes to mind of a text or vector; what is returned has been visited. That is written a moment later.

        Raises MemoryRefused, FilterInvalid.
        """
        query.check()
        asked = await self._fitted(tenant, user_id, query)
        external = await self._externals.search(asked)
        async with self._banks.held(tenant, user_id, settled=query.filters is not None) as loaded:
            if query.external_only:
                return Recalled(best_of([], external, query.k), loaded.round)
            allowed = await self._allowed(tenant, user_id, query)
            found = await asyncio.to_thread(find, loaded, asked, allowed, self._clock(), None, external)
            self._banks.later(loaded, found.change)
        self._notice(tenant, user_id)
        return found.recalled

    async def look(self, tenant: str, user_id: str, query: Query, *, in_sight: int) -> Recalled:
        """What comes to mind in the middle of a turn, which visits nothing itself; `in_sight` is the first of the
        session's messages that are at hand anyway, 0 for none.

        Raises MemoryRefused, FilterInvalid.
        """
        query.check()
        asked = await self._seen(query)
        async with self._banks.held(tenant, user_id, settled=query.filters is not None) as loaded:
            allowed = await self._allowed(tenant, user_id, query)
            return (await asyncio.to_thread(find, loaded, asked, allowed, self._clock(), in_sight)).recalled

    async def _allowed(self, tenant: str, user_id: str, query: Query) -> Collection[int] | None:
        if query.filters is None:
            return None
        return await self._record.matching(tenant, user_id, query.filters)

    async def _fitted(self, tenant: str, user_id: str, query: Query) -> Query:
        """A query with a vector that can be compared, where there is one to be had. Raises MemoryRefused."""
        if query.vector is None:
            return await self._seen(query)
        async with self._banks.held(tenant, user_id, settled=False) as loaded:
            return replace(query, vector=_fitting(query.vector, loaded))

    async def _seen(self, query: Query) -> Query:
        """A query with the vector of its text, where there is one to be had."""
        if query.vector is not None or query.strategy == "lexical":
            return query
        try:
            return replace(query, vector=await self._embedding.question(query.text))
        except (EmbedderUnavailable, EmbedderMisconfigured):
            return query  # its words are still there to go by

    async def get(self, tenant: str, user_id: str, unit_id: str) -> MemoryUnit | None:
        """One unit."""
        async with self._banks.held(tenant, user_id) as loaded:
            return loaded.shown(unit_id)

    async def context(self, tenant: str, user_id: str, group_id: str, length: int | None = None) -> list[MemoryUnit]:
        """What was said last in a group, oldest first, as long as it is its context."""
        async with self._banks.held(tenant, user_id) as loaded:
            working = loaded.minds.get(group_id, Mind()).working
            sequences = working.context if length is None else newest(working, length)
            return [loaded.units[sequence] for sequence in sequences]

    # -- change -------------------------------------------------------------------------------------------------------

    async def remove(self, tenant: str, user_id: str, unit_ids: Sequence[str]) -> int:
        """Forget these units; how many there were."""

        def take_out(loaded: Loaded, draft: Draft) -> int:
            found = {loaded.sequence_of[unit_id] for unit_id in unit_ids if unit_id in loaded.sequence_of}
            draft.take_back(found)
            return len(found)

        return await self._do(tenant, user_id, take_out)

    async def remove_group(self, tenant: str, user_id: str, group_id: str) -> bool:
        """Forget a whole group with its summaries; false where there is none. A session itself stays as it is."""

        def take_out(loaded: Loaded, draft: Draft) -> bool:
            if group_id not in loaded.groups:
                return False
            top = [sequence for sequence, unit in loaded.units.items() if unit.rank == 2]
            gone = {unit.unit_id for unit in loaded.units.values() if unit.group_id == group_id}
            if loaded.session_of(group_id) is None:
                draft.remove_group(group_id)
            else:  # its row tells up to which turn it was admitted, so that it does not come back
                draft.remove(sequence for sequence, unit in loaded.units.items() if unit.group_id == group_id)
            draft.remove(top)
            for unit in loaded.units.values():
                if unit.rank == 1 and unit.unit_id == unit.group_id and unit.group_id != group_id:
                    draft.relate(replace(unit, parent_id=None))
            draft.restore_validity(gone)
            draft.stale(is_stale=bool(top) or loaded.owner.is_stale)
            return True

        return await self._do(tenant, user_id, take_out)

    async def pin(self, tenant: str, user_id: str, unit_id: str, *, pinned: bool) -> MemoryUnit | None:
        """Keep a unit from being forgotten, or no longer; None where there is none."""

        def mark(loaded: Loaded, draft: Draft) -> MemoryUnit | None:
            unit = loaded.shown(unit_id)
            if unit is None:
                return None
            marked = replace(unit, never_delete=pinned)
            draft.relate(marked)
            return marked

        return await self._do(tenant, user_id, mark)

    async def restore(self, tenant: str, user_id: str, group_id: str, source: str) -> int:
        """Have a group bear in mind what was said last in another, or in the LATEST other one; how many units.

        Raises MemoryRefused where there is no such group.
        """

        def refill(loaded: Loaded, draft: Draft) -> int:
            found = latest_session(loaded, group_id) if source == LATEST else source
            if source != LATEST and found not in loaded.groups:
                raise MemoryRefused(f"there is no session or collection {source!r} in this memory")
            draft.group(group_id)
            if draft.mind(group_id).room.capacity is None:
                draft.make_room(group_id, CAPACITY_DEFAULT)
            draft.restore(group_id, loaded.order.get(found, []))
            return len(draft.mind(group_id).working.short_term or ())

        return await self._do(tenant, user_id, refill)

    async def _do(self, tenant: str, user_id: str, work: Callable[[Loaded, Draft], T]) -> T:
        async with self._banks.held(tenant, user_id) as loaded:
            draft = Draft(loaded, self._clock())
            result = await asyncio.to_thread(work, loaded, draft)
            await self._banks.write(loaded, draft.change())
        self._notice(tenant, user_id)
        return result


def _check_new(group_id: str, units: Sequence[NewUnit]) -> None:
    _check_group(group_id)
    if len(units) > UNITS_MAX:
        raise MemoryRefused(f"at most {UNITS_MAX:,} units are added at a time")
    for number, unit in enumerate(units, 1):
        try:
            unit.check()
        except MemoryRefused as error:
            raise MemoryRefused(f"unit {number} {error}") from error


def _check_room(short_term: int | None, context_length: int | None) -> None:
    if short_term is not None and not 0 <= short_term <= CAPACITY_MAX:
        raise MemoryRefused(f"short-term memory holds from 0 to {CAPACITY_MAX:,} units; 0: there is none")
    if context_length is not None and not 1 <= context_length <= CONTEXT_LENGTH_MAX:
        raise MemoryRefused(f"a context holds from 1 to {CONTEXT_LENGTH_MAX:,} units")


def _check_group(group_id: str) -> None:
    if group_id == LATEST:
        raise MemoryRefused(f"{LATEST} stands for the session or collection that was begun last; choose another name")
    if not group_id.strip() or len(group_id) > GROUP_CHARS_MAX:
        raise MemoryRefused(f"a collection has a name of at most {GROUP_CHARS_MAX} characters")


def _check_name(loaded: Loaded, group_id: str) -> None:
    """The summary of a group has its id: no other unit may. Raises MemoryRefused."""
    unit = loaded.get(group_id)
    if group_id == loaded.owner.memory_id or (unit is not None and (unit.rank == 0 or unit.group_id != group_id)):
        raise MemoryRefused(f"there is a unit with the id {group_id!r}: give the collection another name")


def _check_id(loaded: Loaded, unit: MemoryUnit) -> None:
    """Raises MemoryRefused for an id that something else has, or will have."""
    taken = {unit.group_id, loaded.owner.memory_id}
    if unit.unit_id in taken or unit.unit_id in loaded.groups or _MESSAGE_ID.fullmatch(unit.unit_id):
        raise MemoryRefused(f"{unit.unit_id!r} is what a message or a summary is called: give the unit another id")


def _added(loaded: Loaded, draft: Draft, unit: MemoryUnit) -> MemoryUnit:
    """The unit as it is recorded; the one that is there, if that says the same. Raises UnitTaken."""
    known = loaded.get(unit.unit_id)
    if known is None:
        if draft.drafted({unit.unit_id}):
            raise UnitTaken(f"two of the units have the id {unit.unit_id!r}")
        _check_id(loaded, unit)
        return draft.add(unit)
    if (known.content, known.source) != (unit.content, unit.source):
        raise UnitTaken(f"there is another unit with the id {unit.unit_id!r}")
    return known


def _supersede(
    loaded: Loaded, draft: Draft, new: Sequence[NewUnit], added: Sequence[MemoryUnit], now: datetime
) -> None:
    """Units that hold no more, since others were added in their place."""
    for each, unit in zip(new, added, strict=True):
        if not each.supersedes:
            continue
        old = loaded.get(each.supersedes)
        if old is None:
            raise MemoryRefused(f"there is no unit {each.supersedes!r} to be superseded")
        if old.rank:
            raise MemoryRefused(f"{each.supersedes!r} is a summary: supersede the unit that it tells of")
        draft.supersede(old.sequence, unit.unit_id, unit.valid_from or unit.creation_time or now)


def _embedder_of(loaded: Loaded) -> str:
    """Whose vectors a memory compares. Raises MemoryRefused where that is nobody."""
    if loaded.embedder is None:
        raise MemoryRefused("vectors are compared with those that the embedder makes: set an `embedder`")
    return loaded.embedder


def _fitting(vector: Vectors, loaded: Loaded) -> Vectors:
    """A vector that came from outside, of length 1. Raises MemoryRefused."""
    _embedder_of(loaded)
    dimension, vector = loaded.dimension, np.asarray(vector)  # programs give lists as well
    if vector.dtype.kind not in "fiu":
        raise MemoryRefused("a vector is of numbers")
    if vector.shape != (dimension,):
        raise MemoryRefused(f"a vector has {dimension} numbers here, this one has {vector.size}")
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if not np.isfinite(length) or length < LENGTH_MIN:
        raise MemoryRefused("a vector points somewhere: it is not all zeros, and its numbers are finite")
    scaled: Vectors = (vector / length).astype(np.float32)
    return scaled

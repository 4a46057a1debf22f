"""What is done for one memory when it is its turn, in small steps: between two of them it can be asked and changed."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import numpy as np
import structlog
from msgspec import Struct
from msgspec.structs import replace

from api.memory.banks import Banks
from api.memory.draft import Draft
from api.memory.embedding import Embedding
from api.memory.loaded import Loaded, OwnerId, vector_rows
from runtime.memory.duplicates import exact_duplicates, near_duplicates
from runtime.memory.forgetting import Forgetting, forgettable
from runtime.memory.summarising import GroupLimits, Summarise, Telling, summarise_all, summarise_group
from runtime.memory.tree import Changes
from runtime.memory.units import MemoryUnit
from runtime.ports import Clock, Ids
from store.embedders.embedder import EmbedderUnavailable
from store.memory.reading import Bounds
from store.memory.rows import JobRow, MemoryChange

BATCH_UNITS = 256  # that are embedded at a time
COMPARED_UNITS = 2_000  # before those that are embedded, among which they may have duplicates
FORGOTTEN_MAX = 5_000  # units that are forgotten in one transaction

log = structlog.get_logger()

Noted: TypeAlias = Callable[[int, int], JobRow]
"""A job when so many units of so many are forgotten."""

TellerFor: TypeAlias = Callable[[str, str], Summarise]
"""Who sums up for a tenant's user."""


class Step(Struct, frozen=True):
    """How far work is: units that are done, of how many; 0 where that is not known."""

    done: int
    total: int


class ChangedMeanwhile(Exception):
    """What was being worked on is not there any more; it is begun again later."""


class _Batch(Struct, frozen=True):
    """Units to embed, and what the embedder is to see of them."""

    memory_id: str  # numbers are given twice only where a memory was erased and another one begun
    embedder: str
    sequences: list[int]
    texts: list[str]
    left: int


class Care:
    """Work on memories, one step after the other. Raises StoreError."""

    def __init__(
        self,
        banks: Banks,
        embedding: Embedding,
        teller_for: TellerFor,
        clock: Clock,
        ids: Ids,
        *,
        units_max: int,
        forgetting: Forgetting,
        summarise_from: int,
        limits: GroupLimits,
    ) -> None:
        self._banks = banks
        self._embedding = embedding
        self._teller_for = teller_for
        self._units_max = units_max  # of one memory, before the least of them are forgotten
        self._forgetting = forgetting
        self._summarise_from = summarise_from  # units of a group that are in no summary; 0: only when asked for
        self._limits = limits  # of one summary
        self._clock = clock
        self._ids = ids

    # -- vectors ------------------------------------------------------------------------------------------------------

    async def embed(self, owner: OwnerId, *, anew: bool = False) -> AsyncIterator[Step]:
        """Give units vectors that have none; with `anew` also those that only other embedders have seen, whose vectors
        go at the end.

        Raises EmbedderUnavailable, EmbedderMisconfigured, ChangedMeanwhile.
        """
        done = 0
        while (batch := await self._batch(owner, anew=anew)) is not None:
            matrix = await self._embedding.texts(batch.texts)
            async with self._banks.held(*owner) as loaded:
                if loaded.embedder != batch.embedder:
                    raise EmbedderUnavailable("another embedder has been set meanwhile")
                if loaded.owner.memory_id != batch.memory_id:
                    raise ChangedMeanwhile("the memory was erased while its units were embedded")
                kept = [place for place, sequence in enumerate(batch.sequences) if sequence in loaded.units]
                sequences = [batch.sequences[place] for place in kept]
                sessions = {sequence: loaded.rows[sequence].session_id for sequence in sequences}
                draft = Draft(loaded, self._clock())
                draft.vectors = vector_rows(batch.embedder, sequences, matrix[kept], sessions)
                _link(loaded, draft, sequences)
                await self._banks.write(loaded, draft.change())
            done += len(batch.sequences)
            yield Step(done, done + batch.left)
        if anew:
            async with self._banks.held(*owner) as loaded:
                if loaded.embedder is not None and not loaded.without_vector:
                    only = MemoryChange(tenant=owner[0], user_id=owner[1], only_embedder=loaded.embedder)
                    await self._banks.write(loaded, only)

    async def _batch(self, owner: OwnerId, *, anew: bool) -> _Batch | None:
        async with self._banks.held(*owner) as loaded:
            waiting = [*loaded.without_vector, *(loaded.seen_otherwise if anew else ())]
            if loaded.embedder is None and not self._embedding.is_lexical and loaded.units:
                raise EmbedderUnavailable(self._embedding.state)
            if not waiting or loaded.embedder is None:
                return None
            sequences = waiting[:BATCH_UNITS]
            texts = [loaded.entry_of(loaded.units[sequence]).index_text for sequence in sequences]
            left = len(waiting) - len(sequences)
            return _Batch(loaded.owner.memory_id, loaded.embedder, sequences, texts, left)

    def limits(self, units_max: int | None, tokens_max: int | None) -> GroupLimits:
        """Return the limits of one summary: those given, else the server's."""
        return GroupLimits(units_max or self._limits.units_max, tokens_max or self._limits.tokens_max)

    # -- summaries ----------------------------------------------------------------------------------------------------

    async def summarise(
        self, owner: OwnerId, group_id: str | None = None, *, limits: GroupLimits | None = None, history: str = ""
    ) -> AsyncIterator[Step]:
        """Bring the summaries of a group up to date, or those of all groups and of all together.

        `limits` of one summary are the server's where none are given; `history` is what was known before everything,
        background of the first summaries.

        Raises ChangedMeanwhile where units went or were taken back meanwhile, so that no summary tells of them, and
        what the summariser raises; what was made before stays.
        """
        async with self._banks.held(*owner) as loaded:
            units = [unit for unit in loaded.units.values() if unit.superseded_by is None]
            memory_id = loaded.owner.memory_id
            seen, losses = loaded, loaded.losses
        telling = Telling(
            summarise=self._teller_for(*owner), ids=self._ids, limits=limits or self._limits, history=history
        )
        if group_id is None:
            steps = summarise_all(units, memory_id, telling)
        else:
            steps = summarise_group([unit for unit in units if unit.group_id == group_id], group_id, telling)
        made = 0
        async for changes in steps:
            async with self._banks.held(*owner) as loaded:
                if loaded is not seen or loaded.losses != losses:
                    raise ChangedMeanwhile("units were removed while they were summed up")
                draft = Draft(loaded, self._clock())
                _apply(loaded, draft, changes)
                await self._banks.write(loaded, draft.change())
                losses = loaded.losses
            made += len(changes.written)
            yield Step(made, 0)
        if group_id is None:
            async with self._banks.held(*owner) as loaded:
                draft = Draft(loaded, self._clock())
                draft.stale(is_stale=False)
                await self._banks.write(loaded, draft.change())

    # -- forgetting ---------------------------------------------------------------------------------------------------

    async def would_forget(self, owner: OwnerId, how: Forgetting) -> list[MemoryUnit]:
        """The units that would go, what matters least first."""
        async with self._banks.held(*owner) as loaded:
            chosen = await asyncio.to_thread(_least, loaded, how)
            return [loaded.units[sequence] for sequence in chosen]

    async def forget(
        self,
        owner: OwnerId,
        how: Forgetting,
        *,
        left: int | None = None,
        noted: Noted | None = None,
        protects_context: bool = True,
    ) -> int:
        """Forget units, or only so many as are `left`; how many. What is `noted` is written with each part of them.

        The context of the open session stays unless `protects_context` is false.
        """
        if left is not None:
            how = replace(how, share=1.0)
        async with self._banks.held(*owner) as loaded:
            chosen = (await asyncio.to_thread(_least, loaded, how, protects_context=protects_context))[:left]
            for start in range(0, max(len(chosen), 1), FORGOTTEN_MAX):
                draft = Draft(loaded, self._clock())
                part = chosen[start : start + FORGOTTEN_MAX]
                draft.remove(part)
                if noted is not None:
                    draft.jobs.append(noted(start + len(part), len(chosen)))
                await self._banks.write(loaded, draft.change())
            return len(chosen)

    @property
    def bounds(self) -> Bounds:
        """From when on there is work to do by itself."""
        embeds = not self._embedding.is_lexical
        return Bounds(embeds=embeds, units_max=self._units_max, summarise_from=self._summarise_from)

    async def sum_up_what_is_due(self, owner: OwnerId) -> None:
        """Summaries that are due by themselves. Raises what `summarise` raises."""
        async with self._banks.held(*owner) as loaded:
            stale = [loaded.units[sequence] for sequence in loaded.stale]
            is_stale = loaded.owner.is_stale or any(unit.rank == 2 for unit in stale)
            groups = {*self._to_summarise(loaded), *(unit.group_id for unit in stale if unit.rank == 1)}
        for group_id in groups:
            async for _ in self.summarise(owner, group_id):
                pass
        if is_stale:
            async for _ in self.summarise(owner):
                pass

    async def forget_what_is_too_much(self, owner: OwnerId) -> None:
        """Forget until at most `units_max` are left: the open session's context last, pinned units never.

        Logs a warning where pinned units alone exceed the limit.
        """
        while True:
            async with self._banks.held(*owner) as loaded:
                count = len(loaded.units)
            if count <= self._units_max:
                return
            if await self.forget(owner, self._forgetting):
                continue
            if not await self.forget(owner, self._forgetting, protects_context=False):
                log.warning("a memory exceeds its limit: its units are pinned", units=count, limit=self._units_max)
                return

    def _to_summarise(self, loaded: Loaded) -> list[str]:
        """The groups with so much that is in no summary."""
        if not self._summarise_from:
            return []
        untold = Counter(
            unit.group_id
            for unit in loaded.units.values()
            if unit.rank == 0 and unit.parent_id is None and unit.superseded_by is None
        )
        return [group_id for group_id, count in untold.items() if count >= self._summarise_from]

    async def index(self, owner: OwnerId) -> None:
        """Bring the index of the vectors up to date, in pieces, and save it."""
        async with self._banks.held(*owner) as loaded:
            index = await self._banks.see_to_index(loaded)
        if index is None:
            return
        while await asyncio.to_thread(index.catch_up):
            pass
        if index.is_worth_saving:
            await asyncio.to_thread(index.save)


def _apply(loaded: Loaded, draft: Draft, changes: Changes) -> None:
    """One step of summing up; visits and pins of a summary that is told anew are as they are by now."""
    known = {unit.unit_id: loaded.get(unit.unit_id) for unit in changes.written}
    draft.remove(loaded.sequence_of[each] for each in (*changes.removed, *known) if each in loaded.sequence_of)
    added = {unit.unit_id: draft.add(_as_known(unit, known[unit.unit_id])) for unit in changes.written}
    for unit_id, parent_id in changes.parents.items():
        child = added.get(unit_id) or loaded.units[loaded.sequence_of[unit_id]]
        draft.relate(replace(child, parent_id=parent_id))


def _as_known(unit: MemoryUnit, known: MemoryUnit | None) -> MemoryUnit:
    if known is None:
        return unit
    return replace(unit, visit_count=known.visit_count, last_visit=known.last_visit, never_delete=known.never_delete)


def _link(loaded: Loaded, draft: Draft, sequences: list[int]) -> None:
    """Units that say what one of those shortly before them says are linked to it; nothing is removed."""
    first = min(sequences, default=0)
    known = list(itertools.islice(reversed(loaded.units), COMPARED_UNITS + len(sequences)))
    units = [loaded.units[sequence] for sequence in sorted(known) if loaded.units[sequence].rank == 0]
    begin = sum(unit.sequence < first for unit in units)
    links = {**near_duplicates(units, begin=begin), **exact_duplicates(units)}
    for unit in units[begin:]:
        if unit.unit_id in links and unit.duplicate_of is None:
            draft.relate(replace(unit, duplicate_of=links[unit.unit_id]))


def _least(loaded: Loaded, how: Forgetting, *, protects_context: bool = True) -> list[int]:
    """Return the units to forget, what matters least first.

    Only the open session's context is protected: every session ends with one, and old ones would never shrink.
    """
    in_context = loaded.open_context() if protects_context else ()
    asked = loaded.bank.nearness(np.fromiter(loaded.units, np.int64), loaded.asked)
    return forgettable(loaded.units.values(), how, set(in_context), asked)

"""Maintenance of one memory, in small steps; between two steps the memory can be searched and changed."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import numpy as np
import structlog
from msgspec import Struct
from msgspec.structs import replace

from api.memory.cache import MemoryCache
from api.memory.embedding import EmbeddingService
from api.memory.loaded_memory import LoadedMemory, OwnerId, vector_rows
from api.memory.transaction import MemoryTransaction
from runtime.memory.duplicates import exact_duplicates, near_duplicates
from runtime.memory.forgetting import ForgetOptions, forgettable
from runtime.memory.summaries import GroupLimits, Summarise, SummaryOptions, summarise_all, summarise_group
from runtime.memory.tree import TreeChanges
from runtime.memory.units import MemoryUnit
from runtime.state.ports import Clock, Ids
from store.embedders.embedder import EmbedderUnavailable
from store.interface.memory_rows import Bounds, JobRow, MemoryChange

BATCH_UNITS = 256  # units embedded at a time
COMPARED_UNITS = 2_000  # units before a batch that are searched for duplicates of its units
FORGOTTEN_MAX = 5_000  # units removed in one transaction

log = structlog.get_logger()

ForgetProgress: TypeAlias = Callable[[int, int], JobRow]
"""Returns the job's row after some of the units are removed: how many are removed, and how many there are to remove."""

SummarizerFor: TypeAlias = Callable[[str, str], Summarise]
"""Returns the summariser for a tenant and user."""


class Progress(Struct, frozen=True):
    """The progress of work: units done, and units in all (0 if unknown)."""

    done: int
    total: int


class ConcurrentChange(Exception):
    """The memory changed during the work; the work is repeated later."""


class _Batch(Struct, frozen=True):
    """Units to embed, with the texts for the embedder."""

    memory_id: str  # detects an erasure: the numbers of a new memory start again
    embedder: str
    sequences: list[int]
    texts: list[str]
    left: int


class Maintenance(Struct, frozen=True):
    """Maintains memories. Every method raises StoreError."""

    memory_cache: MemoryCache
    embedding: EmbeddingService
    summarizer_for: SummarizerFor
    clock: Clock
    ids: Ids
    units_max: int  # of one memory; above it the least useful units are removed
    forgetting: ForgetOptions
    summarise_from: int  # units of a group without a summary; 0: only on request
    limits: GroupLimits  # of one summary

    # -- vectors ------------------------------------------------------------------------------------------------------

    async def embed(self, owner: OwnerId, *, recompute: bool = False) -> AsyncIterator[Progress]:
        """Compute the vectors of units without one.

        With `recompute` also of units that only have vectors of other embedders; those vectors are removed at the end.

        Raises EmbedderUnavailable, EmbedderMisconfigured, ConcurrentChange.
        """
        done = 0
        while (batch := await self._batch(owner, recompute=recompute)) is not None:
            matrix = await self.embedding.texts(batch.texts)
            async with self.memory_cache.lock(*owner) as loaded:
                if loaded.embedder != batch.embedder:
                    raise EmbedderUnavailable("the embedder was changed in the meantime")
                if loaded.owner.memory_id != batch.memory_id:
                    raise ConcurrentChange("the memory was erased while its units were embedded")
                present = [place for place, sequence in enumerate(batch.sequences) if sequence in loaded.units]
                sequences = [batch.sequences[place] for place in present]
                sessions = {sequence: loaded.origins[sequence].session_id for sequence in sequences}
                draft = MemoryTransaction(loaded, self.clock())
                draft.vectors = vector_rows(batch.embedder, sequences, matrix[present], sessions)
                await asyncio.to_thread(_link, loaded, draft, sequences)  # long units take seconds
                await self.memory_cache.write(loaded, draft.change())
            done += len(batch.sequences)
            yield Progress(done, done + batch.left)
        if recompute:
            async with self.memory_cache.lock(*owner) as loaded:
                if loaded.embedder is not None and not loaded.without_vector:
                    only = MemoryChange(tenant=owner[0], user_id=owner[1], only_embedder=loaded.embedder)
                    await self.memory_cache.write(loaded, only)

    async def _batch(self, owner: OwnerId, *, recompute: bool) -> _Batch | None:
        await self.embedding.available()
        async with self.memory_cache.lock(*owner) as loaded:
            waiting = [*loaded.without_vector, *(loaded.seen_otherwise if recompute else ())]
            if loaded.embedder is None and not self.embedding.is_lexical and loaded.units:
                raise EmbedderUnavailable(self.embedding.state)
            if not waiting or loaded.embedder is None:
                return None
            sequences = waiting[:BATCH_UNITS]
            texts = [loaded.units[sequence].index_entry({}).index_text for sequence in sequences]
            left = len(waiting) - len(sequences)
            return _Batch(loaded.owner.memory_id, loaded.embedder, sequences, texts, left)

    def limits_of(self, units_max: int | None, tokens_max: int | None) -> GroupLimits:
        """Return the limits of one summary; None stands for those of the settings."""
        return GroupLimits(units_max or self.limits.units_max, tokens_max or self.limits.tokens_max)

    # -- summaries ----------------------------------------------------------------------------------------------------

    async def summarise(
        self, owner: OwnerId, group_id: str | None = None, *, limits: GroupLimits | None = None, history: str = ""
    ) -> AsyncIterator[Progress]:
        """Update the summaries of a group, or of all groups and of the memory as a whole.

        `limits` are those of one summary (None: the settings'); `history` is background for the first summaries.

        Raises ConcurrentChange if units were removed or superseded meanwhile, which no summary may contain, and the
        summariser's exceptions; summaries that are written before stay.
        """
        async with self.memory_cache.lock(*owner) as loaded:
            units = [unit for unit in loaded.units.values() if unit.superseded_by is None]
            memory_id = loaded.owner.memory_id
            known = loaded.summarisable
        options = SummaryOptions(
            summarise=self.summarizer_for(*owner), ids=self.ids, limits=limits or self.limits, history=history
        )
        if group_id is None:
            steps = summarise_all(units, memory_id, options)
        else:
            steps = summarise_group([unit for unit in units if unit.group_id == group_id], group_id, options)
        written = 0
        async for changes in steps:
            async with self.memory_cache.lock(*owner) as loaded:
                if loaded.owner.memory_id != memory_id or not known <= loaded.summarisable:
                    raise ConcurrentChange("units were removed or superseded while they were summarised")
                draft = MemoryTransaction(loaded, self.clock())
                _apply(loaded, draft, changes)
                await self.memory_cache.write(loaded, draft.change())
                known = loaded.summarisable
            written += len(changes.written)
            yield Progress(written, 0)
        if group_id is None:
            async with self.memory_cache.lock(*owner) as loaded:
                draft = MemoryTransaction(loaded, self.clock())
                draft.is_stale = False
                await self.memory_cache.write(loaded, draft.change())

    # -- forgetting ---------------------------------------------------------------------------------------------------

    async def preview_forget(self, owner: OwnerId, how: ForgetOptions) -> list[MemoryUnit]:
        """Return the units that would be removed, least useful first."""
        async with self.memory_cache.lock(*owner) as loaded:
            chosen = await asyncio.to_thread(_least, loaded, how)
            return [loaded.units[sequence] for sequence in chosen]

    async def forget(
        self,
        owner: OwnerId,
        how: ForgetOptions,
        *,
        left: int | None = None,
        progress: ForgetProgress | None = None,
        protects_context: bool = True,
    ) -> int:
        """Remove a share of the units, or `left` units, and return how many were removed.

        The job row of `progress` is written in each transaction. The context of the open session stays unless
        `protects_context` is false.
        """
        if left is not None:
            how = replace(how, share=1.0)
        async with self.memory_cache.lock(*owner) as loaded:
            chosen = (await asyncio.to_thread(_least, loaded, how, protects_context=protects_context))[:left]
            for start in range(0, max(len(chosen), 1), FORGOTTEN_MAX):
                draft = MemoryTransaction(loaded, self.clock())
                part = chosen[start : start + FORGOTTEN_MAX]
                draft.remove(part)
                if progress is not None:
                    draft.jobs.append(progress(start + len(part), len(chosen)))
                await self.memory_cache.write(loaded, draft.change())
            return len(chosen)

    @property
    def bounds(self) -> Bounds:
        """Return the limits from which maintenance starts without a request."""
        embeds = not self.embedding.is_lexical
        return Bounds(embeds=embeds, units_max=self.units_max, summarise_from=self.summarise_from)

    async def summarise_due(self, owner: OwnerId) -> None:
        """Update the summaries that are due without a request. Raises the exceptions of `summarise`."""
        async with self.memory_cache.lock(*owner) as loaded:
            stale = [loaded.units[sequence] for sequence in loaded.stale]
            is_stale = loaded.owner.is_stale or any(unit.rank == 2 for unit in stale)
            groups = {*self._to_summarise(loaded), *(unit.group_id for unit in stale if unit.rank == 1)}
        parts = [*groups, None] if is_stale else [*groups]  # None: the memory as a whole
        for group_id in parts:
            async for _ in self.summarise(owner, group_id):
                pass

    async def forget_excess(self, owner: OwnerId) -> None:
        """Remove units until at most `units_max` are left: the open session's context last, pinned units never.

        Logs a warning if the pinned units alone exceed the limit.
        """
        while True:
            async with self.memory_cache.lock(*owner) as loaded:
                count = len(loaded.units)
            if count <= self.units_max:
                return
            if await self.forget(owner, self.forgetting):
                continue
            if not await self.forget(owner, self.forgetting, protects_context=False):
                log.warning("a memory exceeds its limit: its units are pinned", units=count, limit=self.units_max)
                return

    def _to_summarise(self, loaded: LoadedMemory) -> list[str]:
        """Return the groups with at least `summarise_from` units without a summary."""
        if not self.summarise_from:
            return []
        unsummarised = Counter(
            unit.group_id
            for unit in loaded.units.values()
            if unit.rank == 0 and unit.parent_id is None and unit.superseded_by is None
        )
        return [group_id for group_id, count in unsummarised.items() if count >= self.summarise_from]

    async def index(self, owner: OwnerId) -> None:
        """Update the vector index, in pieces, and save it."""
        async with self.memory_cache.lock(*owner) as loaded:
            index = await self.memory_cache.maintain_index(loaded)
        if index is None:
            return
        while await asyncio.to_thread(index.catch_up):
            pass
        if index.is_worth_saving:
            await asyncio.to_thread(index.save)


def _apply(loaded: LoadedMemory, draft: MemoryTransaction, changes: TreeChanges) -> None:
    """Apply one step of summarising; a rewritten summary takes over the visits and the pin of the old one."""
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


def _link(loaded: LoadedMemory, draft: MemoryTransaction, sequences: list[int]) -> None:
    """Link units to an earlier unit with the same content among the last COMPARED_UNITS; remove nothing."""
    first = min(sequences, default=0)
    known = list(itertools.islice(reversed(loaded.units), COMPARED_UNITS + len(sequences)))
    units = [loaded.units[sequence] for sequence in sorted(known) if loaded.units[sequence].rank == 0]
    begin = sum(unit.sequence < first for unit in units)
    links = {**near_duplicates(units, begin=begin), **exact_duplicates(units)}
    for unit in units[begin:]:
        if unit.unit_id in links and unit.duplicate_of is None:
            draft.relate(replace(unit, duplicate_of=links[unit.unit_id]))


def _least(loaded: LoadedMemory, how: ForgetOptions, *, protects_context: bool = True) -> list[int]:
    """Return the units to remove, least useful first.

    Only the open session's context is protected: every session has one, and old sessions would never shrink.
    """
    in_context = loaded.open_context() if protects_context else ()
    nearness = loaded.bank.nearness(np.fromiter(loaded.units, np.int64), loaded.recent_queries)
    return forgettable(loaded.units.values(), how, set(in_context), nearness)

"""Composition root of the memory subsystem, one per server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from msgspec import Struct

from api.memory.cache import MemoryCache, Plans
from api.memory.embedding import EmbeddingService
from api.memory.external import Externals
from api.memory.jobs import Jobs
from api.memory.listing import Listing
from api.memory.maintenance import Maintenance, SummarizerFor
from api.memory.memories import Memories
from api.memory.worker import MaintenanceWorker
from api.metrics import Metrics
from api.settings import Settings
from runtime.memory.forgetting import ForgetOptions
from runtime.memory.summaries import GroupLimits
from runtime.state.ports import Clock, Ids
from store.interface.errors import StoreError
from store.store import Store
from store.vectors.index import GRAPH_FROM

log = structlog.get_logger()


class MemorySystem(Struct, frozen=True):
    """The memory subsystem of one server."""

    embedding: EmbeddingService
    externals: Externals
    cache: MemoryCache
    memories: Memories
    maintenance: Maintenance
    jobs: Jobs
    listing: Listing
    worker: MaintenanceWorker

    @asynccontextmanager
    async def exclusive_for_erasure(self, tenant: str, user_id: str) -> AsyncIterator[None]:
        """Hold a user's memory exclusively while something of it is erased. Raises StoreUnavailable."""
        async with self.cache.exclusive(tenant, user_id):
            yield
        self.worker.enqueue(tenant, user_id)

    @asynccontextmanager
    async def running(self, *, looks: bool = True) -> AsyncIterator[None]:
        """Run the maintenance worker; without `looks`, only for memories that change meanwhile."""
        await self.externals.clear()
        try:
            async with self.worker.running(looks=looks):
                yield
        finally:
            try:
                await self.cache.flush()
            except StoreError as error:
                log.warning("the last visits of memories could not be written", problem=str(error))
            await self.externals.clear()
            await self.embedding.close()


def create_memory(
    store: Store,
    settings: Settings,
    embedding: EmbeddingService,
    plans: Plans,
    summarizer_for: SummarizerFor,
    clock: Clock,
    ids: Ids,
    metrics: Metrics,
    *,
    graph_from: int = GRAPH_FROM,
) -> MemorySystem:
    """Build the memory subsystem over an open store; memories of `graph_from` vectors or more get an index."""
    folder = settings.data / "memory"
    cache = MemoryCache(store.memory, embedding, plans, clock, ids, folder, shared=store.shared, graph_from=graph_from)
    maintenance = Maintenance(
        cache,
        embedding,
        summarizer_for,
        clock,
        ids,
        units_max=settings.memory_units_max,
        forgetting=ForgetOptions(settings.memory_forget_share),
        summarise_from=settings.memory_summarise_from,
        limits=GroupLimits(settings.memory_summary_units_max, settings.memory_summary_tokens_max),
    )
    jobs = Jobs(store.memory, maintenance, clock, ids)
    work = MaintenanceWorker(store.memory, cache, maintenance, jobs, store.shared)
    externals = Externals(settings.memories, embedding, settings.embedder, settings.data / "external", clock, ids)
    memories = Memories(store.memory, cache, embedding, clock, ids, externals, work.enqueue)
    metrics.watch("memory_work_waiting", "Memories waiting for maintenance", lambda: work.waiting)
    metrics.watch_total("memory_work_done", "Maintenance runs of a memory that succeeded", lambda: work.done)
    metrics.watch_total("memory_work_failed", "Maintenance runs of a memory that failed", lambda: work.failed)
    metrics.watch_total("memory_embedded", "Embedded texts", lambda: embedding.embedded)
    metrics.watch_total("memory_embedding_seconds", "Time spent on embedding", lambda: embedding.embedding_s)
    metrics.watch("memory_units_loaded", "Memory units in RAM", lambda: cache.units)
    listing = Listing(store.memory, cache, embedding)
    return MemorySystem(embedding, externals, cache, memories, maintenance, jobs, listing, work)

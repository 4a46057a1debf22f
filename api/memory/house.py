"""Everything that memory is made of, built and joined; one for each server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from msgspec import Struct

from api.memory.banks import Banks, Plans
from api.memory.care import Care, TellerFor
from api.memory.embedding import Embedding
from api.memory.external import Externals
from api.memory.jobs import Jobs
from api.memory.listing import Listing
from api.memory.memories import Memories
from api.memory.sessions import SessionMemory
from api.memory.work import Work
from api.metrics import Metrics
from api.settings import Settings
from runtime.memory.forgetting import Forgetting
from runtime.memory.summarising import GroupLimits
from runtime.ports import Clock, Ids, Memory
from store.errors import StoreError
from store.record import Record
from store.rows import SessionRow
from store.vectors.index import GRAPH_FROM

log = structlog.get_logger()


class House(Struct, frozen=True):
    """The memory of a server."""

    embedding: Embedding
    externals: Externals
    banks: Banks
    memories: Memories
    care: Care
    jobs: Jobs
    listing: Listing
    work: Work

    def of_session(self, session: SessionRow) -> Memory:
        """The memory that a session asks within its turns."""
        return SessionMemory(self.memories, session.tenant, session.user_id, session.session_id)

    def turned(self, session: SessionRow, *, is_remembering: bool) -> None:
        """A turn has been committed. Of a script that has to do with memory it is taken in soon, of any other as soon
        as somebody asks for it.
        """
        self.banks.turned(session.tenant, session.user_id)
        if is_remembering:
            self.work.notice(session.tenant, session.user_id)

    @asynccontextmanager
    async def removing(self, tenant: str, user_id: str) -> AsyncIterator[None]:
        """Something of a user's is removed from the record meanwhile. Raises StoreUnavailable."""
        async with self.banks.barred(tenant, user_id):
            yield
        self.work.notice(tenant, user_id)

    @asynccontextmanager
    async def running(self, *, looks: bool = True) -> AsyncIterator[None]:
        """Works on memories meanwhile; unless it `looks` for what was left, only on those that something is done to."""
        await self.externals.clear()
        try:
            async with self.work.running(looks=looks):
                yield
        finally:
            try:
                await self.banks.settle()
            except StoreError as error:
                log.warning("the last visits of memories could not be written", problem=str(error))
            await self.externals.clear()
            await self.embedding.close()


def make_house(
    record: Record,
    settings: Settings,
    embedding: Embedding,
    plans: Plans,
    teller_for: TellerFor,
    clock: Clock,
    ids: Ids,
    metrics: Metrics,
    *,
    graph_from: int = GRAPH_FROM,
) -> House:
    """The memory over an open record. Of so many vectors as `graph_from` a memory has an index of them."""
    banks = Banks(record.memory, embedding, plans, clock, ids, settings.data / "memory", graph_from=graph_from)
    care = Care(
        banks,
        embedding,
        teller_for,
        clock,
        ids,
        units_max=settings.memory_units_max,
        forgetting=Forgetting(settings.memory_forget_share),
        summarise_from=settings.memory_summarise_from,
        limits=GroupLimits(settings.memory_summary_units_max, settings.memory_summary_tokens_max),
    )
    jobs = Jobs(record.memory, care, clock, ids)
    work = Work(record.memory, banks, care, jobs)
    externals = Externals(settings.memories, embedding, settings.embedder, settings.data / "external", clock, ids)
    memories = Memories(record.memory, banks, embedding, clock, ids, externals, work.notice)
    metrics.watch("memory_work_waiting", "Memories that wait to be worked on", lambda: work.waiting)
    metrics.watch_total("memory_work_done", "Times that a memory was worked on", lambda: work.done)
    metrics.watch_total("memory_work_failed", "Times that work on a memory failed", lambda: work.failed)
    metrics.watch_total("memory_embedded", "Texts that were embedded", lambda: embedding.embedded)
    metrics.watch_total("memory_embedding_seconds", "How long embedding took", lambda: embedding.embedding_s)
    metrics.watch("memory_units_loaded", "Units of memory that are kept in RAM", lambda: banks.units)
    listing = Listing(record.memory, banks, embedding)
    return House(embedding, externals, banks, memories, care, jobs, listing, work)

"""Background maintenance of memories: ingest of turns, vectors, summaries, forgetting, and requested jobs.

The rows of the database decide what is due, so a crash loses no work: at its start a server looks for due memories, and
afterwards each commit enqueues its memory, with a short delay, so that several commits are handled together. One memory
is maintained at a time, in small steps, between which it can be searched. Of several servers on one database, one
maintains a memory at a time; the others look now and then for what a server that died has left.
"""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import chain

import structlog
from msgspec import Struct, field

from api.background import background, repeat
from api.memory.cache import MemoryCache
from api.memory.jobs import JOBS_MAX, Jobs
from api.memory.loaded_memory import OwnerId
from api.memory.maintenance import ConcurrentChange, Maintenance
from runtime.state.ports import ModelFailed
from store.embedders.embedder import EmbedderMisconfigured, EmbedderUnavailable
from store.interface.errors import StoreError
from store.interface.memory_rows import JobRow, OwnerOf
from store.interface.shared_database import SharedDatabase
from store.memory.memory_repository import MemoryRepository

WAITING_MAX = 100_000  # memories in the queue; the next start of the server finds the others
GATHER_S = 0.5  # delay between the first commit and the maintenance
AGAIN_S = 2.0  # delay after a failure; doubles with each failure
AGAIN_S_MAX = 600.0
OTHERS_S = 300.0  # between two looks for what other servers have left
ATTEMPTS_MAX = 8  # at a job, after which it fails
CLAIM_S = 60
"""How long a memory stays with a server that died."""
PROLONG_S = 15.0

TROUBLE = (StoreError, EmbedderUnavailable, EmbedderMisconfigured, ModelFailed, ConcurrentChange)

log = structlog.get_logger()


class MaintenanceWorker(Struct):
    """The queue of memories to maintain, and the background task that maintains them."""

    store: MemoryRepository
    memory_cache: MemoryCache
    maintenance: Maintenance
    jobs: Jobs
    shared: SharedDatabase | None
    done: int = 0
    failed: int = 0
    _due: OrderedDict[OwnerId, float] = field(default_factory=OrderedDict)  # start times, earliest first
    _failures: dict[OwnerId, int] = {}
    _attempts: dict[OwnerId, dict[str, int]] = {}  # of unfinished jobs that failed, by job id
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _rests: asyncio.Event = field(default_factory=asyncio.Event)
    _hurries: int = 0  # number of callers of `wait_idle`, for which delays are skipped

    @property
    def waiting(self) -> int:
        """Return the number of memories that wait for maintenance."""
        return len(self._due) + len(self._failures)

    def enqueue(self, tenant: str, user_id: str) -> None:
        """Enqueue a memory for maintenance after GATHER_S."""
        if len(self._due) < WAITING_MAX:
            self._due.setdefault((tenant, user_id), asyncio.get_running_loop().time() + GATHER_S)
            self._news.set()

    def prioritise(self, tenant: str, user_id: str) -> None:
        """Move a memory to the front of the queue, because a caller waits for it."""
        self._due[(tenant, user_id)] = 0.0
        self._due.move_to_end((tenant, user_id), last=False)
        self._news.set()

    async def wait_idle(self) -> None:
        """Wait until the queue is empty, except for failed work that is tried again later."""
        self._hurries += 1
        try:
            while self._due or not self._rests.is_set():
                self._rests.clear()
                self._news.set()
                await self._rests.wait()
        finally:
            self._hurries -= 1

    @asynccontextmanager
    async def running(self, *, looks: bool = True) -> AsyncIterator[None]:
        """Run the worker inside the context; with `looks` it first looks for work that an earlier process left."""
        stopped = "memory maintenance stopped until the next start of the server"
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(background(self._work(looks=looks), stopped))
            if looks and self.shared is not None:
                await stack.enter_async_context(background(self._look_repeatedly(), stopped))
            yield

    async def _work(self, *, looks: bool) -> None:
        if looks:
            await self._look_for_work()
        while True:
            self._news.clear()
            while (owner := self._next()) is not None:
                self._rests.clear()
                del self._due[owner]
                await self._attempt(owner)
            self._rests.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(next(iter(self._due.values()), None)):
                    await self._news.wait()

    def _next(self) -> OwnerId | None:
        """Return the next memory that is due, or None."""
        owner = next(iter(self._due), None)
        if owner is None or self._hurries or self._due[owner] <= asyncio.get_running_loop().time():
            return owner
        return None

    async def _look_for_work(self) -> None:
        """Enqueue the memories with work that an earlier process left."""
        delay_s = AGAIN_S
        while True:
            try:
                await self.memory_cache.sweep()
                behind = await self.store.owners_behind_of_all(WAITING_MAX, self.maintenance.bounds)
                jobs = await self.store.unfinished_jobs_of_all(WAITING_MAX)
            except StoreError as error:
                log.warning("due memory maintenance could not be read", problem=type(error).__name__)
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, AGAIN_S_MAX)
                continue
            for each in chain[JobRow | OwnerOf](jobs, behind):
                self.enqueue(each.tenant, each.user_id)
            return

    async def _look_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(OTHERS_S)
            await self._look_for_work()

    async def _attempt(self, owner: OwnerId) -> None:
        """Maintain a memory, or try again later if another server does."""
        try:
            async with claim(self.shared, owner) as is_claimed:
                if is_claimed:
                    await self._maintain(owner)
                else:
                    asyncio.get_running_loop().call_later(AGAIN_S, self.enqueue, *owner)
        except StoreError as error:
            log.warning("a memory could not be claimed", problem=str(error))
            self._try_again(owner)

    async def _maintain(self, owner: OwnerId) -> None:
        """Do all maintenance of a memory; embed again at the end, so that new summaries have vectors.

        A failed part does not stop the others.
        """
        maintenance, failed = self.maintenance, False
        for part in (self._do_jobs, self._embed, maintenance.summarise_due, maintenance.forget_excess, self._embed):
            try:
                await part(owner)
            except TROUBLE as error:
                log.warning("memory maintenance failed", problem=str(error))
                failed = True
            except Exception:  # outermost handler: no caller awaits this task, and other memories have work too
                log.exception("memory maintenance failed")
                failed = True
        if failed:
            self._try_again(owner)
        else:
            self.done += 1
            self._failures.pop(owner, None)

    def _try_again(self, owner: OwnerId) -> None:
        self.failed += 1
        failures = self._failures.get(owner, 0) + 1
        self._failures[owner] = failures
        again_s = min(AGAIN_S * 2.0 ** (failures - 1), AGAIN_S_MAX)
        asyncio.get_running_loop().call_later(again_s, self.enqueue, *owner)

    async def _embed(self, owner: OwnerId) -> None:
        """Compute missing vectors and update the vector index."""
        async for _ in self.maintenance.embed(owner):
            pass
        await self.maintenance.index(owner)

    async def _do_jobs(self, owner: OwnerId) -> None:
        failed: Exception | None = None
        jobs = await self.store.unfinished_jobs(*owner, JOBS_MAX)
        before = self._attempts.pop(owner, {})
        for job in jobs:
            try:
                await self.jobs.run(job)
            except Exception as error:  # noqa: BLE001  # also a programming error: the job would be tried for ever
                attempts = before.get(job.job_id, 0) + 1
                is_over = attempts >= ATTEMPTS_MAX or _is_lasting(error)
                if not is_over:
                    failed = failed or error
                    self._attempts.setdefault(owner, {})[job.job_id] = attempts
                await self.jobs.note_failure(job, _why(error), is_over=is_over)
        if failed is not None:
            raise failed


@asynccontextmanager
async def claim(shared: SharedDatabase | None, owner: OwnerId) -> AsyncIterator[bool]:
    """Claim a memory inside the context, so that one server at a time maintains it; a server alone needs no claims.

    The value is False if another server has it. Raises StoreError.
    """
    if shared is None:
        yield True
        return
    job = "memory " + hashlib.sha256("\0".join(owner).encode()).hexdigest()
    if not await shared.lead(job, CLAIM_S):
        yield False
        return
    try:
        prolong = partial(shared.lead, job, CLAIM_S)
        prolonging = repeat(prolong, PROLONG_S, "the claim on a memory could not be prolonged", first_s=PROLONG_S)
        async with background(prolonging, "the claim on a memory is not prolonged"):
            yield True
    finally:
        try:
            await shared.stop_leading(job)
        except StoreError as error:  # it expires
            log.warning("the claim on a memory could not be released", problem=str(error))


def _is_lasting(error: Exception) -> bool:
    """Return whether the operator must change something before another attempt can succeed."""
    return isinstance(error, EmbedderMisconfigured) or (isinstance(error, ModelFailed) and not error.retryable)


def _why(error: Exception) -> str:
    """Return the reason of a failed attempt, without details that users must not see."""
    if isinstance(error, StoreError):  # its message may contain file names
        return "the database could not be read or written"
    if isinstance(error, TROUBLE):
        return str(error)
    log.error("a memory job failed", exc_info=error)
    return "internal error; see the server's log"

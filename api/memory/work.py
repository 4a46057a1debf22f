"""Work on memories off the turn: what is not admitted yet, vectors, summaries, forgetting, and jobs somebody asked for.

All but the jobs follows from the rows, so none of it can be lost: at the start of a server what is behind is looked
for, and afterwards whatever is committed calls for it: a moment later, so that what is said in quick succession is done
at once. One memory is worked on at a time, in small steps, between which it can be asked.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from api.memory.banks import Banks
from api.memory.care import Care, ChangedMeanwhile
from api.memory.jobs import Jobs
from api.memory.loaded import OwnerId
from runtime.ports import ModelFailed
from store.embedders.embedder import EmbedderMisconfigured, EmbedderUnavailable
from store.errors import StoreError
from store.memory.record import MemoryRecord

WAITING_MAX = 100_000  # memories that may wait; more are found again when the server is next started
GATHER_S = 0.5  # from the first call for work on a memory to its beginning
AGAIN_S = 2.0  # after work that failed; twice as long each time
AGAIN_S_MAX = 600.0
ATTEMPTS_MAX = 8  # at a job, after which it is given up

TROUBLE = (StoreError, EmbedderUnavailable, EmbedderMisconfigured, ModelFailed, ChangedMeanwhile)

log = structlog.get_logger()


class Work:
    """What there is to do, and the task that does it as long as the server runs."""

    def __init__(self, record: MemoryRecord, banks: Banks, care: Care, jobs: Jobs) -> None:
        self._record = record
        self._banks = banks
        self._care = care
        self._jobs = jobs
        self._due: OrderedDict[OwnerId, float] = OrderedDict()  # from when on, the earliest first
        self._failures: dict[OwnerId, int] = {}
        self._news = asyncio.Event()
        self._rests = asyncio.Event()
        self._hurries = 0  # how many wait for everything to be done
        self.done = 0
        self.failed = 0

    @property
    def waiting(self) -> int:
        """Memories that wait to be worked on."""
        return len(self._due) + len(self._failures)

    def notice(self, tenant: str, user_id: str) -> None:
        """There may be work to do on a memory."""
        if len(self._due) < WAITING_MAX:
            self._due.setdefault((tenant, user_id), asyncio.get_running_loop().time() + GATHER_S)
            self._news.set()

    def hurry(self, tenant: str, user_id: str) -> None:
        """Somebody waits for work on a memory."""
        self._due[(tenant, user_id)] = 0.0
        self._due.move_to_end((tenant, user_id), last=False)
        self._news.set()

    async def idle(self) -> None:
        """Waits until nothing is left to do but what failed and is tried again later."""
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
        """Works meanwhile; what is not done at the end is done after the next start that `looks` for it."""
        task = asyncio.create_task(self._work(looks=looks))
        task.add_done_callback(_log_end)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

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
        """The memory whose turn it is, if there is one now."""
        owner = next(iter(self._due), None)
        if owner is None or self._hurries or self._due[owner] <= asyncio.get_running_loop().time():
            return owner
        return None

    async def _look_for_work(self) -> None:
        """What was left when the server last stopped, or was killed."""
        delay_s = AGAIN_S
        while True:
            try:
                await self._banks.sweep()
                behind = await self._record.owners_behind_of_all(WAITING_MAX, self._care.bounds)
                jobs = await self._record.unfinished_jobs_of_all(WAITING_MAX)
            except StoreError as error:
                log.warning("work on memories could not be read", problem=type(error).__name__)
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, AGAIN_S_MAX)
                continue
            for owner in (
                *((job.tenant, job.user_id) for job in jobs),
                *((each.tenant, each.user_id) for each in behind),
            ):
                self.notice(*owner)
            return

    async def _attempt(self, owner: OwnerId) -> None:
        """Everything there is to do for a memory, vectors at the end again: summaries are found as everything else is.
        What cannot be done holds nothing else up.
        """
        care, failed = self._care, False
        for part in (self._do_jobs, self._see, care.sum_up_what_is_due, care.forget_what_is_too_much, self._see):
            try:
                await part(owner)
            except TROUBLE as error:
                log.warning("work on a memory failed", problem=str(error))
                failed = True
            except Exception:  # the outermost place: nobody waits for this task, and other memories have work too
                log.exception("work on a memory failed")
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
        asyncio.get_running_loop().call_later(again_s, self.notice, *owner)

    async def _see(self, owner: OwnerId) -> None:
        """Vectors for units that have none, and the index of them all."""
        async for _ in self._care.embed(owner):
            pass
        await self._care.index(owner)

    async def _do_jobs(self, owner: OwnerId) -> None:
        failed: Exception | None = None
        for job in await self._jobs.unfinished(*owner):
            try:
                await self._jobs.run(job)
            except Exception as error:  # noqa: BLE001  # a defect too: the job would be tried for ever
                if self._failures.get(owner, 0) + 1 < ATTEMPTS_MAX and not isinstance(error, EmbedderMisconfigured):
                    failed = failed or error
                    continue
                await self._jobs.fail(job, _why(error))
        if failed is not None:
            raise failed


def _why(error: Exception) -> str:
    """Why a job is given up, in words that anybody may read."""
    if isinstance(error, StoreError):  # its words may be of files
        return "the record could not be read or written"
    if isinstance(error, TROUBLE):
        return str(error)
    log.error("work that was asked for is given up", exc_info=error)
    return "something went wrong that should not have; the server's log has it"


def _log_end(task: asyncio.Task[None]) -> None:
    """Should it end before the server by a defect, the log has it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("memories are not worked on any more until the server is started again", exc_info=error)

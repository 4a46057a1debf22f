"""Requested jobs on memories: stored in the database before they start, so that a restart continues them."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from api.memory.maintenance import Maintenance
from api.schemas.memory_errors import TooManyJobs
from api.schemas.memory_work import GroupTokens, GroupUnits, Share
from runtime.memory.forgetting import ForgetOptions, Policy
from runtime.state.ports import Clock, Ids
from store.interface.memory_rows import JobKind, JobRow, JobStatus, MemoryChange
from store.interface.rows import JsonObject
from store.memory.memory_repository import MemoryRepository

JOBS_MAX = 100
"""Maximum number of unfinished jobs of one user."""
LOOK_S, LOOK_S_MAX = 0.01, 0.5  # shortest and longest time between two reads of a job that is waited for
SHOWN_EVERY = 4  # steps between two writes of a job's progress


class JobOptions(Struct, frozen=True, omit_defaults=True):
    """The options of a job."""

    group: str | None = None  # summarise: one group; None: all groups and the memory as a whole
    group_units_max: GroupUnits | None = None  # units per summary; None: that of the settings
    group_tokens_max: GroupTokens | None = None
    history: str = ""  # summarise: background for the first summaries
    share: Share = 0.1  # forget: share of the removable units
    policy: Policy = "oldest"


def is_over(job: JobRow) -> bool:
    """Return whether a job is done or failed."""
    return job.status in {"done", "failed"}


class Jobs(Struct, frozen=True):
    """The jobs of all users. Every method raises StoreError."""

    store: MemoryRepository
    maintenance: Maintenance
    clock: Clock
    ids: Ids

    async def submit(self, tenant: str, user_id: str, kind: JobKind, options: JobOptions) -> JobRow:
        """Store a job to be done soon, or return the same job if it is queued already. Raises TooManyJobs."""
        unfinished = await self.store.unfinished_jobs(tenant, user_id, JOBS_MAX)
        fields: JsonObject = msgspec.to_builtins(options)
        for job in unfinished:
            if (job.status, job.kind, job.options) == ("queued", kind, fields):
                return job
        if len(unfinished) >= JOBS_MAX:
            raise TooManyJobs(f"{JOBS_MAX} jobs of this memory are waiting already")
        now = self.clock()
        job = JobRow(
            tenant=tenant,
            user_id=user_id,
            job_id=self.ids(),
            kind=kind,
            options=fields,
            status="queued",
            created_at=now,
            updated_at=now,
        )
        await self._store_job(job)
        return job

    async def wait(self, job: JobRow, wait_s: float, until: Callable[[JobRow], bool] = is_over) -> JobRow:
        """Wait until a job is over, or `until` says so, at most `wait_s`, and return its current state.

        It polls the database with growing intervals, because another process may run the job.
        """
        look_s, loop = LOOK_S, asyncio.get_running_loop()
        ends = loop.time() + wait_s
        while not until(job) and loop.time() < ends:
            await asyncio.sleep(look_s)
            look_s = min(2 * look_s, LOOK_S_MAX)
            job = await self.store.job(job.tenant, job.job_id) or job
        return job

    async def run(self, job: JobRow) -> None:
        """Run a job to its end and store its progress. Raises the work's exceptions; the job then stays unfinished."""
        owner = (job.tenant, job.user_id)
        options = msgspec.convert(job.options, JobOptions)
        if job.kind != "forget":
            job = await self._update(job, "running")
        match job.kind:
            case "embed":
                steps = self.maintenance.embed(owner, recompute=True)
            case "summarise":
                limits = self.maintenance.limits_of(options.group_units_max, options.group_tokens_max)
                steps = self.maintenance.summarise(owner, options.group, limits=limits, history=options.history)
            case "forget":
                await self._forget(job, ForgetOptions(options.share, options.policy))
                return
        number = 0
        async for step in steps:
            number += 1
            job = replace(job, done=step.done, total=step.total)
            if number % SHOWN_EVERY == 1:
                job = await self._update(job, "running")
        await self._update(job, "done", done=job.done, total=job.done, result={"units": job.done})

    async def _forget(self, job: JobRow, how: ForgetOptions) -> None:
        """Remove the remaining units of a forget job.

        Its progress is written in the transactions that remove units, so that a restart removes no unit in excess.
        """

        def progress(removed: int, of: int) -> JobRow:
            done, total = job.done + removed, job.done + of
            over = done == total
            return self._with_progress(
                job, "done" if over else "running", done=done, total=total, result={"units": done} if over else None
            )

        left = job.total - job.done if job.total else None
        await self.maintenance.forget((job.tenant, job.user_id), how, left=left, progress=progress)

    async def note_failure(self, job: JobRow, why: str, *, is_over: bool) -> None:
        """Store why an attempt at a job failed, beside its progress until then; with `is_over` it was the last one."""
        job = await self.store.job(job.tenant, job.job_id) or job
        await self._update(job, "failed" if is_over else job.status, error=why)

    async def _update(self, job: JobRow, status: JobStatus, **progress: Any) -> JobRow:
        updated = self._with_progress(job, status, **progress)
        await self._store_job(updated)
        return updated

    def _with_progress(self, job: JobRow, status: JobStatus, **progress: Any) -> JobRow:
        """Return the job with a new status, and the fields of its progress: `done` and `total`, `result`, `error`."""
        ending: dict[str, Any] = {"result": None, "error": None}
        return replace(job, status=status, updated_at=self.clock(), **ending | progress)

    async def _store_job(self, job: JobRow) -> None:
        await self.store.change(MemoryChange(tenant=job.tenant, user_id=job.user_id, jobs=[job]))

"""Work on memories that somebody asked for: kept in the record before it is begun, so that it is done in the end."""

import asyncio
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from api.memory.care import Care
from api.memory.refusals import TooManyJobs
from runtime.memory.forgetting import Forgetting, Policy
from runtime.ports import Clock, Ids
from store.fetch import Page
from store.memory.record import MemoryRecord
from store.memory.rows import JobKind, JobRow, JobStatus, MemoryChange
from store.rows import JsonObject

JOBS_MAX = 100
"""Of one user, that are not over."""
LOOK_S, LOOK_S_MAX = 0.01, 0.5  # how soon a job that is waited for is looked at again
SHOWN_EVERY = 4  # steps, after which it is written down how far a job is

Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
GroupUnits: TypeAlias = Annotated[int, Meta(ge=2, le=1_000)]
GroupTokens: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]


class JobOptions(Struct, frozen=True, omit_defaults=True):
    """How a job is to be done."""

    group: str | None = None  # to summarise: one group; else all, and what sums up all
    group_units_max: GroupUnits | None = None  # that one summary tells of; None: as the settings say
    group_tokens_max: GroupTokens | None = None
    history: str = ""  # to summarise: what was known before everything
    share: Share = 0.1  # to forget: of the units that may be forgotten
    policy: Policy = "oldest"


def is_over(job: JobRow) -> bool:
    """Whether nothing is done for a job any more."""
    return job.status in {"done", "failed"}


class Jobs:
    """Jobs of all users. Raises StoreError."""

    def __init__(self, record: MemoryRecord, care: Care, clock: Clock, ids: Ids) -> None:
        self._record = record
        self._care = care
        self._clock = clock
        self._ids = ids

    async def ask(self, tenant: str, user_id: str, kind: JobKind, options: JobOptions) -> JobRow:
        """Keep a job, to be done soon; one that waits already and is the same is that one. Raises TooManyJobs."""
        unfinished = await self.unfinished(tenant, user_id)
        given: JsonObject = msgspec.to_builtins(options)
        for job in unfinished:
            if (job.status, job.kind, job.options) == ("queued", kind, given):
                return job
        if len(unfinished) >= JOBS_MAX:
            raise TooManyJobs(f"{JOBS_MAX} jobs of this memory are waiting already")
        now = self._clock()
        job = JobRow(
            tenant=tenant,
            user_id=user_id,
            job_id=self._ids(),
            kind=kind,
            options=given,
            status="queued",
            created_at=now,
            updated_at=now,
        )
        await self._keep(job)
        return job

    async def unfinished(self, tenant: str, user_id: str) -> list[JobRow]:
        """The jobs of a user that are not over, the oldest first."""
        return await self._record.unfinished_jobs(tenant, user_id, JOBS_MAX)

    async def get(self, tenant: str, job_id: str) -> JobRow | None:
        """One job."""
        return await self._record.job(tenant, job_id)

    async def finished(self, job: JobRow, wait_s: float) -> JobRow:
        """A job when it is over, or as it is after so long. The record is looked at, ever more seldom: it knows also
        what was done before a restart, or is done for somebody else.
        """
        look_s, loop = LOOK_S, asyncio.get_running_loop()
        ends = loop.time() + wait_s
        while not is_over(job) and loop.time() < ends:
            await asyncio.sleep(look_s)
            look_s = min(2 * look_s, LOOK_S_MAX)
            job = await self.get(job.tenant, job.job_id) or job
        return job

    async def page(self, tenant: str, user_id: str | None, limit: int, cursor: str | None) -> Page[JobRow]:
        """A page of jobs, the newest first. Raises CursorInvalid."""
        return await self._record.jobs(tenant, user_id=user_id, limit=limit, cursor=cursor)

    async def run(self, job: JobRow) -> None:
        """Do a job to its end, and write down how far it is. Raises what the work raises: it is still to be done."""
        owner = (job.tenant, job.user_id)
        options = msgspec.convert(job.options, JobOptions)
        if job.kind != "forget":
            job = await self._noted(job, "running")
        match job.kind:
            case "embed":
                steps = self._care.embed(owner, anew=True)
            case "summarise":
                limits = self._care.limits(options.group_units_max, options.group_tokens_max)
                steps = self._care.summarise(owner, options.group, limits=limits, history=options.history)
            case "forget":
                await self._forget(job, Forgetting(options.share, options.policy))
                return
        number = 0
        async for step in steps:
            number += 1
            job = replace(job, done=step.done, total=step.total)
            if number % SHOWN_EVERY == 1:
                job = await self._noted(job, "running")
        await self._noted(job, "done", done=job.done, total=job.done, result={"units": job.done})

    async def _forget(self, job: JobRow, how: Forgetting) -> None:
        """Forget what is left to forget: how far it is stands in the same transactions, so that nothing is forgotten
        for it twice.
        """

        def noted(forgotten: int, of: int) -> JobRow:
            done, total = job.done + forgotten, job.done + of
            over = done == total
            return self._as(
                job, "done" if over else "running", done=done, total=total, result={"units": done} if over else None
            )

        left = job.total - job.done if job.total else None
        await self._care.forget((job.tenant, job.user_id), how, left=left, noted=noted)

    async def fail(self, job: JobRow, why: str) -> None:
        """Give a job up."""
        await self._noted(job, "failed", error=why)

    async def _noted(
        self,
        job: JobRow,
        status: JobStatus,
        *,
        done: int | None = None,
        total: int | None = None,
        result: JsonObject | None = None,
        error: str | None = None,
    ) -> JobRow:
        noted = self._as(job, status, done=done, total=total, result=result, error=error)
        await self._keep(noted)
        return noted

    def _as(
        self,
        job: JobRow,
        status: JobStatus,
        *,
        done: int | None = None,
        total: int | None = None,
        result: JsonObject | None = None,
        error: str | None = None,
    ) -> JobRow:
        """A job as it is now."""
        return replace(
            job,
            status=status,
            done=job.done if done is None else done,
            total=job.total if total is None else total,
            result=result,
            error=error,
            updated_at=self._clock(),
        )

    async def _keep(self, job: JobRow) -> None:
        await self._record.change(MemoryChange(tenant=job.tenant, user_id=job.user_id, jobs=[job]))

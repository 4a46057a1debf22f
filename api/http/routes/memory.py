"""Routes for maintenance of memories: summaries, forgetting, vectors, jobs and status."""

from collections.abc import Callable
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec.structs import asdict

from api.auth.principal import memory_of, user_for
from api.errors import ApiError
from api.http.request import ApiRequest, Cursor, JobId, Limit, also, header, location, query, seconds_to_wait
from api.http.routes.memory_groups import found_group
from api.http.routes.memory_units import OfMemory
from api.memory.jobs import JobOptions, Jobs, is_over
from api.schemas.memory import StoredUnit
from api.schemas.memory_work import (
    ForgettingAnswer,
    JobAnswer,
    JobList,
    JobView,
    NewEmbedding,
    NewForgetting,
    NewSummary,
    StatusView,
    WouldGo,
)
from runtime.memory.forgetting import ForgetOptions
from store.interface.memory_rows import JobKind, JobRow

WAIT_S_MAX = 60
SHOWN_MAX = 1_000
"""The greatest number of units in a preview of forgetting."""

Prefer = Annotated[
    str | None,
    header(
        "Prefer", f"`wait=SECONDS`, at most {WAIT_S_MAX}: answers 200 with the job if it finishes in time.", "wait=10"
    ),
]


def _job(
    path: str, summary: str, answer: type[Any] = JobAnswer, done: str = "The job is finished."
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """Declare a route that starts a job."""
    return post(
        f"/memory/{path}",
        status_code=202,
        summary=summary,
        response_headers=[location("The URL of the job.")],
        responses=also(200, answer, done),
    )


@_job("summarise", "Summarise a memory")
async def summarise_memory(
    data: JSONBody[NewSummary], request: ApiRequest, prefer: Prefer = None
) -> Response[JobAnswer]:
    """Summarises due units. Without a language model, summaries are extracts."""
    if data.group is not None:
        await found_group(request, data.user_id, data.group)
    options = asdict(data)
    del options["user_id"]
    return await _start_job(request, data.user_id, "summarise", JobOptions(**options), prefer)


@_job("forget", "Forget units", ForgettingAnswer, "The job is finished, or the preview (`dryRun`).")
async def forget_memory(
    data: JSONBody[NewForgetting], request: ApiRequest, prefer: Prefer = None
) -> Response[ForgettingAnswer]:
    """Deletes units that summarise no other unit, are not pinned (`neverDelete`), and are not in the context of the
    group to which a unit was last added: those recalled longest ago, least often, and the oldest first.
    """
    if data.dry_run:
        owner, options = memory_of(request, data.user_id), ForgetOptions(data.share, data.policy)
        units = await request.services.memory_system.maintenance.preview_forget(owner, options)
        would_go = WouldGo(units=[StoredUnit.of(unit) for unit in units[:SHOWN_MAX]], total=len(units))
        return Response(ForgettingAnswer(job=None, would_go=would_go), status_code=200)
    response = await _start_job(
        request, data.user_id, "forget", JobOptions(share=data.share, policy=data.policy), prefer
    )
    answer = ForgettingAnswer(job=response.content.job, would_go=None)
    return Response(answer, status_code=response.status_code, headers=response.headers)


@_job("embed", "Embed a memory")
async def embed_memory(data: JSONBody[NewEmbedding], request: ApiRequest, prefer: Prefer = None) -> Response[JobAnswer]:
    """Replaces vectors of other embedders by those of the server's embedder. Units without a vector get one without
    this request.
    """
    return await _start_job(request, data.user_id, "embed", JobOptions(), prefer)


@get("/memory/jobs", summary="List jobs")
async def list_jobs(
    request: ApiRequest,
    user_id: Annotated[str | None, query("userId", "The jobs of this user.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JobList:
    """Return a page of jobs, the newest first."""
    whose = user_for(request, user_id)
    page = await request.services.store.memory.jobs(request.tenant, user_id=whose, limit=limit, cursor=cursor)
    return JobList(data=[JobView.of(job) for job in page.rows], next_cursor=page.next)


@get("/memory/jobs/{jobId:str}", summary="Read a job")
async def get_job(job_id: JobId, request: ApiRequest, prefer: Prefer = None) -> JobAnswer:
    """Return one job."""
    jobs = request.services.memory_system.jobs
    job = await jobs.store.job(request.tenant, job_id)
    if job is None or request.principal.user_id not in {None, job.user_id}:
        raise ApiError("MEMORY_JOB_NOT_FOUND", "there is no such job", context={"jobId": job_id})
    return JobAnswer(job=JobView.of(await _wait_for(jobs, job, prefer)))


@get("/memory/status", summary="Read the state of a memory")
async def memory_status(request: ApiRequest, user_id: OfMemory) -> StatusView:
    """Return the units of a memory, the state of their vectors, running jobs and suggested ones."""
    return await request.services.memory_system.listing.status(*memory_of(request, user_id))


async def _start_job(
    request: ApiRequest, user_id: str, kind: JobKind, options: JobOptions, prefer: str | None
) -> Response[JobAnswer]:
    memory_system, owner = request.services.memory_system, memory_of(request, user_id)
    job = await memory_system.jobs.submit(*owner, kind, options)
    memory_system.worker.prioritise(*owner)
    job = await _wait_for(memory_system.jobs, job, prefer)
    status = 200 if is_over(job) else 202
    headers = {"Location": f"/api/memory/jobs/{job.job_id}"}
    return Response(JobAnswer(job=JobView.of(job)), status_code=status, headers=headers)


async def _wait_for(jobs: Jobs, job: JobRow, prefer: str | None) -> JobRow:
    """Return a job, finished if it finishes within the time that the client waits."""
    return await jobs.wait(job, min(seconds_to_wait(prefer), WAIT_S_MAX))

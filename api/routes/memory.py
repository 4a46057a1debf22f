"""Work on memories: summaries, forgetting, vectors, how far it is; and how a memory stands."""

from typing import Annotated, Any

from litestar import Request, Response, Router, get, post
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath, HeaderParameter, QueryParameter

from api.caller import caller_of, memory_of, tenant_of, user_for
from api.errors import ApiError, described
from api.memory.house import House
from api.memory.jobs import JobOptions, Jobs, is_over
from api.memory.showing import job_view, status_view, stored_view
from api.parameters import Cursor, Limit, seconds_to_wait
from api.routes import memory_groups, memory_units
from api.routes.memory_groups import found_group
from api.routes.memory_units import OfMemory
from api.schemas.memory_work import (
    ForgettingAnswer,
    JobAnswer,
    JobList,
    NewEmbedding,
    NewForgetting,
    NewSummary,
    StatusView,
    WouldGo,
)
from runtime.memory.forgetting import Forgetting
from store.memory.rows import JobKind, JobRow

WAIT_S_MAX = 60
SHOWN_MAX = 1_000
"""Units of those that would be forgotten."""

_LOCATION = ResponseHeader(name="Location", documentation_only=True, description="Where the work is seen.")
_TAKEN = (
    *("REQUEST_INVALID", "UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE"),
    *("DATABASE_ERROR", "SERVER_BUSY", "MEMORY_JOBS_FULL"),
)
Prefer = Annotated[
    str | None,
    HeaderParameter(
        name="Prefer",
        required=False,
        description=f"`wait=SECONDS`, at most {WAIT_S_MAX}: answers 200 with the finished work, where it is so soon.",
        examples=[Example(value="wait=10")],
    ),
]
_SUMMARIES = [
    Example(summary="All groups, and all of them together", value={"userId": "ana"}),
    Example(summary="One group", value={"userId": "ana", "group": "diary"}),
]
_FORGETTINGS = [
    Example(summary="What would go", value={"userId": "ana", "share": 0.1, "dryRun": True}),
    Example(summary="A tenth", value={"userId": "ana", "share": 0.1}),
]
_EMBEDDINGS = [Example(summary="By the server's embedder", value={"userId": "ana"})]


def _done(kind: type[Any], what: str) -> dict[int, ResponseSpec]:
    return {200: ResponseSpec(kind, generate_examples=False, description=what)}


@post(
    "/memory/summarise",
    status_code=202,
    summary="Sum up a memory",
    description="Brings the summaries up to date: only what is not summed up yet is told. Without a language model "
    "they are extracts.",
    response_headers=[_LOCATION],
    responses={**_done(JobAnswer, "It is finished."), **described(*_TAKEN, "MEMORY_GROUP_NOT_FOUND")},
)
async def summarise_memory(
    data: Annotated[NewSummary, BodyKwarg(examples=_SUMMARIES)],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    prefer: Prefer = None,
) -> Response[JobAnswer]:
    """Takes the work."""
    owner = memory_of(request, data.user_id)
    if data.group is not None:
        await found_group(house, *owner, data.group)
    return await _taken(house, owner, "summarise", _summary_options(data), prefer)


def _summary_options(data: NewSummary) -> JobOptions:
    return JobOptions(
        group=data.group,
        group_units_max=data.group_units_max,
        group_tokens_max=data.group_tokens_max,
        history=data.history,
    )


@post(
    "/memory/forget",
    status_code=202,
    summary="Forget what matters least",
    description="Of what nothing sums up or stands under, is not kept (`neverDelete`) and is in no context: the units "
    "that were recalled the longest time ago, the least often, and are the oldest.",
    response_headers=[_LOCATION],
    responses={**_done(ForgettingAnswer, "It is finished, or only told (`dryRun`)."), **described(*_TAKEN)},
)
async def forget_memory(
    data: Annotated[NewForgetting, BodyKwarg(examples=_FORGETTINGS)],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    prefer: Prefer = None,
) -> Response[ForgettingAnswer]:
    """Takes the work, or tells what it would do."""
    owner = memory_of(request, data.user_id)
    if data.dry_run:
        units = await house.care.would_forget(owner, Forgetting(data.share, data.policy))
        would_go = WouldGo(units=[stored_view(unit) for unit in units[:SHOWN_MAX]], total=len(units))
        return Response(ForgettingAnswer(job=None, would_go=would_go), status_code=200)
    taken = await _taken(house, owner, "forget", JobOptions(share=data.share, policy=data.policy), prefer)
    answer = ForgettingAnswer(job=taken.content.job, would_go=None)
    return Response(answer, status_code=taken.status_code, headers=taken.headers)


@post(
    "/memory/embed",
    status_code=202,
    summary="Have the embedder see everything",
    description="Units that only other embedders have seen get vectors of the server's, and lose theirs at the end. "
    "Those that no embedder has seen get theirs by themselves.",
    response_headers=[_LOCATION],
    responses={**_done(JobAnswer, "It is finished."), **described(*_TAKEN)},
)
async def embed_memory(
    data: Annotated[NewEmbedding, BodyKwarg(examples=_EMBEDDINGS)],
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    prefer: Prefer = None,
) -> Response[JobAnswer]:
    """Takes the work."""
    return await _taken(house, memory_of(request, data.user_id), "embed", JobOptions(), prefer)


@get(
    "/memory/jobs",
    summary="List work on memories",
    responses=described("REQUEST_INVALID", "DATABASE_ERROR", "SERVER_BUSY"),
)
async def list_jobs(
    house: NamedDependency[House],
    request: Request[Any, Any, Any],
    user_id: Annotated[
        str | None, QueryParameter(name="userId", required=False, description="On the memory of this user.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JobList:
    """A page of what was asked for, the newest first."""
    page = await house.jobs.page(tenant_of(request), user_for(request, user_id), limit, cursor)
    return JobList(data=[job_view(job) for job in page.rows], next_cursor=page.next)


@get(
    "/memory/jobs/{job_id:str}",
    summary="See how far work is",
    responses=described("REQUEST_INVALID", "MEMORY_JOB_NOT_FOUND", "DATABASE_ERROR", "SERVER_BUSY"),
)
async def get_job(
    job_id: FromPath[str], house: NamedDependency[House], request: Request[Any, Any, Any], prefer: Prefer = None
) -> JobAnswer:
    """One piece of work."""
    job = await house.jobs.get(tenant_of(request), job_id)
    if job is None or caller_of(request).user_id not in {None, job.user_id}:
        raise ApiError("MEMORY_JOB_NOT_FOUND", "there is no such work", context={"jobId": job_id})
    return JobAnswer(job=job_view(await _awaited(house.jobs, job, prefer)))


@get(
    "/memory/status",
    summary="See how a memory stands",
    responses=described("REQUEST_INVALID", "DATABASE_ERROR", "SERVER_BUSY"),
)
async def memory_status(
    house: NamedDependency[House], request: Request[Any, Any, Any], user_id: OfMemory = None
) -> StatusView:
    """What is in it, what its embedder has seen, what is being done and what would help."""
    owner = memory_of(request, user_id)
    return status_view(owner[1], await house.listing.standing(*owner))


async def _taken(
    house: House, owner: tuple[str, str], kind: JobKind, options: JobOptions, prefer: str | None
) -> Response[JobAnswer]:
    asked = await house.jobs.ask(*owner, kind, options)
    house.work.hurry(*owner)
    job = await _awaited(house.jobs, asked, prefer)
    status = 200 if is_over(job) else 202
    headers = {"Location": f"/api/memory/jobs/{job.job_id}"}
    return Response(JobAnswer(job=job_view(job)), status_code=status, headers=headers)


async def _awaited(jobs: Jobs, job: JobRow, prefer: str | None) -> JobRow:
    """A job, finished if it is so within what the client wants to wait."""
    return await jobs.finished(job, min(seconds_to_wait(prefer), WAIT_S_MAX))


router = Router(
    "/api",
    route_handlers=[
        *memory_units.HANDLERS,
        *memory_groups.HANDLERS,
        *(summarise_memory, forget_memory, embed_memory, list_jobs, get_job, memory_status),
    ],
    tags=["Memory"],
)

"""The analytics as Parquet files, by day."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import date
from typing import Annotated, Any, Literal, TypeAlias

from litestar import Request, Router, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from api.analytics.answering import MEDIA_TYPES
from api.analytics.cutting import Cutting, Document, alone, archive
from api.caller import caller_of, masks, tenant_of
from api.errors import ApiError, described
from api.routes.analytics import Masked
from api.schemas.analytics import PartList, PartView
from store.analytics.file import MODEL_VERSION
from store.analytics.parquet import DAY_OF

DAYS_MAX = 100
_READ = ("REQUEST_INVALID", "DATABASE_ERROR", "SERVER_BUSY", "ANALYTICS_NOT_READY", "QUERY_STOPPED")
_TAR = "application/x-tar"

Since: TypeAlias = Annotated[
    date | None, QueryParameter(name="since", required=False, description="Without days before this one.")
]
Days: TypeAlias = Annotated[
    list[date] | None,
    QueryParameter(
        name="day", required=False, max_items=DAYS_MAX, description="The day in UTC; several for an archive."
    ),
]


@get(
    "/days",
    summary="The tables by day",
    description="Which Parquet files the analytics come to: a day of a table has another `fingerprint` once any row of "
    "it is another. Tables that are not cut by days have one with `day` null.",
    responses=described(*_READ),
)
async def list_days(
    cutting: NamedDependency[Cutting], request: Request[Any, Any, Any], since: Since = None, masked: Masked = True
) -> PartList:
    """All of them."""
    hidden, tenant = masks(caller_of(request), masked), tenant_of(request)
    listed = await cutting.listed(tenant, None if since is None else since.isoformat(), masked=hidden)
    return PartList(
        tenant=tenant,
        masked=hidden,
        model_version=MODEL_VERSION,
        as_of=listed.as_of,
        parts=[
            PartView(table=each.table, day=each.day, rows=each.rows, fingerprint=each.fingerprint)
            for each in listed.parts
        ],
    )


@get(
    "/tables/{table:str}",
    summary="A table as Parquet",
    description="One day of it, or all of a table that is not cut by days. As `format=tar` several days in one "
    "archive: first `parts.json` with their fingerprints, then `2026-03-01.parquet` and so on.",
    responses=described(*_READ),
)
async def table(
    table: FromPath[str],
    cutting: NamedDependency[Cutting],
    request: Request[Any, Any, Any],
    days: Days = None,
    form: Annotated[Literal["parquet", "tar"], QueryParameter(name="format", required=False)] = "parquet",
    masked: Masked = True,
) -> Stream:
    """The file, or the archive."""
    wanted = _days(table, days or [], form)
    hidden = masks(caller_of(request), masked)
    held = AsyncExitStack()
    cut = await held.enter_async_context(cutting.cut(tenant_of(request), table, wanted, masked=hidden))
    document = archive(cut) if form == "tar" else alone(cut)
    headers = {
        "X-Cuebook-As-Of": cut.as_of.isoformat(),
        "X-Cuebook-Masked": str(hidden).lower(),
        "Content-Length": str(document.size),
    }
    media_type = _TAR if form == "tar" else MEDIA_TYPES["parquet"]
    return Stream(_sent(document, held), media_type=media_type, headers=headers)


def _days(table: str, days: list[date], form: str) -> list[str]:
    """The days that are meant. Raises ApiError REQUEST_INVALID."""
    if table not in DAY_OF:
        raise ApiError("REQUEST_INVALID", f"there is no table of this name; there are {', '.join(DAY_OF)}")
    is_cut = DAY_OF[table] is not None
    if not is_cut and days:
        raise ApiError("REQUEST_INVALID", f"{table} is not cut by days; leave out `day`")
    if is_cut and not days:
        raise ApiError("REQUEST_INVALID", f"{table} is cut by days; name one as `day`")
    if form == "parquet" and len(days) > 1:
        raise ApiError("REQUEST_INVALID", "several days are an archive: `format=tar`")
    return sorted({day.isoformat() for day in days})


async def _sent(document: Document, held: AsyncExitStack) -> AsyncIterator[bytes]:
    """The bytes of a cut that is given back at their end, or when nobody wants more."""
    async with held:
        for piece in document.pieces:
            yield piece


router = Router("/api/analytics", route_handlers=[list_days, table], tags=["Analytics"])

"""The analytics as Parquet files, by day."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import date
from typing import Annotated, Any, TypeAlias

from litestar import Request, Router, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from api.analytics.answering import MEDIA_TYPES
from api.analytics.cutting import Cut, Cutting, Document, alone, archive
from api.caller import caller_of, masks, tenant_of
from api.errors import ApiError, described
from api.routes.analytics import Masked
from api.routes.documents import answering_with
from api.schemas.analytics import PartList, PartView
from store.analytics.file import MODEL_VERSION
from store.analytics.parquet import DAY_OF, Place

PARTS_MAX = 100
_READ = ("REQUEST_INVALID", "DATABASE_ERROR", "SERVER_BUSY", "ANALYTICS_NOT_READY", "QUERY_STOPPED")
_TAR = "application/x-tar"

Since: TypeAlias = Annotated[
    date | None, QueryParameter(name="since", required=False, description="Without days before this one.")
]
Day: TypeAlias = Annotated[
    date | None, QueryParameter(name="day", required=False, description="In UTC; none for a table that is not cut.")
]
Wanted: TypeAlias = Annotated[
    list[str],
    QueryParameter(
        name="part",
        min_items=1,
        max_items=PARTS_MAX,
        description="`messages/2026-03-01`, or `scripts` for a table that is not cut; several.",
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
    operation_class=answering_with(MEDIA_TYPES["parquet"]),
    description="One day of it, or all of a table that is not cut by days.",
    responses=described(*_READ),
)
async def table(
    table: FromPath[str],
    cutting: NamedDependency[Cutting],
    request: Request[Any, Any, Any],
    day: Day = None,
    masked: Masked = True,
) -> Stream:
    """The file."""
    hidden = masks(caller_of(request), masked)
    held = AsyncExitStack()
    wanted = [_place(table, None if day is None else day.isoformat())]
    cut = await held.enter_async_context(cutting.cut(tenant_of(request), wanted, masked=hidden))
    return _streamed(cut, alone(cut), MEDIA_TYPES["parquet"], held, masked=hidden)


@get(
    "/archive",
    summary="Several parts in one archive",
    operation_class=answering_with(_TAR),
    description="A TAR: first `parts.json` with the parts and their fingerprints, then their files as "
    "`messages/day=2026-03-01/part.parquet`. A day without rows has a file without rows.",
    responses=described(*_READ),
)
async def archived(
    parts: Wanted, cutting: NamedDependency[Cutting], request: Request[Any, Any, Any], masked: Masked = True
) -> Stream:
    """The archive."""
    hidden = masks(caller_of(request), masked)
    held = AsyncExitStack()
    wanted = [_place(*_named(part)) for part in dict.fromkeys(parts)]
    cut = await held.enter_async_context(cutting.cut(tenant_of(request), wanted, masked=hidden))
    return _streamed(cut, archive(cut), _TAR, held, masked=hidden)


def _named(part: str) -> Place:
    """The table and day that a part is named by. Raises ApiError REQUEST_INVALID."""
    table, _, day = part.partition("/")
    try:
        return table, date.fromisoformat(day).isoformat() if day else None
    except ValueError as error:
        raise ApiError("REQUEST_INVALID", "a part is a table, or a table and a day: messages/2026-03-01") from error


def _place(table: str, day: str | None) -> Place:
    """A table and day that there can be. Raises ApiError REQUEST_INVALID."""
    if table not in DAY_OF:
        raise ApiError("REQUEST_INVALID", f"there is no table of this name; there are {', '.join(DAY_OF)}")
    if DAY_OF[table] is None and day is not None:
        raise ApiError("REQUEST_INVALID", f"{table} is not cut by days; name none")
    if DAY_OF[table] is not None and day is None:
        raise ApiError("REQUEST_INVALID", f"{table} is cut by days; name one")
    return table, day


def _streamed(cut: Cut, document: Document, media_type: str, held: AsyncExitStack, *, masked: bool) -> Stream:
    headers = {
        "X-Cuebook-As-Of": cut.as_of.isoformat(),
        "X-Cuebook-Masked": str(masked).lower(),
        "Content-Length": str(document.size),
    }
    return Stream(_sent(document, held), media_type=media_type, headers=headers)


async def _sent(document: Document, held: AsyncExitStack) -> AsyncIterator[bytes]:
    """The bytes of a cut that is given back at their end, or when nobody wants more."""
    async with held:
        for piece in document.pieces:
            yield piece


router = Router("/api/analytics", route_handlers=[list_days, table, archived], tags=["Analytics"])

"""Sessions by the many: lists, a search in what was said; and the statistics of one."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import quote

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from api.caller import tenant_of, user_for
from api.chat import Chat
from api.errors import ApiError, described
from api.parameters import Cursor, Limit
from api.schemas.session_lists import (
    ExcerptPiece,
    HitList,
    HitView,
    MessageFound,
    SessionList,
    SessionListed,
    SessionStatsView,
)
from api.searching import QUERY_CHARS_MAX, excerpt, shortened, words_of
from api.statistics import statistics_of
from runtime.state import ExecutionStatus, Status
from store.record import Record
from store.searching import Hit, SearchFilter
from store.session_list import SessionFilter
from store.session_list import SessionListed as ListedRow

WORDS_CHARS_MAX = 120
METADATA_MAX = 10

OfUser: TypeAlias = Annotated[str | None, QueryParameter(name="userId", required=False, description="This user's.")]
OfScript: TypeAlias = Annotated[
    str | None,
    QueryParameter(name="scriptId", required=False, description="Those that run it now: its uuid or its author's id."),
]


@get("/sessions", summary="List sessions", responses=described("REQUEST_INVALID", "SERVER_BUSY"))
async def list_sessions(
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
    sort: Annotated[
        Literal["activity", "created"], QueryParameter(name="sort", description="The last active or the newest first.")
    ] = "activity",
    user_id: OfUser = None,
    status: Annotated[Status | None, QueryParameter(name="status", required=False)] = None,
    execution_status: Annotated[ExecutionStatus | None, QueryParameter(name="executionStatus", required=False)] = None,
    script_id: OfScript = None,
    script_version: Annotated[int | None, QueryParameter(name="scriptVersion", required=False, ge=1, le=2**31)] = None,
    key: Annotated[str | None, QueryParameter(name="key", required=False)] = None,
    key_prefix: Annotated[
        str | None, QueryParameter(name="keyPrefix", required=False, description="How the key begins: `telegram:`.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        QueryParameter(
            name="metadata",
            required=False,
            description="`name:value`, may be repeated: each is in the metadata. What is no text is compared as JSON.",
        ),
    ] = None,
    created_after: Annotated[datetime | None, QueryParameter(name="createdAfter", required=False)] = None,
    created_before: Annotated[datetime | None, QueryParameter(name="createdBefore", required=False)] = None,
    active_after: Annotated[datetime | None, QueryParameter(name="activeAfter", required=False)] = None,
    active_before: Annotated[datetime | None, QueryParameter(name="activeBefore", required=False)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> SessionList:
    """A page of sessions, the last active first. All pages are as the list was when the first was asked for."""
    which = SessionFilter(
        user_id=user_for(request, user_id),
        status=status,
        execution_status=execution_status,
        script=script_id,
        script_version=script_version,
        key=key,
        key_prefix=key_prefix,
        metadata=_metadata(metadata or []),
        created_after=created_after,
        created_before=created_before,
        active_after=active_after,
        active_before=active_before,
    )
    page = await record.list_sessions(tenant_of(request), which, order=sort, limit=limit, cursor=cursor)
    return SessionList(data=[_listed(row) for row in page.rows], next_cursor=page.next)


@get(
    "/users/{user_id:str}/sessions",
    summary="List a user's sessions",
    responses=described("REQUEST_INVALID", "SERVER_BUSY"),
)
async def list_user_sessions(
    user_id: FromPath[str],
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response[list[SessionListed]]:
    """Newest first; a `Link` header leads to the next page."""
    which = SessionFilter(user_id=user_id)
    page = await record.list_sessions(tenant_of(request), which, limit=limit, cursor=cursor)
    headers = {}
    if page.next is not None:
        headers["Link"] = (
            f'</api/users/{quote(user_id, "")}/sessions?limit={limit}&cursor={quote(page.next)}>; rel="next"'
        )
    return Response([_listed(row) for row in page.rows], headers=headers)


@get("/sessions/search", summary="Search in what was said", responses=described("REQUEST_INVALID", "SERVER_BUSY"))
async def search_sessions(
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
    q: Annotated[
        str,
        QueryParameter(
            name="q",
            min_length=1,
            max_length=QUERY_CHARS_MAX,
            description='Words that all occur in one message, in either case and also within words; `"a phrase"`.',
        ),
    ],
    user_id: OfUser = None,
    session_id: Annotated[str | None, QueryParameter(name="sessionId", required=False)] = None,
    role: Annotated[
        Literal["ai", "user", "system", "tool"] | None,
        QueryParameter(name="role", required=False, description="Who said it."),
    ] = None,
    script_id: OfScript = None,
    after: Annotated[
        datetime | None, QueryParameter(name="after", required=False, description="Recorded from then on.")
    ] = None,
    before: Annotated[
        datetime | None, QueryParameter(name="before", required=False, description="Recorded before then.")
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> HitList:
    """Messages of the tenant's sessions in which all words occur, the last recorded first."""
    words = words_of(q)
    what = SearchFilter(
        words=words,
        role="assistant" if role == "ai" else role,
        user_id=user_for(request, user_id),
        session_id=session_id,
        script=script_id,
        after=after,
        before=before,
    )
    page = await record.search(tenant_of(request), what, limit=limit, cursor=cursor)
    return HitList(data=[_hit(row, words) for row in page.rows], next_cursor=page.next)


@get(
    "/sessions/{session_id:str}/stats",
    summary="Read the statistics of a session",
    responses=described("REQUEST_INVALID", "SESSION_NOT_FOUND", "SERVER_BUSY"),
)
async def get_stats(
    session_id: FromPath[str],
    chat: NamedDependency[Chat],
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
) -> SessionStatsView:
    """How much was said by whom, how long it took, and what language models used for it."""
    return await statistics_of(record, await chat.session(tenant_of(request), session_id))


def _metadata(given: list[str]) -> tuple[tuple[str, str], ...]:
    """Names and values. Raises ApiError REQUEST_INVALID."""
    if len(given) > METADATA_MAX:
        raise ApiError("REQUEST_INVALID", f"metadata: at most {METADATA_MAX} of them")
    pairs = []
    for each in given:
        name, colon, value = each.partition(":")
        if not colon:
            raise ApiError("REQUEST_INVALID", "metadata: write `name:value`")
        pairs.append((name, value))
    return tuple(pairs)


def _listed(row: ListedRow) -> SessionListed:
    return SessionListed(
        session_id=row.session_id,
        user_id=row.user_id,
        key=row.key,
        title=shortened(row.title, WORDS_CHARS_MAX),
        preview=shortened(row.preview, WORDS_CHARS_MAX) if row.preview is not None else None,
        last_message=shortened(row.last_message, WORDS_CHARS_MAX) if row.last_message is not None else None,
        message_count=row.message_count,
        script_id=row.script_uuid,
        script_key=row.script_id,
        script_version=row.script_version,
        locale=row.locale,
        metadata=row.metadata,
        status=row.status,
        execution_status=row.execution_status,
        turn=row.turn,
        created_at=row.created_at,
        updated_at=row.updated_at,
        text_dropped_at=row.text_dropped_at,
    )


def _hit(row: Hit, words: tuple[str, ...]) -> HitView:
    said = row.message
    return HitView(
        session_id=row.session_id,
        user_id=row.user_id,
        key=row.key,
        title=shortened(row.title, WORDS_CHARS_MAX),
        turn=row.turn,
        message=MessageFound(
            number=said.seq,
            message_id=said.message_id,
            role="ai" if said.role == "assistant" else said.role,
            excerpt=[ExcerptPiece(text=text, found=found) for text, found in excerpt(said.content, words)],
            timestamp=said.created_at,
        ),
    )


HANDLERS = (list_sessions, list_user_sessions, search_sessions, get_stats)
"""For the router of sessions: one path has one."""

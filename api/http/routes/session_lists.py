"""Routes for lists of sessions, message search and session statistics."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from urllib.parse import quote

from litestar import Response, get
from litestar.params import FromQuery, QueryParameter

from api.auth.principal import user_for
from api.errors import ApiError, described
from api.http.request import ApiRequest, Cursor, Limit, SessionId, UserId
from api.schemas.session_lists import HitList, SessionEntry, SessionList, SessionStatsView
from api.sessions.listing import (
    QUERY_CHARS_MAX,
    FilterPairInvalid,
    SearchInvalid,
    metadata_pairs,
    parse_terms,
    search_page,
    session_entry,
    session_page,
)
from api.sessions.statistics import statistics_of
from runtime.state.events import Role
from runtime.state.state import ExecutionStatus, Status
from store.interface.list_rows import SearchFilter, SessionFilter

OfUser: TypeAlias = Annotated[str | None, QueryParameter(name="userId", description="Sessions of this user.")]
OfScript: TypeAlias = Annotated[
    str | None,
    QueryParameter(name="scriptId", description="Sessions that run this script now; its uuid or its own id."),
]


@get("/sessions", summary="List sessions", responses=described("SERVER_BUSY"))
async def list_sessions(
    request: ApiRequest,
    sort: Annotated[
        Literal["activity", "created"], QueryParameter(description="The last active or the newest first.")
    ] = "activity",
    user_id: OfUser = None,
    status: FromQuery[Status | None] = None,
    execution_status: Annotated[ExecutionStatus | None, QueryParameter(name="executionStatus")] = None,
    script_id: OfScript = None,
    script_version: Annotated[int | None, QueryParameter(name="scriptVersion", ge=1, le=2**31)] = None,
    key: Annotated[str | None, QueryParameter(description="The session with this key.")] = None,
    key_prefix: Annotated[
        str | None, QueryParameter(name="keyPrefix", description="A prefix of the key, such as `telegram:`.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        QueryParameter(
            description="`name:value`, repeatable: all must be in the metadata. Non-text values compare as JSON."
        ),
    ] = None,
    created_after: Annotated[
        datetime | None, QueryParameter(name="createdAfter", description="Created at or after this time.")
    ] = None,
    created_before: Annotated[
        datetime | None, QueryParameter(name="createdBefore", description="Created before this time.")
    ] = None,
    active_after: Annotated[
        datetime | None, QueryParameter(name="activeAfter", description="Last changed at or after this time.")
    ] = None,
    active_before: Annotated[
        datetime | None, QueryParameter(name="activeBefore", description="Last changed before this time.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> SessionList:
    """Return a page of sessions, the last active first. All pages show the list at the time of the first request."""
    try:
        pairs = metadata_pairs(metadata or [])
    except FilterPairInvalid as error:
        raise ApiError("REQUEST_INVALID", f"metadata: {error}") from error
    which = SessionFilter(
        user_id=user_for(request, user_id),
        status=status,
        execution_status=execution_status,
        script=script_id,
        script_version=script_version,
        key=key,
        key_prefix=key_prefix,
        metadata=pairs,
        created_after=created_after,
        created_before=created_before,
        active_after=active_after,
        active_before=active_before,
    )
    return await session_page(request.services.store, request.tenant, which, order=sort, limit=limit, cursor=cursor)


@get("/users/{userId:str}/sessions", summary="List a user's sessions", responses=described("SERVER_BUSY"))
async def list_user_sessions(
    user_id: UserId, request: ApiRequest, limit: Limit = 50, cursor: Cursor = None
) -> Response[list[SessionEntry]]:
    """Return a page, the newest first; a `Link` header leads to the next page."""
    which = SessionFilter(user_id=user_id)
    page = await request.services.store.sessions.page(request.tenant, which, limit=limit, cursor=cursor)
    headers = {}
    if page.next is not None:
        headers["Link"] = (
            f'</api/users/{quote(user_id, "")}/sessions?limit={limit}&cursor={quote(page.next)}>; rel="next"'
        )
    return Response([session_entry(row) for row in page.rows], headers=headers)


@get("/sessions/search", summary="Search messages", responses=described("SERVER_BUSY"))
async def search_sessions(
    request: ApiRequest,
    q: Annotated[
        str,
        QueryParameter(
            min_length=1,
            max_length=QUERY_CHARS_MAX,
            description='Words that all occur in one message, ignoring case, also as parts of words; `"a phrase"`.',
        ),
    ],
    user_id: OfUser = None,
    session_id: Annotated[str | None, QueryParameter(name="sessionId", description="In this session.")] = None,
    role: Annotated[Role | None, QueryParameter(description="The role of the message.")] = None,
    script_id: OfScript = None,
    after: Annotated[datetime | None, QueryParameter(description="Recorded at or after this time.")] = None,
    before: Annotated[datetime | None, QueryParameter(description="Recorded before this time.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> HitList:
    """Return messages of the tenant's sessions that contain all words, the last recorded first."""
    try:
        words = parse_terms(q)
    except SearchInvalid as error:
        raise ApiError("REQUEST_INVALID", f"q: {error}") from error
    what = SearchFilter(
        words=words,
        role=role,
        user_id=user_for(request, user_id),
        session_id=session_id,
        script=script_id,
        after=after,
        before=before,
    )
    return await search_page(request.services.store, request.tenant, what, limit=limit, cursor=cursor)


@get("/sessions/{sessionId:str}/stats", summary="Read the statistics of a session", responses=described("SERVER_BUSY"))
async def get_stats(session_id: SessionId, request: ApiRequest) -> SessionStatsView:
    """Return the messages per role, their durations, and the usage of language models."""
    services = request.services
    return await statistics_of(services.store, await services.chat.session(request.tenant, session_id))

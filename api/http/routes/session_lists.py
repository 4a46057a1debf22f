"""Routes that find sessions: lists, also of hand-overs and timers, message search, statistics, sessions by key, and the
past of a session.
"""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from urllib.parse import quote

from litestar import Response, get, post
from litestar.openapi.spec import OpenAPIHeader, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from api.auth.principal import user_for
from api.errors import refusing_field, require_found
from api.http.files import describing
from api.http.request import (
    ETAG,
    ApiRequest,
    Cursor,
    Limit,
    SessionId,
    UserId,
    also,
    link,
    moment,
    number,
    number_of,
    query,
    respond_at,
)
from api.schemas.base import Id
from api.schemas.lifecycle import (
    KeyedSession,
    KeyedView,
    SnapshotEntry,
    SnapshotList,
    SnapshotView,
    TimerList,
    TimerView,
)
from api.schemas.session_lists import HandOverList, HandOverView, HitList, SessionEntry, SessionList, SessionStatsView
from api.schemas.sessions import SessionView
from api.sessions.forks import load_turn
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
from api.sessions.views import event_views, message_view, session_view, snapshot, started_fields
from runtime.state.events import Role
from runtime.state.state import ExecutionStatus, Status
from scripts.model.base import ID_CHARS_MAX
from store.interface.hand_over_rows import HandOverStatus
from store.interface.list_rows import SearchFilter, SessionFilter
from store.interface.rows import NO_TURN, SnapshotRow
from store.interface.timer_rows import TimerStatus

OfUser: TypeAlias = Annotated[str | None, query("userId", "Sessions of this user.")]
OfScript: TypeAlias = Annotated[
    str | None, query("scriptId", "Sessions that run this script now; its uuid or its own id.")
]


@get("/sessions", summary="List sessions")
async def list_sessions(
    request: ApiRequest,
    sort: Annotated[Literal["activity", "created"], query("sort", "The last active or the newest first.")] = "activity",
    user_id: OfUser = None,
    status: FromQuery[Status | None] = None,
    execution_status: Annotated[ExecutionStatus | None, QueryParameter(name="executionStatus")] = None,
    outcome: Annotated[
        Id | None, query("outcome", "Ended so: `completed`, `abandoned`, or an outcome of the script.")
    ] = None,
    script_id: OfScript = None,
    script_version: Annotated[int | None, number("scriptVersion", "Sessions that run this version now.", 1)] = None,
    key: Annotated[str | None, query("key", "The session with this key.")] = None,
    key_prefix: Annotated[str | None, query("keyPrefix", "A prefix of the key, such as `telegram:`.")] = None,
    metadata: Annotated[
        list[str] | None,
        query(
            "metadata",
            "`name:value`, repeatable: all must be in the metadata. Non-text values compare as JSON. In the name, "
            "`\\:` is a colon and `\\\\` a backslash.",
        ),
    ] = None,
    created_after: Annotated[datetime | None, moment("createdAfter", "Created at or after this time.")] = None,
    created_before: Annotated[datetime | None, moment("createdBefore", "Created before this time.")] = None,
    active_after: Annotated[datetime | None, moment("activeAfter", "Last changed at or after this time.")] = None,
    active_before: Annotated[datetime | None, moment("activeBefore", "Last changed before this time.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> SessionList:
    """Return a page of sessions, the last active first.

    A session that continues meanwhile moves to the front, where later pages do not show it: to read all sessions, use
    `sort=created`.
    """
    with refusing_field("metadata", FilterPairInvalid):
        pairs = metadata_pairs(metadata or [])
    which = SessionFilter(
        user_id=user_for(request, user_id),
        status=status,
        execution_status=execution_status,
        outcome=outcome,
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


@get("/users/{userId:str}/sessions", summary="List a user's sessions", response_headers=[link("next")])
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


@get("/sessions/search", summary="Search messages")
async def search_sessions(
    request: ApiRequest,
    q: Annotated[
        str,
        query(
            "q",
            'Words that all occur in one message, ignoring case, also as parts of words; `"a phrase"`.',
            min_length=1,
            max_length=QUERY_CHARS_MAX,
        ),
    ],
    user_id: OfUser = None,
    session_id: Annotated[str | None, query("sessionId", "In this session.")] = None,
    role: Annotated[Role | None, query("role", "The role of the message.")] = None,
    script_id: OfScript = None,
    after: Annotated[datetime | None, moment("after", "Recorded at or after this time.")] = None,
    before: Annotated[datetime | None, moment("before", "Recorded before this time.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> HitList:
    """Return messages of the tenant's sessions that contain all words, the last recorded first."""
    with refusing_field("q", SearchInvalid):
        words = parse_terms(q)
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


@get("/hand-overs", summary="List hand-overs")
async def list_hand_overs(
    request: ApiRequest,
    user_id: OfUser = None,
    status: FromQuery[HandOverStatus | None] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> HandOverList:
    """Return a page of the sessions that a person is asked to join or talks in, those that wait longest first."""
    page = await request.services.store.sessions.hand_overs(
        request.tenant, user_id=user_for(request, user_id), status=status, limit=limit, cursor=cursor
    )
    return HandOverList(data=[HandOverView.of(row) for row in page.rows], next_cursor=page.next)


@get("/timers", summary="List timers")
async def list_timers(
    request: ApiRequest,
    session_id: Annotated[str | None, query("sessionId", "Timers of this session.")] = None,
    user_id: Annotated[str | None, query("userId", "Timers of this user.")] = None,
    status: FromQuery[TimerStatus | None] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> TimerList:
    """A page of timers, the earliest first."""
    page = await request.services.store.timers.page(
        request.tenant,
        session_id=session_id,
        user_id=user_for(request, user_id),
        status=status,
        limit=limit,
        cursor=cursor,
    )
    return TimerList(data=[TimerView.of(row) for row in page.rows], next_cursor=page.next)


@get("/sessions/{sessionId:str}/stats", summary="Read the statistics of a session")
async def get_stats(session_id: SessionId, request: ApiRequest) -> SessionStatsView:
    """Return the messages per role, their durations, and the usage of language models."""
    services = request.services
    return await statistics_of(services.store, await services.chat.session(request.tenant, session_id))


# -- by key -----------------------------------------------------------------------------------------------------------


def _describe_headers(operation: Operation) -> None:
    """Add the headers of a session that was created and says where it is."""
    found, created = (operation.responses or {})["200"], (operation.responses or {})["201"]
    if isinstance(found, OpenAPIResponse) and isinstance(created, OpenAPIResponse):
        where = OpenAPIHeader(description="The URL of the session.", schema=Schema(type=OpenAPIType.STRING))
        created.headers = {**(found.headers or {}), "Location": where}


@post(
    "/sessions/by-key",
    status_code=200,
    summary="Get or create a session by key",
    operation_class=describing(_describe_headers),
    response_headers=[ETAG],
    responses=also(201, KeyedView, "The session was created."),
)
async def get_or_create(data: JSONBody[KeyedSession], request: ApiRequest) -> Response[KeyedView]:
    """Concurrent requests create one session. Status 201 if this request created it. `messages` are those of its last
    turn. A session whose first turn failed is started again.
    """
    cached, created = await request.services.labels.get_or_create(request.tenant, data)
    view = KeyedView(**await started_fields(request.services.store, cached), created=created)
    return respond_at(cached.state.turn, view, created=f"/api/sessions/{cached.session.session_id}" if created else "")


@get("/sessions/by-key", summary="Get a session by key", response_headers=[ETAG])
async def get_by_key(
    request: ApiRequest,
    key: Annotated[str, query("key", "The key as it was set.", min_length=1, max_length=ID_CHARS_MAX)],
) -> Response[SessionView]:
    """Return the session with a key in its current state."""
    found = await request.services.labels.by_key(request.tenant, key)
    cached = require_found(found, "SESSION_NOT_FOUND", "there is no session with this key", {"key": key})
    return respond_at(cached.state.turn, session_view(cached))


# -- snapshots --------------------------------------------------------------------------------------------------------


@get("/sessions/{sessionId:str}/snapshots", summary="List the snapshots of a session")
async def list_snapshots(
    session_id: SessionId,
    request: ApiRequest,
    after: Annotated[int, number("after", "Turns after this one.", NO_TURN)] = NO_TURN,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> SnapshotList:
    """Return a page of turns, oldest first, each with the position after it."""
    services = request.services
    await services.chat.session(request.tenant, session_id)
    after = max(after, number_of(cursor, NO_TURN))
    rows = await services.store.turns.snapshots(request.tenant, session_id, after_turn=after, limit=limit + 1)
    next_cursor = str(rows[limit - 1].turn) if len(rows) > limit else None
    return SnapshotList(data=[_list_entry(row) for row in rows[:limit]], next_cursor=next_cursor)


@get("/sessions/{sessionId:str}/snapshots/{turn:int}", summary="Read a snapshot")
async def get_snapshot(session_id: SessionId, turn: FromPath[int], request: ApiRequest) -> SnapshotView:
    """Return the session after a turn: its variables, position and wait, and the messages of that turn."""
    chat = request.services.chat
    cached = await chat.session(request.tenant, session_id)
    row, state = await load_turn(request.services.store, cached, turn)
    return SnapshotView.of(
        snapshot(await chat.program_at(cached, turn), state, state.execution_status, None),
        cached.session,
        state,
        at=row.finished_at,
        messages=[message_view(message, cached.state.gaps) for message in row.messages],
        events=event_views(row),
    )


def _list_entry(row: SnapshotRow) -> SnapshotEntry:
    return SnapshotEntry.of(
        row, at=row.finished_at, phase_id=row.phase_id or "", topic_id=row.topic_id or "", action_id=row.action_id or ""
    )

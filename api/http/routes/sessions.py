"""Routes for sessions: create one, send a message, read it, and its events as pages or as a live stream."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, delete, get
from litestar.params import HeaderParameter, JSONBody

from api.auth.middleware import clients_of
from api.auth.principal import check_session_key, masks, user_for
from api.errors import ApiError
from api.http.request import (
    ETAG,
    Accept,
    ApiRequest,
    Cursor,
    Debug,
    IdempotencyKey,
    IfMatch,
    LastEventId,
    Limit,
    Prefer,
    SessionId,
    WithEvents,
    condition,
    creation_condition,
    link,
    number,
    number_of,
    query,
    respond_at,
    seconds_to_wait,
    turn_of,
    wants_stream,
)
from api.http.turn_routes import STREAMED_EVENTS, answer_turn, turn_route
from api.privacy.mask import find_hidden_values
from api.privacy.masked_rows import mask_call
from api.schemas.calls import CallList, DebugInfo
from api.schemas.sessions import EventList, MessageList, NewMessage, NewSession, SessionStart, SessionView, TurnAnswer
from api.sessions.live_turns import TurnResult
from api.sessions.session_cache import require_not_redacted
from api.sessions.sse import EventPosition, read_place
from api.sessions.streams import WAIT_S_MAX
from api.sessions.views import (
    call_view,
    chat_message_view,
    current_snapshot,
    debug_call,
    event_views,
    replies,
    session_view,
    snapshot,
)
from runtime.state.scopes import Scopes
from store.interface.rows import Gaps
from store.store import Store

_PAGING = {"order", "after", "before", "limit", "cursor"}
NEWEST_MAX = 100
"""Messages in a list without parameters."""


@turn_route("/sessions", "Begin a session")
async def create_session(
    data: JSONBody[NewSession],
    request: ApiRequest,
    accept: Accept = None,
    idempotency_key: IdempotencyKey = None,
    debug: Debug = False,
    events: WithEvents = False,
) -> Response[SessionStart]:
    """Runs the script to its first question."""

    def to_view(answer: TurnResult) -> SessionStart:
        return SessionStart(**_turn_fields(answer, events=events, debug=debug), created_at=answer.session.created_at)

    user_for(request, data.user_id)
    check_session_key(request, data.key)
    submit, preconditions = request.services.creation.submit, creation_condition(request, idempotency_key)
    return await answer_turn(
        request, accept, lambda join: submit(request.tenant, data, preconditions, join=join), to_view
    )


@turn_route("/sessions/{sessionId:str}/messages", "Send a message")
async def send_message(
    session_id: SessionId,
    data: JSONBody[NewMessage],
    request: ApiRequest,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    accept: Accept = None,
    debug: Debug = False,
    events: WithEvents = False,
) -> Response[TurnAnswer]:
    """Process a message and return the answer."""

    def to_view(answer: TurnResult) -> TurnAnswer:
        return TurnAnswer(**_turn_fields(answer, events=events, debug=debug), session_status=answer.state.status)

    preconditions = condition(idempotency_key, if_match, prefer)
    key, submit = (request.tenant, session_id), request.services.chat.submit_message
    return await answer_turn(request, accept, lambda join: submit(*key, data, preconditions, join=join), to_view, key)


@get("/sessions/{sessionId:str}", summary="Read a session", response_headers=[ETAG])
async def get_session(session_id: SessionId, request: ApiRequest) -> Response[SessionView]:
    """Return the current state of a session; `executionStatus` is `running` while a turn of it runs."""
    chat = request.services.chat
    cached = await chat.session(request.tenant, session_id)
    view = session_view(cached)
    if chat.live.is_in_turn(cached.key):
        view = msgspec.structs.replace(view, execution_status="running")
    return respond_at(cached.state.turn, view)


@get(
    "/sessions/{sessionId:str}/messages", summary="List the messages of a session", response_headers=[link("previous")]
)
async def list_messages(
    session_id: SessionId,
    request: ApiRequest,
    order: Annotated[Literal["asc", "desc"], query("order", "Oldest or newest first.")] = "asc",
    after: Annotated[int, number("after", "Messages with a greater number.")] = 0,
    before: Annotated[int | None, number("before", "Messages with a smaller number.", 1)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    with_removed: Annotated[bool, query("all", "Also messages that a rewind or clear removed, as `removed`.")] = False,
) -> Response[MessageList]:
    """Return a page of the conversation; without `order`, `after`, `before`, `limit` and `cursor` the newest 100."""
    tenant, store = request.tenant, request.services.store
    gaps = (await request.services.chat.session(tenant, session_id)).state.gaps
    without = () if with_removed else gaps
    if not _PAGING & request.query_params.keys():
        return await _newest(store, tenant, session_id, gaps, without)
    if order == "asc":
        after = max(after, number_of(cursor, 0))
        rows = await store.turns.messages(tenant, session_id, after_seq=after, limit=limit + 1, without=without)
    else:
        ends = [end for end in (before, number_of(cursor, 0) or None) if end is not None]
        before = min(ends, default=None)
        rows = await store.turns.recent_messages(tenant, session_id, limit + 1, before_seq=before, without=without)
        rows.reverse()
    rows = [row for row in rows if row.seq > after and (before is None or row.seq < before)]
    next_cursor = str(rows[limit - 1].seq) if len(rows) > limit else None
    return Response(MessageList(data=[chat_message_view(row, gaps) for row in rows[:limit]], next_cursor=next_cursor))


async def _newest(
    store: Store, tenant: str, session_id: str, gaps: tuple[tuple[int, int], ...], without: Gaps
) -> Response[MessageList]:
    """Return the newest messages, oldest first, with a `Link` to the previous page."""
    rows = await store.turns.recent_messages(tenant, session_id, NEWEST_MAX + 1, before_seq=None, without=without)
    page, headers = rows[-NEWEST_MAX:], {}
    if len(rows) > NEWEST_MAX:
        removed = "" if without == gaps else "&all=true"
        headers["Link"] = f'</api/sessions/{session_id}/messages?order=desc&before={page[0].seq}{removed}>; rel="prev"'
    data = [chat_message_view(row, gaps) for row in page]
    return Response(MessageList(data=data, next_cursor=None), headers=headers)


@get("/sessions/{sessionId:str}/variables", summary="Read the variables")
async def get_variables(
    session_id: SessionId,
    request: ApiRequest,
    scoped: Annotated[bool, query("scoped", "By scope, with type, source and time.")] = False,
) -> dict[str, Any]:
    """Return every variable with its value at the current position; with `scoped` a `variableStore`."""
    cached = await request.services.chat.session(request.tenant, session_id)
    require_not_redacted(cached.session)
    if scoped:
        store: dict[str, Any] = msgspec.to_builtins(current_snapshot(cached).variable_store)
        return store
    return Scopes(cached.program, cached.state).flat()


@get("/sessions/{sessionId:str}/calls", summary="List the model calls of a session")
async def list_calls(
    session_id: SessionId, request: ApiRequest, debug: Debug = False, limit: Limit = 100, cursor: Cursor = None
) -> CallList:
    """Return a page of calls of models and tools, oldest first, including those of failed turns. `debug` adds prompts
    and replies; personal values, and the users' texts in prompts, are hidden without the role `reader`.
    """
    services, store = request.services, request.services.store
    cached = await services.chat.session(request.tenant, session_id)
    page = await store.turns.calls(request.tenant, session_id, limit=limit, cursor=cursor)
    rows = page.rows
    if masks(request.principal, None):
        hidden = await find_hidden_values(store, services.catalog, cached.session)
        rows = await asyncio.to_thread(lambda: [mask_call(hidden, row) for row in page.rows])
    return CallList(data=[call_view(row, debug=debug) for row in rows], next_cursor=page.next)


@get(
    "/sessions/{sessionId:str}/events",
    summary="List or stream the events of a session",
    operation_class=STREAMED_EVENTS,
)
async def list_events(
    session_id: SessionId,
    request: ApiRequest,
    after: Annotated[int, number("after", "Events after this number.")] = 0,
    limit: Limit = 100,
    cursor: Cursor = None,
    last_event_id: LastEventId = None,
    accept: Accept = None,
    prefer: Annotated[
        str | None, HeaderParameter(name="Prefer", description="`wait=SECONDS`, at most 60: waits for an event.")
    ] = None,
) -> Response[EventList]:
    """A page of events, oldest first; with `Prefer: wait=SECONDS` (60 at most) it waits for one. With `Accept:
    text/event-stream` everything after `after` or `Last-Event-ID`, then events and words as they occur.
    """
    chat, key, clients = request.services.chat, (request.tenant, session_id), clients_of(request.scope)
    streams = chat.streams
    place = read_place(last_event_id, session_id) if last_event_id else EventPosition(max(after, number_of(cursor, 0)))
    try:
        cached = await chat.session(*key)
    except ApiError:
        if wants_stream(accept) and chat.live.knows(key):  # it may run its first turn
            return streams.of_session(key, None, place, clients)
        raise
    if wants_stream(accept):
        return streams.of_session(key, cached, place, clients)
    wait_s = seconds_to_wait(prefer)
    page = await streams.page(cached, place.seq, limit, wait_s, clients, request.receive)
    return Response(page, headers={"Preference-Applied": f"wait={min(wait_s, WAIT_S_MAX)}"} if wait_s else {})


def _turn_fields(answer: TurnResult, *, events: bool, debug: bool) -> dict[str, Any]:
    """Return the fields that both routes of a turn answer with."""
    messages = [chat_message_view(message) for message in replies(answer.row)]
    return {
        **msgspec.structs.asdict(snapshot(answer.program, answer.state, answer.state.execution_status, None)),
        "session_id": answer.session.session_id,
        "status": answer.state.status,
        "ai_message": "\n\n".join(message.content for message in messages if message.content),
        "messages": messages,
        "events": event_views(answer.row) if events else msgspec.UNSET,
        "debug_info": DebugInfo(model_calls=[*map(debug_call, answer.model_calls)]) if debug else None,
    }


@delete("/sessions/{sessionId:str}", summary="Delete a session")
async def delete_session(session_id: SessionId, request: ApiRequest, if_match: IfMatch = None) -> None:
    """Deletes all recorded data of the session after its running turn. Its keys can be used again. Global variables
    that it wrote belong to the user and remain.
    """
    await request.services.deletion.delete(request.tenant, session_id, turn_of(if_match))

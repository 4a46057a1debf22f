"""Sessions: begin one, talk to it, look at it."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath, QueryParameter

from api.accept import wants_stream
from api.answer import Answer
from api.caller import caller_of, masks, tenant_of, user_for
from api.catalogue import Catalogue
from api.chat import Chat
from api.dropped import require_text
from api.errors import described
from api.parameters import (
    Accept,
    Cursor,
    Debug,
    IdempotencyKey,
    IfMatch,
    Limit,
    Prefer,
    WithEvents,
    condition,
)
from api.privacy.hidden import hidden_of
from api.privacy.rows import masked_call
from api.routes import session_lists
from api.routes.lifecycle import label_session, set_variables
from api.routes.removal import delete_session
from api.routes.streamed import StreamedTurn, asked_by
from api.schemas.calls import CallList
from api.schemas.sessions import (
    MessageList,
    NewMessage,
    NewSession,
    SessionCreated,
    SessionView,
    TurnAnswer,
)
from api.showing import ETAG, etag, session_view, shown_of
from api.views import (
    call_view,
    debug_info,
    event_views,
    flat_variables,
    message_view,
    said,
    snapshot,
)
from store.record import Record

_TURN = described(
    "UNSUPPORTED_MEDIA_TYPE",
    "PAYLOAD_TOO_LARGE",
    "ACTION_EXECUTION_ERROR",
    "LIMIT_EXCEEDED",
    "LLM_SERVICE_ERROR",
    "LLM_CALL_INTERRUPTED",
    "MEMORY_FAILED",
    "STREAMS_FULL",
    "SERVER_BUSY",
)
_KNOWN = described("REQUEST_INVALID", "SESSION_NOT_FOUND")

_SESSION_EXAMPLES = [
    Example(
        summary="The intake script",
        value={"userId": "ana", "scriptId": "intake", "initialVariables": {"channel": "web"}},
    ),
    Example(
        summary="With a key of your own",
        value={"userId": "42", "scriptId": "intake", "key": "telegram:42", "locale": "en"},
    ),
]
_MESSAGE_EXAMPLES = [
    Example(summary="A text", value={"content": "My name is Ana"}),
    Example(summary="A choice", value={"choice": "A"}),
    Example(summary="A filled form", value={"form": {"name": "Ana", "evenings": ["Monday"]}}),
]


@post(
    "/sessions",
    status_code=200,
    summary="Begin a session",
    response_headers=[ETAG],
    description="Runs the script up to its first question.",
    operation_class=StreamedTurn,
    responses=_TURN
    | described(
        "REQUEST_INVALID",
        "SCRIPT_NOT_FOUND",
        "SESSION_BUSY",
        "SCRIPT_NOT_PUBLISHED",
        "SESSION_KEY_TAKEN",
        "SESSION_TEXT_DROPPED",
        "IDEMPOTENCY_IN_FLIGHT",
        "IDEMPOTENCY_MISMATCH",
    ),
)
async def create_session(
    data: Annotated[NewSession, BodyKwarg(examples=_SESSION_EXAMPLES)],
    chat: NamedDependency[Chat],
    request: Request[Any, Any, Any],
    accept: Accept = None,
    idempotency_key: IdempotencyKey = None,
    debug: Debug = False,
    events: WithEvents = False,
) -> Response[SessionCreated]:
    """Begins a session."""

    def shown(answer: Answer) -> SessionCreated:
        return SessionCreated(
            **_turn_fields(answer, events=events, debug=debug),
            session_id=answer.session.session_id,
            status=answer.state.status,
            created_at=answer.session.created_at,
        )

    user_for(request, data.user_id)
    asked = condition(idempotency_key, None, None)
    if wants_stream(accept):
        return await chat.streams.of_turn(
            lambda: chat.starting(tenant_of(request), data, asked), shown, asked_by(request)
        )
    answer = await chat.start(tenant_of(request), data, asked)
    return Response(shown(answer), headers=etag(answer.state.turn))


@post(
    "/sessions/{session_id:str}/messages",
    status_code=200,
    response_headers=[ETAG],
    summary="Say something to a session",
    operation_class=StreamedTurn,
    responses=_TURN
    | described(
        "REQUEST_INVALID",
        "SESSION_NOT_FOUND",
        "SESSION_BUSY",
        "SESSION_ENDED",
        "SESSION_PAUSED",
        "SESSION_TEXT_DROPPED",
        "IDEMPOTENCY_IN_FLIGHT",
        "TURN_CONFLICT",
        "IDEMPOTENCY_MISMATCH",
    ),
)
async def send_message(
    session_id: FromPath[str],
    data: Annotated[NewMessage, BodyKwarg(examples=_MESSAGE_EXAMPLES)],
    chat: NamedDependency[Chat],
    request: Request[Any, Any, Any],
    accept: Accept = None,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    debug: Debug = False,
    events: WithEvents = False,
) -> Response[TurnAnswer]:
    """Takes a message and answers it."""

    def shown(answer: Answer) -> TurnAnswer:
        return TurnAnswer(**_turn_fields(answer, events=events, debug=debug), session_status=answer.state.status)

    asked = condition(idempotency_key, if_match, prefer)
    if wants_stream(accept):
        hot = await chat.session(tenant_of(request), session_id)
        return await chat.streams.of_turn(
            lambda: chat.taking(tenant_of(request), session_id, data, asked), shown, asked_by(request), hot
        )
    answer = await chat.turn(tenant_of(request), session_id, data, asked)
    return Response(shown(answer), headers=etag(answer.state.turn))


@get("/sessions/{session_id:str}", summary="Look at a session", responses=_KNOWN, response_headers=[ETAG])
async def get_session(
    session_id: FromPath[str], chat: NamedDependency[Chat], request: Request[Any, Any, Any]
) -> Response[SessionView]:
    """The session as it stands."""
    hot = await chat.session(tenant_of(request), session_id)
    return Response(session_view(hot), headers=etag(hot.state.turn))


@get("/sessions/{session_id:str}/messages", summary="Read what was said", responses=_KNOWN)
async def list_messages(
    session_id: FromPath[str],
    chat: NamedDependency[Chat],
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
    order: Annotated[
        Literal["asc", "desc"], QueryParameter(name="order", description="Oldest or newest first.")
    ] = "asc",
    after: Annotated[int, QueryParameter(name="after", ge=0, le=2**31, description="Those numbered above it.")] = 0,
    before: Annotated[
        int | None,
        QueryParameter(name="before", required=False, ge=1, le=2**31, description="Those numbered below it."),
    ] = None,
    limit: Limit = 100,
    with_removed: Annotated[
        bool, QueryParameter(name="all", description="Also those that were taken out, marked as `removed`.")
    ] = False,
) -> MessageList:
    """A page of the conversation, without what a rewind or clear took out of it."""
    tenant = tenant_of(request)
    gaps = (await chat.session(tenant, session_id)).state.gaps
    without = () if with_removed else gaps
    if order == "asc":
        rows = await record.messages(tenant, session_id, after_seq=after, limit=limit + 1, without=without)
    else:
        rows = await record.recent_messages(tenant, session_id, limit + 1, before_seq=before, without=without)
        rows.reverse()
    rows = [row for row in rows if row.seq > after and (before is None or row.seq < before)]
    last = rows[limit - 1].seq if len(rows) > limit else None
    return MessageList(
        data=[message_view(row, gaps) for row in rows[:limit]],
        next_after=last if order == "asc" else None,
        next_before=last if order == "desc" else None,
    )


@get(
    "/sessions/{session_id:str}/variables",
    summary="Read the variables",
    responses=described("REQUEST_INVALID", "SESSION_NOT_FOUND", "SESSION_TEXT_DROPPED"),
)
async def get_variables(
    session_id: FromPath[str],
    chat: NamedDependency[Chat],
    request: Request[Any, Any, Any],
    scoped: Annotated[bool, QueryParameter(name="scoped", description="By scope, with type, source and time.")] = False,
) -> dict[str, Any]:
    """Every variable with the value it has where the session stands; scoped: a `variableStore`."""
    hot = await chat.session(tenant_of(request), session_id)
    require_text(hot.session)
    if scoped:
        store: dict[str, Any] = msgspec.to_builtins(shown_of(hot).variable_store)
        return store
    return dict(flat_variables(hot.program, hot.state))


@get("/sessions/{session_id:str}/calls", summary="Read the calls of language models", responses=_KNOWN)
async def list_calls(
    session_id: FromPath[str],
    chat: NamedDependency[Chat],
    record: NamedDependency[Record],
    catalogue: NamedDependency[Catalogue],
    request: Request[Any, Any, Any],
    debug: Debug = False,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> CallList:
    """A page of calls, oldest first, also those of turns that failed; with `debug` what was replied, without personal
    values unless the role `reader` comes along.
    """
    caller = caller_of(request)
    hot = await chat.session(caller.tenant, session_id)
    page = await record.calls(caller.tenant, session_id, limit=limit, cursor=cursor)
    rows = page.rows
    if masks(caller, None):
        hidden = await hidden_of(record, catalogue, hot.session)
        rows = await asyncio.to_thread(lambda: [masked_call(hidden, row) for row in page.rows])
    return CallList(data=[call_view(row, debug=debug) for row in rows], next_cursor=page.next)


def _turn_fields(answer: Answer, *, events: bool, debug: bool) -> dict[str, Any]:
    """What both routes that take a turn answer."""
    messages = said(answer.row)
    return {
        **msgspec.structs.asdict(snapshot(answer.program, answer.state, answer.state.execution_status, None)),
        "ai_message": "\n\n".join(message.content for message in messages if message.content),
        "messages": messages,
        "events": event_views(answer.row) if events else msgspec.UNSET,
        "debug_info": debug_info(answer.model_calls) if debug else None,
    }


router = Router(
    "/api",
    route_handlers=[
        create_session,
        send_message,
        get_session,
        delete_session,
        label_session,
        list_messages,
        get_variables,
        set_variables,
        list_calls,
        *session_lists.HANDLERS,
    ],
    tags=["Sessions"],
)

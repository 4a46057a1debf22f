"""What an application does to sessions besides talking to them: pause, set, take back, clear, add, copy, note."""

from collections.abc import Awaitable
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, patch, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath

from api.answer import Answer
from api.caller import tenant_of
from api.errors import described
from api.lifecycle.forks import Forks
from api.lifecycle.interventions import Interventions
from api.lifecycle.labels import Labels
from api.parameters import IdempotencyKey, IfMatch, Prefer, WithEvents, condition
from api.schemas.lifecycle import Back, Ending, NewFork, NewLabels, NewMessages, NewValues, SessionChanged
from api.schemas.sessions import SessionView
from api.showing import ETAG, etag, session_view
from api.views import event_views, message_view, snapshot

_CODES = (
    "REQUEST_INVALID",
    "SESSION_NOT_FOUND",
    "SESSION_BUSY",
    "SESSION_TEXT_DROPPED",
    "INTERVENTION_REFUSED",
    "IDEMPOTENCY_IN_FLIGHT",
    "IDEMPOTENCY_MISMATCH",
    "TURN_CONFLICT",
    "SERVER_BUSY",
)
_WITH_BODY = (*_CODES, "UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE")
_NOT_ENDED = ("SESSION_ENDED",)

_ENDING_EXAMPLES = [Example(value={"reason": "the user left"})]
_VALUES_EXAMPLES = [
    Example(summary="Where each is declared", value={"variables": {"age": 41, "nickname": None}}),
    Example(summary="In one scope", value={"variables": {"mood": "calm"}, "scope": "phase"}),
]
_BACK_EXAMPLES = [
    Example(summary="As turn 2 left it", value={"turn": 2}),
    Example(summary="Before the user's first message", value={"beforeUserMessage": 0}),
]
_FORK_EXAMPLES = [
    Example(summary="As it stands", value={}),
    Example(summary="As turn 2 left it, by a name", value={"turn": 2, "key": "telegram:42/second", "metadata": {}}),
]
_MESSAGES_EXAMPLES = [
    Example(
        summary="A pair from elsewhere",
        value={"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]},
    ),
    Example(
        summary="A picture",
        value={
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "My cat"}, {"type": "image", "url": "https://example.org/1"}],
                }
            ]
        },
    ),
]
_LABELS_EXAMPLES = [Example(summary="A note more, and one less", value={"metadata": {"team": "north", "draft": None}})]


@post(
    "/sessions/{session_id:str}/pause",
    status_code=200,
    summary="Pause a session",
    description="It takes no message until it is resumed. A paused one stays as it is.",
    response_headers=[ETAG],
    responses=described(*_CODES, *_NOT_ENDED),
)
async def pause_session(
    session_id: FromPath[str],
    interventions: NamedDependency[Interventions],
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    events: WithEvents = False,
) -> Response[SessionChanged]:
    """Pauses a session."""
    asked = condition(idempotency_key, if_match, prefer)
    return await _changed(interventions.pause(tenant_of(request), session_id, asked), events=events)


@post(
    "/sessions/{session_id:str}/resume",
    status_code=200,
    summary="Resume a paused session",
    description="It waits for what it waited for. One that is not paused stays as it is.",
    response_headers=[ETAG],
    responses=described(*_CODES, *_NOT_ENDED),
)
async def resume_session(
    session_id: FromPath[str],
    interventions: NamedDependency[Interventions],
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    events: WithEvents = False,
) -> Response[SessionChanged]:
    """Resumes a session."""
    asked = condition(idempotency_key, if_match, prefer)
    return await _changed(interventions.resume(tenant_of(request), session_id, asked), events=events)


@post(
    "/sessions/{session_id:str}/end",
    status_code=200,
    summary="End a session",
    description="The conversation is over where it is. One that is over stays as it is.",
    response_headers=[ETAG],
    responses=described(*_WITH_BODY),
)
async def end_session(
    session_id: FromPath[str],
    interventions: NamedDependency[Interventions],
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    events: WithEvents = False,
    data: Annotated[Ending | None, BodyKwarg(examples=_ENDING_EXAMPLES)] = None,
) -> Response[SessionChanged]:
    """Ends a session."""
    asked = condition(idempotency_key, if_match, prefer)
    return await _changed(interventions.end(tenant_of(request), session_id, data or Ending(), asked), events=events)


@patch(
    "/sessions/{session_id:str}/variables",
    summary="Set variables of a session",
    description="Each where it is declared, else in the session's scope; null unsets one. All of them or none.",
    response_headers=[ETAG],
    responses=described(*_WITH_BODY, *_NOT_ENDED, "ACTION_EXECUTION_ERROR"),
)
async def set_variables(
    session_id: FromPath[str],
    data: Annotated[NewValues, BodyKwarg(examples=_VALUES_EXAMPLES)],
    interventions: NamedDependency[Interventions],
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    events: WithEvents = False,
) -> Response[SessionChanged]:
    """Sets variables."""
    asked = condition(idempotency_key, if_match, prefer)
    return await _changed(interventions.set_variables(tenant_of(request), session_id, data, asked), events=events)


@post(
    "/sessions/{session_id:str}/rewind",
    status_code=200,
    summary="Take a session back to an earlier turn",
    description="What was said since is not in the conversation any more, but stays in the record; so does every turn.",
    response_headers=[ETAG],
    responses=described(*_WITH_BODY, "TURN_NOT_FOUND", "MIGRATION_BLOCKED", "VARIABLE_STORE_INIT_ERROR"),
)
async def rewind_session(
    session_id: FromPath[str],
    data: Annotated[Back, BodyKwarg(examples=_BACK_EXAMPLES)],
    interventions: NamedDependency[Interventions],
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    events: WithEvents = False,
) -> Response[SessionChanged]:
    """Takes a session back."""
    asked = condition(idempotency_key, if_match, prefer)
    return await _changed(interventions.rewind(tenant_of(request), session_id, data, asked), events=events)


@post(
    "/sessions/{session_id:str}/clear",
    status_code=200,
    summary="Clear a conversation",
    description="Nothing said so far is in the conversation any more; it stays in the record, the session where it is.",
    response_headers=[ETAG],
    responses=described(*_CODES),
)
async def clear_session(
    session_id: FromPath[str],
    interventions: NamedDependency[Interventions],
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    events: WithEvents = False,
) -> Response[SessionChanged]:
    """Clears a conversation."""
    asked = condition(idempotency_key, if_match, prefer)
    return await _changed(interventions.clear(tenant_of(request), session_id, asked), events=events)


@post(
    "/sessions/{session_id:str}/messages/append",
    status_code=200,
    summary="Add messages that were said elsewhere",
    description="They are in the conversation; the script does not hear of them. Requests at once wait for each other.",
    response_headers=[ETAG],
    responses=described(*_WITH_BODY, *_NOT_ENDED),
)
async def append_messages(
    session_id: FromPath[str],
    data: Annotated[NewMessages, BodyKwarg(examples=_MESSAGES_EXAMPLES)],
    interventions: NamedDependency[Interventions],
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    events: WithEvents = False,
) -> Response[SessionChanged]:
    """Adds messages."""
    asked = condition(idempotency_key, if_match, None)
    return await _changed(interventions.append(tenant_of(request), session_id, data, asked), events=events)


@post(
    "/sessions/{session_id:str}/fork",
    status_code=201,
    summary="Copy a session up to a turn",
    description="Another session of the same user, which was the same up to there; the one it is copied from stays.",
    response_headers=[ETAG],
    responses=described(
        "REQUEST_INVALID",
        "SESSION_NOT_FOUND",
        "SESSION_TEXT_DROPPED",
        "TURN_NOT_FOUND",
        "SESSION_KEY_TAKEN",
        "IDEMPOTENCY_MISMATCH",
        "UNSUPPORTED_MEDIA_TYPE",
        "PAYLOAD_TOO_LARGE",
        "SERVER_BUSY",
    ),
)
async def fork_session(
    session_id: FromPath[str],
    forks: NamedDependency[Forks],
    request: Request[Any, Any, Any],
    idempotency_key: IdempotencyKey = None,
    data: Annotated[NewFork | None, BodyKwarg(examples=_FORK_EXAMPLES)] = None,
) -> Response[SessionView]:
    """Copies a session."""
    asked = condition(idempotency_key, None, None)
    hot = await forks.fork(tenant_of(request), session_id, data or NewFork(), asked)
    headers = etag(hot.state.turn) | {"Location": f"/api/sessions/{hot.session.session_id}"}
    return Response(session_view(hot), headers=headers)


@patch(
    "/sessions/{session_id:str}",
    summary="Change what is noted of a session",
    description="`metadata` is a merge patch (RFC 7396): null removes a name. It is no turn. A `key` names a session "
    "that has none.",
    response_headers=[ETAG],
    responses=described(
        "REQUEST_INVALID",
        "SESSION_NOT_FOUND",
        "SESSION_TEXT_DROPPED",
        "SESSION_KEY_TAKEN",
        "INTERVENTION_REFUSED",
        "SESSION_BUSY",
        "UNSUPPORTED_MEDIA_TYPE",
        "PAYLOAD_TOO_LARGE",
        "SERVER_BUSY",
    ),
)
async def label_session(
    session_id: FromPath[str],
    data: Annotated[NewLabels, BodyKwarg(examples=_LABELS_EXAMPLES)],
    labels: NamedDependency[Labels],
    request: Request[Any, Any, Any],
) -> Response[SessionView]:
    """Changes metadata, or gives a key."""
    hot = await labels.label(tenant_of(request), session_id, data)
    return Response(session_view(hot), headers=etag(hot.state.turn))


async def _changed(work: Awaitable[Answer], *, events: bool) -> Response[SessionChanged]:
    answer = await work
    state, row = answer.state, answer.row
    shown = SessionChanged(
        **msgspec.structs.asdict(snapshot(answer.program, state, state.execution_status, None)),
        session_id=answer.session.session_id,
        status=state.status,
        messages=[message_view(message) for message in row.messages],
        events=event_views(row) if events else msgspec.UNSET,
    )
    return Response(shown, headers=etag(state.turn))


router = Router(
    "/api",
    route_handlers=[
        pause_session,
        resume_session,
        end_session,
        rewind_session,
        clear_session,
        append_messages,
        fork_session,
    ],
    tags=["Sessions"],
)

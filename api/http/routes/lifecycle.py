"""Routes that change sessions besides messages: pause, variables, rewind, clear, append, fork, metadata."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from litestar import Response, patch, post
from litestar.di import NamedDependency, Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Struct

from api.errors import described
from api.http.request import (
    ApiRequest,
    IdempotencyKey,
    IfMatch,
    SessionId,
    TurnPreconditions,
    WithEvents,
    condition,
    location,
)
from api.schemas.base import Body
from api.schemas.lifecycle import (
    Ending,
    NewFork,
    NewLabels,
    NewMessages,
    NewValues,
    PastTurn,
    SessionChange,
    SessionWithMessages,
)
from api.schemas.sessions import SessionView
from api.sessions.lifecycle.interventions import Interventions
from api.sessions.turn_runner import Preconditions, TurnResult
from api.sessions.views import ETAG, etag, event_views, message_view, session_view, snapshot, started_fields

CHANGE_ERRORS = (
    "SESSION_BUSY",
    "SESSION_REDACTED",
    "INTERVENTION_REFUSED",
    "IDEMPOTENCY_IN_FLIGHT",
    "IDEMPOTENCY_MISMATCH",
    "TURN_CONFLICT",
    "SERVER_BUSY",
)
"""Errors of every route that changes a session."""

_ENDING_EXAMPLES = [Example(value={"reason": "the user left"})]
_VALUES_EXAMPLES = [
    Example(summary="In the declared scope", value={"variables": {"age": 41, "nickname": None}}),
    Example(summary="In one scope", value={"variables": {"mood": "calm"}, "scope": "phase"}),
]
_BACK_EXAMPLES = [
    Example(summary="The state after turn 2", value={"turn": 2}),
    Example(summary="Before the user's first message", value={"beforeUserMessage": 0}),
]
_FORK_EXAMPLES = [
    Example(summary="The current state", value={}),
    Example(
        summary="The state after turn 2, with a key", value={"turn": 2, "key": "telegram:42/second", "metadata": {}}
    ),
]
_MESSAGES_EXAMPLES = [
    Example(
        summary="A pair of messages",
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
_LABELS_EXAMPLES = [
    Example(summary="Set one name, remove another", value={"metadata": {"team": "north", "draft": None}})
]


class Change(Struct, frozen=True):
    """A request that changes a session, its preconditions, and whether the answer has the events of the change."""

    request: ApiRequest
    session_id: str
    preconditions: Preconditions
    events: bool


def _change_of(
    request: ApiRequest, session_id: SessionId, preconditions: TurnPreconditions, events: WithEvents = False
) -> Change:
    return Change(request, session_id, preconditions, events)


def _change(
    path: str, summary: str, description: str, *errors: str, method: type[post | patch] = post
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """Declare a route that changes a session, with the errors that it can cause besides those of every change."""
    return method(
        f"/sessions/{{sessionId:str}}/{path}",
        status_code=200,
        summary=summary,
        description=description,
        dependencies={"change": Provide(_change_of, sync_to_thread=False)},
        response_headers=[ETAG],
        responses=described(*CHANGE_ERRORS, *errors),
    )


@_change(
    "pause",
    "Pause a session",
    "The session takes no message until it is resumed. A paused session does not change.",
    "SESSION_ENDED",
)
async def pause_session(change: NamedDependency[Change]) -> Response[SessionChange]:
    """Pause a session."""
    return await _apply(change, Interventions.pause)


@_change(
    "resume",
    "Resume a session",
    "The session waits for the same input as before. A session that is not paused does not change.",
    "SESSION_ENDED",
)
async def resume_session(change: NamedDependency[Change]) -> Response[SessionChange]:
    """Resume a session."""
    return await _apply(change, Interventions.resume)


@_change(
    "end", "End a session", "Ends the conversation at its current position. A session that has ended does not change."
)
async def end_session(
    change: NamedDependency[Change], data: Annotated[Ending | None, BodyKwarg(examples=_ENDING_EXAMPLES)] = None
) -> Response[SessionChange]:
    """End a session."""
    return await _apply(change, Interventions.end, data or Ending())


@_change(
    "variables",
    "Set variables of a session",
    "Sets each variable in the scope of its declaration, else in the session's; null unsets. All or none.",
    "SESSION_ENDED",
    "ACTION_EXECUTION_ERROR",
    method=patch,
)
async def set_variables(
    change: NamedDependency[Change], data: Annotated[NewValues, BodyKwarg(examples=_VALUES_EXAMPLES)]
) -> Response[SessionChange]:
    """Set variables."""
    return await _apply(change, Interventions.set_variables, data)


@_change(
    "rewind",
    "Rewind a session",
    "Later messages leave the conversation; the database retains them and every turn.",
    "TURN_NOT_FOUND",
    "MIGRATION_BLOCKED",
    "VARIABLE_STORE_INIT_ERROR",
)
async def rewind_session(
    change: NamedDependency[Change], data: Annotated[PastTurn, BodyKwarg(examples=_BACK_EXAMPLES)]
) -> Response[SessionChange]:
    """Rewind a session."""
    return await _apply(change, Interventions.rewind, data)


@_change(
    "clear",
    "Clear a conversation",
    "All messages leave the conversation; the database retains them. The position does not change.",
)
async def clear_session(change: NamedDependency[Change]) -> Response[SessionChange]:
    """Clear a conversation."""
    return await _apply(change, Interventions.clear)


@post(
    "/sessions/{sessionId:str}/messages/append",
    status_code=200,
    summary="Append messages",
    description="Adds messages from elsewhere; the script does not react to them. Concurrent requests wait.",
    response_headers=[ETAG],
    responses=described(*CHANGE_ERRORS, "SESSION_ENDED"),
)
async def append_messages(
    session_id: SessionId,
    data: Annotated[NewMessages, BodyKwarg(examples=_MESSAGES_EXAMPLES)],
    request: ApiRequest,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    events: WithEvents = False,
) -> Response[SessionChange]:
    """Append messages."""
    change = Change(request, session_id, condition(idempotency_key, if_match), events)
    return await _apply(change, Interventions.append, data)


@post(
    "/sessions/{sessionId:str}/fork",
    status_code=201,
    summary="Fork a session",
    description="Creates another session of the same user with the same past; the original does not change.",
    response_headers=[ETAG, location("The URL of the copy.")],
    responses=described(
        "SESSION_REDACTED", "TURN_NOT_FOUND", "SESSION_KEY_EXISTS", "IDEMPOTENCY_MISMATCH", "SERVER_BUSY"
    ),
)
async def fork_session(
    session_id: SessionId,
    request: ApiRequest,
    idempotency_key: IdempotencyKey = None,
    data: Annotated[NewFork | None, BodyKwarg(examples=_FORK_EXAMPLES)] = None,
) -> Response[SessionWithMessages]:
    """Fork a session."""
    services, preconditions = request.services, condition(idempotency_key)
    cached = await services.forks.fork(request.tenant, session_id, data or NewFork(), preconditions)
    headers = etag(cached.state.turn) | {"Location": f"/api/sessions/{cached.session.session_id}"}
    return Response(SessionWithMessages(**await started_fields(services.store, cached)), headers=headers)


@patch(
    "/sessions/{sessionId:str}",
    summary="Update the metadata or key of a session",
    description="`metadata` is a merge patch (RFC 7396): null removes a name. Not a turn. A `key` can be set once.",
    response_headers=[ETAG],
    responses=described(
        "SESSION_REDACTED", "SESSION_KEY_EXISTS", "INTERVENTION_REFUSED", "SESSION_BUSY", "SERVER_BUSY"
    ),
)
async def label_session(
    session_id: SessionId, data: Annotated[NewLabels, BodyKwarg(examples=_LABELS_EXAMPLES)], request: ApiRequest
) -> Response[SessionView]:
    """Update the metadata, or set the key."""
    cached = await request.services.labels.label(request.tenant, session_id, data)
    return Response(session_view(cached), headers=etag(cached.state.turn))


async def _apply(
    change: Change, intervene: Callable[..., Awaitable[TurnResult]], *data: Body
) -> Response[SessionChange]:
    request = change.request
    answer = await intervene(
        request.services.interventions, request.tenant, change.session_id, *data, change.preconditions
    )
    state, row = answer.state, answer.row
    body = SessionChange(
        **msgspec.structs.asdict(snapshot(answer.program, state, state.execution_status, None)),
        session_id=answer.session.session_id,
        status=state.status,
        messages=[message_view(message) for message in row.messages],
        events=event_views(row) if change.events else msgspec.UNSET,
    )
    return Response(body, headers=etag(state.turn))

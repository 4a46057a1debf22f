"""Sessions by the names applications give them."""

from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, QueryParameter

from api.caller import tenant_of
from api.errors import ApiError, described
from api.lifecycle.labels import Labels
from api.schemas.lifecycle import KeyedSession, KeyedView
from api.schemas.sessions import SessionView
from api.showing import ETAG, etag, session_view
from scripts.nodes import ID_CHARS_MAX

_EXAMPLES = [
    Example(summary="Of a script", value={"key": "telegram:42", "userId": "42", "scriptId": "intake"}),
    Example(summary="Free conversation", value={"key": "telegram:42", "userId": "42"}),
]


@post(
    "/sessions/by-key",
    status_code=200,
    summary="Find a session by its key, or begin it",
    description="However many requests come at once, one session is begun. Status 201 where this request began it; "
    "what it said first is `aiMessage`. A session that could not begin is begun again.",
    response_headers=[ETAG],
    responses=described(
        "REQUEST_INVALID",
        "SCRIPT_NOT_FOUND",
        "SESSION_KEY_TAKEN",
        "SESSION_BUSY",
        "UNSUPPORTED_MEDIA_TYPE",
        "PAYLOAD_TOO_LARGE",
        "ACTION_EXECUTION_ERROR",
        "LIMIT_EXCEEDED",
        "LLM_SERVICE_ERROR",
        "LLM_CALL_INTERRUPTED",
        "MEMORY_FAILED",
        "SERVER_BUSY",
    )
    | {201: ResponseSpec(KeyedView, generate_examples=False, description="The session was begun.")},
)
async def get_or_create(
    data: Annotated[KeyedSession, BodyKwarg(examples=_EXAMPLES)],
    labels: NamedDependency[Labels],
    request: Request[Any, Any, Any],
) -> Response[KeyedView]:
    """The session with a key."""
    hot, created = await labels.get_or_create(tenant_of(request), data)
    view = KeyedView(**msgspec.structs.asdict(session_view(hot)), created=created)
    headers = etag(hot.state.turn)
    if created:
        headers["Location"] = f"/api/sessions/{hot.session.session_id}"
    return Response(view, status_code=201 if created else 200, headers=headers)


@get(
    "/sessions/by-key",
    summary="Find a session by its key",
    response_headers=[ETAG],
    responses=described("REQUEST_INVALID", "SESSION_NOT_FOUND"),
)
async def get_by_key(
    labels: NamedDependency[Labels],
    request: Request[Any, Any, Any],
    key: Annotated[
        str, QueryParameter(name="key", min_length=1, max_length=ID_CHARS_MAX, description="As it was given.")
    ],
) -> Response[SessionView]:
    """The session with a key, as it stands."""
    hot = await labels.by_key(tenant_of(request), key)
    if hot is None:
        raise ApiError("SESSION_NOT_FOUND", "there is no session with this key", context={"key": key})
    return Response(session_view(hot), headers=etag(hot.state.turn))


router = Router("/api", route_handlers=[get_or_create, get_by_key], tags=["Sessions"])

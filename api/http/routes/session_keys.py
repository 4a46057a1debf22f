"""Routes for sessions by session key."""

from dataclasses import dataclass
from typing import Annotated

from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example, OpenAPIHeader, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.params import BodyKwarg, QueryParameter

from api.errors import ApiError, described
from api.http.request import ApiRequest
from api.schemas.lifecycle import KeyedSession, KeyedView
from api.schemas.sessions import SessionView
from api.sessions.views import ETAG, etag, session_view, started_fields
from scripts.model.base import ID_CHARS_MAX

_EXAMPLES = [
    Example(summary="Of a script", value={"key": "telegram:42", "userId": "42", "scriptId": "intake"}),
    Example(summary="Free conversation", value={"key": "telegram:42", "userId": "42"}),
]


@dataclass
class _FoundOrCreated(Operation):
    """A session that was there, or was created and says where it is."""

    def __post_init__(self) -> None:
        """Add the headers of a created session."""
        found, created = (self.responses or {})["200"], (self.responses or {})["201"]
        if isinstance(found, OpenAPIResponse) and isinstance(created, OpenAPIResponse):
            where = OpenAPIHeader(description="The URL of the session.", schema=Schema(type=OpenAPIType.STRING))
            created.headers = {**(found.headers or {}), "Location": where}


@post(
    "/sessions/by-key",
    status_code=200,
    summary="Get or create a session by key",
    description="Concurrent requests create one session. Status 201 if this request created it. "
    "`messages` are those of its last turn. A session whose first turn failed is started again.",
    operation_class=_FoundOrCreated,
    response_headers=[ETAG],
    responses=described(
        "SCRIPT_NOT_FOUND",
        "SESSION_KEY_EXISTS",
        "SESSION_BUSY",
        "ACTION_EXECUTION_ERROR",
        "LIMIT_EXCEEDED",
        "LLM_SERVICE_ERROR",
        "LLM_CALL_INTERRUPTED",
        "MEMORY_FAILED",
        "SERVER_BUSY",
    )
    | {201: ResponseSpec(KeyedView, generate_examples=False, description="The session was created.")},
)
async def get_or_create(
    data: Annotated[KeyedSession, BodyKwarg(examples=_EXAMPLES)], request: ApiRequest
) -> Response[KeyedView]:
    """Return the session with a key, created if it is missing."""
    cached, created = await request.services.labels.get_or_create(request.tenant, data)
    view = KeyedView(**await started_fields(request.services.store, cached), created=created)
    headers = etag(cached.state.turn)
    if created:
        headers["Location"] = f"/api/sessions/{cached.session.session_id}"
    return Response(view, status_code=201 if created else 200, headers=headers)


@get(
    "/sessions/by-key",
    summary="Get a session by key",
    response_headers=[ETAG],
    responses=described("SESSION_NOT_FOUND"),
)
async def get_by_key(
    request: ApiRequest,
    key: Annotated[str, QueryParameter(min_length=1, max_length=ID_CHARS_MAX, description="The key as it was set.")],
) -> Response[SessionView]:
    """Return the session with a key in its current state."""
    cached = await request.services.labels.by_key(request.tenant, key)
    if cached is None:
        raise ApiError("SESSION_NOT_FOUND", "there is no session with this key", context={"key": key})
    return Response(session_view(cached), headers=etag(cached.state.turn))

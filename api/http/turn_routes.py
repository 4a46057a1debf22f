"""Routes whose answer can be a stream: their OpenAPI descriptions, and the answer of a turn."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from litestar import Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import Example, OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.types import Receive, Scope, Send
from msgspec import Struct

from api.auth.middleware import clients_of
from api.http.error_responses import route_of
from api.http.files import describing
from api.http.request import ETAG, JSON, ApiRequest, wants_stream
from api.schemas.base import View
from api.sessions.live_turns import Key, PendingTurn, TurnResult
from api.sessions.sse import EVENT_STREAM
from api.sessions.streams import PROGRAMS, Audience, StreamRequest


class _Part(Struct, frozen=True):
    """What a stream contains, and an example of such an event."""

    text: str
    example: dict[str, str]


_PARTS = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, _Part])


def _describe(operation: Operation, title: str, *names: str) -> None:
    """Add the stream: its schema is that of one server-sent event, as tools for such streams expect."""
    parts = {name: _PARTS[name] for name in names}
    answer = (operation.responses or {}).get("200")
    if isinstance(answer, OpenAPIResponse) and answer.content is not None:
        answer.content[EVENT_STREAM] = OpenAPIMediaType(
            schema=Schema(
                type=OpenAPIType.OBJECT,
                title=title,
                description=" ".join(part.text for part in parts.values()),
                required=["event", "data"],
                properties={
                    "id": Schema(
                        type=OpenAPIType.STRING, description="The `Last-Event-ID` to continue after this event."
                    ),
                    "event": Schema(type=OpenAPIType.STRING, description="The kind of the event."),
                    "data": Schema(type=OpenAPIType.STRING, description="The data of the event, as JSON."),
                },
            ),
            examples={name: Example(value=part.example) for name, part in parts.items()},
        )


def _describe_events(operation: Operation) -> None:
    _describe(operation, "SessionStreamEvent", "words", "event")
    if operation.responses is not None:
        operation.responses["204"] = OpenAPIResponse("The session is completed, and the client has all events.")


STREAMED_TURN = describing(lambda operation: _describe(operation, "TurnStreamEvent", "words", "event", "turn"))
"""A turn that responds with JSON or a stream."""
STREAMED_EVENTS = describing(_describe_events)
"""The events of a session as a page of JSON or a stream."""


def turn_route(path: str, summary: str) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """Declare a route that takes a turn and answers with JSON or a stream."""
    return post(path, status_code=200, summary=summary, response_headers=[ETAG], operation_class=STREAMED_TURN)


async def answer_turn(
    request: ApiRequest,
    accept: str | None,
    submit: Callable[[bool], PendingTurn],
    to_view: Callable[[TurnResult], View],
    session: Key | None = None,
    audience: Audience = PROGRAMS,
) -> Response[Any]:
    """Take the turn that `submit` starts; answer with its view, or with a stream if the `Accept` header prefers one.

    `submit` is called with whether it returns the same request if that is in progress. `session` is None if the turn
    creates it. Raises ApiError.
    """
    chat = request.services.chat
    if wants_stream(accept):
        cached = None if session is None else await chat.session(*session)
        stream = StreamRequest(
            request_id=request.scope["state"]["request_id"],
            route=route_of(request),
            clients=clients_of(request.scope),
            to_view=to_view,
            audience=audience,
        )
        return await chat.streams.of_turn(partial(submit, True), stream, cached)

    def encode(answer: TurnResult) -> bytes:
        return msgspec.json.encode(to_view(answer))

    pending = submit(False)
    pending.encode = encode
    answer = await pending
    return _EncodedAnswer(answer.body or encode(answer), answer.state.turn)


class _EncodedAnswer(Response[bytes]):
    """The answer of a turn, already in JSON, with the number of the turn as its `ETag`.

    Litestar would join the headers and cookies of all layers, which takes 4 % of the CPU of a turn.
    """

    def __init__(self, body: bytes, turn: int) -> None:
        super().__init__(body)
        self._turn = turn

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return the ASGI application that sends the answer."""
        return self._send

    async def _send(self, _: Scope, __: Receive, send: Send) -> None:
        headers = [
            (b"etag", b'"%d"' % self._turn),
            (b"content-type", JSON.encode()),
            (b"content-length", b"%d" % len(self.content)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.content, "more_body": False})

"""OpenAPI descriptions of routes that can respond with a stream, and the request data that streams need."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.openapi.spec import Example, OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema

from api.asgi.sse import EVENT_STREAM
from api.auth.middleware import clients_of
from api.http.error_responses import route_of
from api.sessions.streams import StreamRequest

_SESSION = "0b8a4a4e-5f0e-4c39-9e57-6f1f3a1c2d4e"
_WORDS = {
    "id": f"{_SESSION}:0.5f2c9a1e.1",
    "event": "message.delta",
    "data": '{"message":1,"actionId":"greet","text":"Welcome"}',
}
_EVENT = {"id": f"{_SESSION}:9", "event": "wait", "data": '{"actionId":"ask_name","wait":{"kind":"text"}}'}
_TURN = {"id": f"{_SESSION}:9", "event": "turn", "data": '{"turn":0,"messages":[],"wait":{"kind":"text"}}'}
_ABOUT_WORDS = (
    "`message.delta`: more words of message number `message`, while the turn runs; `message.reset`: the words of that "
    "message and of those after it are retracted. "
)
_ABOUT_EVENTS = (
    "Once the turn is durable: each event by its kind (`message`, `variable`, `wait` and the others); before the last "
    "event of a turn the `position` after it. "
)
_ABOUT_TURN = (
    "Last `turn`, with the content of the JSON response; or `error`, in the usual format, if the turn fails after the "
    "stream began: then nothing has happened. An `id` is the session and the number of an event; "
    "that of words also names the run of the turn, and can resume a stream at `/events`."
)


@dataclass
class StreamedTurn(Operation):
    """Describe a turn that responds with JSON or a stream."""

    def __post_init__(self) -> None:
        """Add the stream to the description."""
        description = _ABOUT_WORDS + _ABOUT_EVENTS + _ABOUT_TURN
        _describe(self, "TurnStreamEvent", description, {"words": _WORDS, "event": _EVENT, "turn": _TURN})


@dataclass
class StreamedEvents(Operation):
    """Describe the events of a session as a page of JSON or a stream."""

    def __post_init__(self) -> None:
        """Add the stream to the description."""
        _describe(self, "SessionStreamEvent", _ABOUT_WORDS + _ABOUT_EVENTS, {"words": _WORDS, "event": _EVENT})
        if self.responses is not None:
            self.responses["204"] = OpenAPIResponse("The session is completed, and the client has all events.")


def _describe(operation: Operation, title: str, description: str, examples: Mapping[str, Mapping[str, str]]) -> None:
    """Add the stream: its schema is that of one server-sent event, as tools for such streams expect."""
    answer = (operation.responses or {}).get("200")
    if isinstance(answer, OpenAPIResponse) and answer.content is not None:
        answer.content[EVENT_STREAM] = OpenAPIMediaType(
            schema=Schema(
                type=OpenAPIType.OBJECT,
                title=title,
                description=description,
                required=["event", "data"],
                properties={
                    "id": Schema(
                        type=OpenAPIType.STRING, description="The `Last-Event-ID` to continue after this event."
                    ),
                    "event": Schema(type=OpenAPIType.STRING, description="The kind of the event."),
                    "data": Schema(type=OpenAPIType.STRING, description="The data of the event, as JSON."),
                },
            ),
            examples={name: Example(value=dict(event)) for name, event in examples.items()},
        )


def stream_request_of(request: Request[Any, Any, Any]) -> StreamRequest:
    """Return the data of a request that its stream needs."""
    return StreamRequest(request.scope["state"]["request_id"], route_of(request), clients_of(request.scope))

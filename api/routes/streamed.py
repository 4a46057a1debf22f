"""How the routes that can answer with a stream describe it, and what they need to know of a request for one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.openapi.spec import Example, OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema

from api.access.guard import clients_of
from api.frames import EVENT_STREAM
from api.requests import route_of
from api.streams import Asked

_SESSION = "0b8a4a4e-5f0e-4c39-9e57-6f1f3a1c2d4e"
_WORDS = {
    "id": f"{_SESSION}:0.5f2c9a1e.1",
    "event": "message.delta",
    "data": '{"message":1,"actionId":"greet","text":"Welcome"}',
}
_EVENT = {
    "id": f"{_SESSION}:9",
    "event": "wait",
    "data": '{"actionId":"ask_name","wait":{"kind":"text"}}',
}
_TURN = {
    "id": f"{_SESSION}:9",
    "event": "turn",
    "data": '{"turn":0,"messages":[],"wait":{"kind":"text"}}',
}
_ABOUT_WORDS = (
    "`message.delta`: more words of message number `message`, while the turn runs; `message.reset`: the words of that "
    "message and of those after it are taken back. "
)
_ABOUT_EVENTS = (
    "Once the turn is durable: each event by its kind (`message`, `variable`, `wait` and the others), before the last "
    "of a turn the `position` it left the session at. "
)
_ABOUT_TURN = (
    "Last `turn`, with what is otherwise answered as JSON; or `error`, with the usual shape, where the turn fails "
    "after the stream began: then nothing has happened. An `id` is the session and the number of an event; "
    "that of words also names the run of the turn, and is good for resuming at `/events`."
)


@dataclass
class StreamedTurn(Operation):
    """A turn, answered as JSON or as a stream."""

    def __post_init__(self) -> None:
        """Adds the stream to what is described."""
        _describe(self, _ABOUT_WORDS + _ABOUT_EVENTS + _ABOUT_TURN, {"words": _WORDS, "event": _EVENT, "turn": _TURN})


@dataclass
class StreamedEvents(Operation):
    """A session's events, as a page of JSON or as a stream."""

    def __post_init__(self) -> None:
        """Adds the stream to what is described."""
        _describe(self, _ABOUT_WORDS + _ABOUT_EVENTS, {"words": _WORDS, "event": _EVENT})
        if self.responses is not None:
            self.responses["204"] = OpenAPIResponse("The session is over, and the client has all of it.")


def _describe(operation: Operation, description: str, examples: Mapping[str, Mapping[str, str]]) -> None:
    """Adds the stream: its schema is that of one server-sent event, as tools for such streams expect."""
    answer = (operation.responses or {}).get("200")
    if isinstance(answer, OpenAPIResponse) and answer.content is not None:
        answer.content[EVENT_STREAM] = OpenAPIMediaType(
            schema=Schema(
                type=OpenAPIType.OBJECT,
                description=description,
                properties={
                    "id": Schema(type=OpenAPIType.STRING, description="What `Last-Event-ID` takes to go on after it."),
                    "event": Schema(type=OpenAPIType.STRING, description="Its kind."),
                    "data": Schema(type=OpenAPIType.STRING, description="What is told, as JSON."),
                },
            ),
            examples={name: Example(value=dict(event)) for name, event in examples.items()},
        )


def asked_by(request: Request[Any, Any, Any]) -> Asked:
    """What a stream tells of the request it answers."""
    return Asked(request.scope["state"]["request_id"], route_of(request), clients_of(request.scope))

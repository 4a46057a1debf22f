"""OpenAPI descriptions of routes that can respond with a stream, and the request data that streams need."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from litestar import Request
from litestar.openapi.spec import Example, OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema
from msgspec import Struct

from api.asgi.sse import EVENT_STREAM
from api.auth.middleware import clients_of
from api.http.error_responses import route_of
from api.sessions.streams import StreamRequest


class _Part(Struct, frozen=True):
    """What a stream contains, and an example of such an event."""

    text: str
    example: dict[str, str]


_PARTS = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, _Part])


@dataclass
class StreamedTurn(Operation):
    """Describe a turn that responds with JSON or a stream."""

    def __post_init__(self) -> None:
        """Add the stream to the description."""
        _describe(self, "TurnStreamEvent", "words", "event", "turn")


@dataclass
class StreamedEvents(Operation):
    """Describe the events of a session as a page of JSON or a stream."""

    def __post_init__(self) -> None:
        """Add the stream to the description."""
        _describe(self, "SessionStreamEvent", "words", "event")
        if self.responses is not None:
            self.responses["204"] = OpenAPIResponse("The session is completed, and the client has all events.")


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


def stream_request_of(request: Request[Any, Any, Any]) -> StreamRequest:
    """Return the data of a request that its stream needs."""
    return StreamRequest(request.scope["state"]["request_id"], route_of(request), clients_of(request.scope))

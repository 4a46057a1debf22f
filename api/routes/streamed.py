"""How the routes that can answer with a stream describe it, and what they need to know of a request for one."""

from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.openapi.spec import Example, OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema

from api.frames import EVENT_STREAM
from api.streams import Asked

_SESSION = "0b8a4a4e-5f0e-4c39-9e57-6f1f3a1c2d4e"
_WORDS = f"""\
id: {_SESSION}:0.5f2c9a1e.1
event: message.delta
data: {{"message":1,"actionId":"greet","text":"Welcome"}}

id: {_SESSION}:0.5f2c9a1e.2
event: message.delta
data: {{"message":1,"actionId":"greet","text":" back, Ana."}}

"""
_EVENTS = f"""\
id: {_SESSION}:4
event: message
data: {{"number":1,"messageId":"…","role":"ai","content":"Welcome back, Ana.","timestamp":"2026-03-04T12:00:00Z",…}}

event: position
data: {{"turn":0,"status":"active","executionStatus":"waiting_input","phaseId":"about_you",…}}

id: {_SESSION}:9
event: wait
data: {{"actionId":"ask_name","wait":{{"kind":"text"}}}}

"""
_TURN = f"""\
id: {_SESSION}:9
event: turn
data: {{"turn":0,"messages":[…],"wait":{{"kind":"text"}},"position":{{…}},…}}

"""
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
        _describe(self, _ABOUT_WORDS + _ABOUT_EVENTS + _ABOUT_TURN, _WORDS + _EVENTS + _TURN)


@dataclass
class StreamedEvents(Operation):
    """A session's events, as a page of JSON or as a stream."""

    def __post_init__(self) -> None:
        """Adds the stream to what is described."""
        _describe(self, _ABOUT_WORDS + _ABOUT_EVENTS, _WORDS + _EVENTS)
        if self.responses is not None:
            self.responses["204"] = OpenAPIResponse("The session is over, and the client has all of it.")


def _describe(operation: Operation, description: str, example: str) -> None:
    answer = (operation.responses or {}).get("200")
    if isinstance(answer, OpenAPIResponse) and answer.content is not None:
        schema = Schema(type=OpenAPIType.STRING, description=description)
        answer.content[EVENT_STREAM] = OpenAPIMediaType(schema=schema, examples={"stream": Example(value=example)})


def asked_by(request: Request[Any, Any, Any]) -> Asked:
    """What a stream tells of the request it answers."""
    return Asked(request.scope["state"]["request_id"], request.url.path)

"""The events of a session as a server streams them."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, TypeAlias

import httpx
import msgspec
from httpx_sse import EventSource
from msgspec import Struct

from api.client.transport import HttpTransport, failure_of
from api.schemas.errors import StreamedError
from api.schemas.sessions import TurnAnswer

Values: TypeAlias = Mapping[str, Any]


class StreamEvent(Struct, frozen=True):
    """An event of a turn in progress: `message.delta` (words), `message`, `variable`, …, last `turn`."""

    kind: str
    """The kind of the event, or `message.delta`, `message.reset`, `message.proactive`, `position`, `turn`."""
    data: Values
    """The fields of the event as the API writes them, in camelCase."""
    id: str = ""
    """Its place in the stream; empty for the last frames."""


class NoMoreEvents(Exception):
    """The session is completed, and the client has all of its events."""


async def frames(
    wire: HttpTransport,
    method: str,
    path: str,
    headers: Mapping[str, str],
    parameters: Mapping[str, object] | None = None,
    body: object = None,
) -> AsyncIterator[StreamEvent]:
    """Yield the events of a stream. Raises CuebookError, also for its error, and NoMoreEvents."""
    headers = {**headers, "Accept": "text/event-stream"}
    async with wire.stream(method, path, body=body, parameters=parameters, headers=headers) as answer:
        if answer.status_code == 204:
            raise NoMoreEvents
        async for frame in EventSource(answer).aiter_sse():
            if not frame.data:
                continue  # a frame without an event only sets the reconnection time
            if frame.event == "error":
                status = msgspec.json.decode(frame.data, type=StreamedError).status
                raise failure_of(httpx.Response(status, content=frame.data.encode()))
            yield StreamEvent(frame.event, msgspec.json.decode(frame.data), frame.id)


class ShownWords:
    """The words of a turn that a program shows: of which run of the turn, and from which message on."""

    def __init__(self) -> None:
        self._run = ""
        self._first = 0  # 0: none are shown

    def replace_by(self, event: StreamEvent) -> Iterator[StreamEvent]:
        """Yield the event, and before it what retracts the words of an earlier run, whose end nobody has reported."""
        number = event.data.get("message", 0)
        if event.kind == "message.delta":
            place, run, _ = event.id.rsplit(".", 2)
            if self._first and run != self._run:
                yield StreamEvent("message.reset", {"message": self._first}, place)
                self._first = 0
            self._run, self._first = run, self._first or number
        elif event.kind == "message.reset" and number <= self._first:
            self._first = 0
        yield event


def ends_attempt(event: StreamEvent) -> bool:
    """Return whether an event retracts all words of an attempt at a turn; it has the same id in every attempt."""
    return event.kind == "message.reset" and "." not in event.id


def turn_of(event: StreamEvent) -> TurnAnswer:
    """Return the answer of a turn from the last event of its stream. Raises ValidationError for another event."""
    return msgspec.convert(event.data, TurnAnswer)

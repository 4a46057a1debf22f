"""Sessions over HTTP: create one, send messages, read it."""

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx
import msgspec
from httpx_sse import EventSource
from msgspec import Struct

from api.client.operations import Operations, Values, once, path_of
from api.client.transport import UNREACHABLE, CuebookError, failure_of
from api.schemas.sessions import (
    EventList,
    MessageList,
    MessageView,
    NewMessage,
    NewSession,
    SessionStart,
    SessionView,
    TurnAnswer,
    VariableStore,
)
from scripts.builtin import CHAT

SEEN_MAX = 50_000  # ids of frames of one stream that are remembered, to skip repeated ones


class StreamEvent(Struct, frozen=True):
    """An event of a turn in progress: `message.delta` (words), `message`, `variable`, …, last `turn`."""

    kind: str
    """The kind of the event, or `message.delta`, `message.reset`, `message.proactive`, `position`, `turn`."""
    data: Values
    """The fields of the event as the API writes them, in camelCase."""
    id: str = ""
    """Its place in the stream; empty for the last frames."""


class _NoMoreEvents(Exception):
    """The session is completed, and the client has all of its events."""


class Sessions(Operations):
    """The sessions of a server."""

    async def create(
        self,
        user_id: str,
        script_id: str = CHAT,
        *,
        script_version: int | None = None,
        initial_variables: Values | None = None,
        key: str | None = None,
        metadata: Values | None = None,
        locale: str | None = None,
        timezone: str | None = None,
        seed: int | None = None,
        context: Values | str | None = None,
        idempotency_key: str | None = None,
    ) -> SessionStart:
        """Create a session; without a script it is a free conversation. Raises CuebookError.

        `script_version` may be one that is not published; by default it is the published one. `context` is its context
        strategy, as in scripts.
        """
        new = NewSession(
            user_id=user_id,
            script_id=script_id,
            script_version=script_version,
            initial_variables=dict(initial_variables or {}),
            key=key,
            metadata=dict(metadata or {}),
            locale=locale,
            timezone=timezone,
            seed=seed,
            context=context if context is None or isinstance(context, str) else dict(context),
        )
        headers = once(idempotency_key)
        return await self._wire.ask("POST", "/api/sessions", SessionStart, body=new, headers=headers)

    async def get(self, session_id: str) -> SessionView:
        """Return the current state of a session. Raises CuebookError."""
        return await self._wire.ask("GET", path_of(session_id), SessionView)

    async def send(
        self,
        session_id: str,
        content: str | None = None,
        *,
        choice: str | None = None,
        form: Values | None = None,
        expected_turn: int | None = None,
        queue: bool = False,
        idempotency_key: str | None = None,
    ) -> TurnAnswer:
        """Send a message, a choice or a filled form to a session. Raises CuebookError.

        With `expected_turn` the request fails if the session is at another turn. With `queue` it waits while the
        session answers another message.
        """
        body, headers = _message(content, choice, form), _asking(expected_turn, queue, idempotency_key)
        return await self._wire.ask("POST", path_of(session_id, "messages"), TurnAnswer, body=body, headers=headers)

    async def stream(
        self,
        session_id: str,
        content: str | None = None,
        *,
        choice: str | None = None,
        form: Values | None = None,
        expected_turn: int | None = None,
        queue: bool = False,
        idempotency_key: str | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """Send a message and yield the events of its turn as they occur; the last event is `turn`, whose data `turn_of`
        decodes. An interrupted stream resumes where it was; if the turn has begun again meanwhile, such as after a
        restart of the server, `message.reset` retracts the words so far. Raises CuebookError.
        """
        body, headers = _message(content, choice, form), _asking(expected_turn, queue, idempotency_key)
        seen: set[tuple[str, str]] = set()
        words = _ShownWords()
        for attempt in itertools.count(1):
            try:
                async for event in self._frames("POST", path_of(session_id, "messages"), headers, body=body):
                    if event.kind == "turn":
                        yield event
                        return
                    place = event.kind, event.id  # a frame without an id has that of the frame before it
                    if place not in seen:  # else it was yielded before the stream was interrupted
                        for shown in words.replaced_by(event):
                            yield shown
                    if len(seen) < SEEN_MAX and not _ends_attempt(event):
                        seen.add(place)
                raise _broken_off()
            except CuebookError as failed:
                await self._wire.retry_delay(attempt, failed)

    async def messages(
        self, session_id: str, *, after: int = 0, limit: int = 100, cursor: str | None = None
    ) -> MessageList:
        """Return a page of messages, oldest first. Raises CuebookError."""
        parameters = {"after": after, "limit": limit, "cursor": cursor}
        return await self._wire.ask("GET", path_of(session_id, "messages"), MessageList, parameters=parameters)

    async def transcript(self, session_id: str) -> AsyncIterator[MessageView]:
        """Yield every message, oldest first, page by page. Raises CuebookError."""
        page = await self.messages(session_id, limit=200)
        while True:
            for message in page.data:
                yield message
            if page.next_cursor is None:
                return
            page = await self.messages(session_id, limit=200, cursor=page.next_cursor)

    async def variables(self, session_id: str) -> dict[str, Any]:
        """Return every variable with its value at the current position. Raises CuebookError."""
        return await self._wire.ask("GET", path_of(session_id, "variables"), dict[str, Any])

    async def variable_store(self, session_id: str) -> VariableStore:
        """Return the variables by scope, with type, source and time. Raises CuebookError."""
        parameters = {"scoped": True}
        return await self._wire.ask("GET", path_of(session_id, "variables"), VariableStore, parameters=parameters)

    async def events(self, session_id: str, *, after: int = 0, limit: int = 100, wait_s: int = 0) -> EventList:
        """Return a page of events, oldest first; `wait_s` is how long to wait for one. Raises CuebookError."""
        parameters = {"after": after, "limit": limit}
        headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
        return await self._wire.ask(
            "GET", path_of(session_id, "events"), EventList, parameters=parameters, headers=headers
        )

    async def follow(self, session_id: str, *, after: int = 0) -> AsyncIterator[StreamEvent]:
        """Yield the events of a session after a number, with streamed words, until it ends. Raises CuebookError."""
        place: dict[str, str] = {}
        failures = 0
        while True:
            try:
                async for event in self._frames("GET", path_of(session_id, "events"), place, {"after": after}):
                    place, failures = ({"Last-Event-ID": event.id} if event.id else place), 0
                    yield event
                    if event.kind == "ended":
                        return
            except _NoMoreEvents:
                return
            except CuebookError as failed:
                failures += 1
                await self._wire.retry_delay(failures, failed)

    async def _frames(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        parameters: Mapping[str, object] | None = None,
        body: object = None,
    ) -> AsyncIterator[StreamEvent]:
        """Yield the events of a stream. Raises CuebookError, also for its error, and _NoMoreEvents."""
        headers = {**headers, "Accept": "text/event-stream"}
        async with self._wire.stream(method, path, body=body, parameters=parameters, headers=headers) as answer:
            if answer.status_code == 204:
                raise _NoMoreEvents
            async for frame in EventSource(answer).aiter_sse():
                if not frame.data:
                    continue  # a frame without an event only sets the reconnection time
                if frame.event == "error":
                    raise failure_of(httpx.Response(500, content=frame.data.encode()))
                yield StreamEvent(frame.event, msgspec.json.decode(frame.data), frame.id)


class _ShownWords:
    """The words of a turn that a program shows: of which run of the turn, and from which message on."""

    def __init__(self) -> None:
        self._run = ""
        self._first = 0  # 0: none are shown

    def replaced_by(self, event: StreamEvent) -> Iterator[StreamEvent]:
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


def turn_of(event: StreamEvent) -> TurnAnswer:
    """Return the answer of a turn from the last event of its stream. Raises ValidationError for another event."""
    return msgspec.convert(event.data, TurnAnswer)


def _ends_attempt(event: StreamEvent) -> bool:
    """Return whether an event retracts all words of an attempt at a turn; it has the same id in every attempt."""
    return event.kind == "message.reset" and "." not in event.id


def _broken_off() -> CuebookError:
    return CuebookError(UNREACHABLE, "the stream was interrupted before its end", is_passing=True)


def _message(content: str | None, choice: str | None, form: Values | None) -> NewMessage:
    return NewMessage(content=content, choice=choice, form=msgspec.UNSET if form is None else dict(form))


def _asking(expected_turn: int | None, queue: bool, idempotency_key: str | None) -> dict[str, str]:
    headers = once(idempotency_key)
    if expected_turn is not None:
        headers["If-Match"] = f'"{expected_turn}"'
    if queue:
        headers["Prefer"] = "busy=queue"
    return headers

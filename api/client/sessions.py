"""Sessions over HTTP: begin one, talk to it, look at it."""

import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import msgspec
from httpx_sse import EventSource
from msgspec import Struct

from api.client.errors import UNREACHABLE, CuebookError, failure_of
from api.client.operations import Operations, Values, once, path_of
from api.schemas.events import EventList
from api.schemas.sessions import (
    MessageList,
    MessageView,
    NewMessage,
    NewSession,
    SessionCreated,
    SessionView,
    TurnAnswer,
    VariableStore,
)
from scripts.builtin import CHAT

SEEN_MAX = 50_000  # frames of one stream that are remembered, so that none is told twice


class StreamEvent(Struct, frozen=True):
    """One thing that happens while a turn is taken: `message.delta` (words), `message`, `variable`, …, last `turn`."""

    kind: str
    data: Values
    id: str = ""


class Sessions(Operations):
    """The sessions of a server."""

    async def create(
        self,
        user_id: str,
        script_id: str = CHAT,
        *,
        initial_variables: Values | None = None,
        key: str | None = None,
        metadata: Values | None = None,
        locale: str | None = None,
        seed: int | None = None,
        context: Values | str | None = None,
        idempotency_key: str | None = None,
    ) -> SessionCreated:
        """Begins a session; without a script it is free conversation. `context` is what models see of it, as in
        scripts. Raises CuebookError.
        """
        new = NewSession(
            user_id=user_id,
            script_id=script_id,
            initial_variables=dict(initial_variables or {}),
            key=key,
            metadata=dict(metadata or {}),
            locale=locale,
            seed=seed,
            context=context if context is None or isinstance(context, str) else dict(context),
        )
        headers = once(idempotency_key)
        return await self._wire.ask("POST", "/api/sessions", SessionCreated, body=new, headers=headers)

    async def get(self, session_id: str) -> SessionView:
        """A session as it stands. Raises CuebookError."""
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
        """Says something to a session, takes a choice or fills in a form. Raises CuebookError.

        With `expected_turn` only if the session is at that turn; with `queue` it waits while another is answered.
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
        """Says something to a session, and tells what happens as it happens; the last event is the `turn`, whose data
        `turn_of` reads. A stream that breaks off goes on where it was. Raises CuebookError.
        """
        body, headers = _message(content, choice, form), _asking(expected_turn, queue, idempotency_key)
        seen: dict[str, None] = {}
        for attempt in itertools.count(1):
            try:
                async for event in self._frames("POST", path_of(session_id, "messages"), headers, body=body):
                    if event.kind == "turn":
                        yield event
                        return
                    if event.id not in seen:  # else it was told before the stream broke off
                        yield event
                    if event.id and len(seen) < SEEN_MAX:
                        seen[event.id] = None
                raise _broken_off()
            except CuebookError as failed:
                await self._wire.before_next(attempt, failed)

    async def messages(self, session_id: str, *, after: int = 0, limit: int = 100) -> MessageList:
        """A page of messages, oldest first. Raises CuebookError."""
        parameters = {"after": after, "limit": limit}
        return await self._wire.ask("GET", path_of(session_id, "messages"), MessageList, parameters=parameters)

    async def transcript(self, session_id: str) -> AsyncIterator[MessageView]:
        """Every message, oldest first, page by page. Raises CuebookError."""
        after: int | None = 0
        while after is not None:
            page = await self.messages(session_id, after=after, limit=200)
            for message in page.data:
                yield message
            after = page.next_after

    async def variables(self, session_id: str) -> dict[str, Any]:
        """Every variable with the value it has where the session stands. Raises CuebookError."""
        return await self._wire.ask("GET", path_of(session_id, "variables"), dict[str, Any])

    async def variable_store(self, session_id: str) -> VariableStore:
        """The variables by scope, with type, source and time. Raises CuebookError."""
        parameters = {"scoped": True}
        return await self._wire.ask("GET", path_of(session_id, "variables"), VariableStore, parameters=parameters)

    async def events(self, session_id: str, *, after: int = 0, limit: int = 100, wait_s: int = 0) -> EventList:
        """A page of what happened, oldest first; with `wait_s` it waits so long for something. Raises CuebookError."""
        parameters = {"after": after, "limit": limit}
        headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
        return await self._wire.ask(
            "GET", path_of(session_id, "events"), EventList, parameters=parameters, headers=headers
        )

    async def follow(self, session_id: str, *, after: int = 0) -> AsyncIterator[StreamEvent]:
        """What happens in a session from an event on, word by word, until it is over. Raises CuebookError."""
        place: dict[str, str] = {}
        failures = 0
        while True:
            try:
                async for event in self._frames("GET", path_of(session_id, "events"), place, {"after": after}):
                    place, failures = ({"Last-Event-ID": event.id} if event.id else place), 0
                    yield event
                    if event.kind == "ended":
                        return
            except CuebookError as failed:
                failures += 1
                await self._wire.before_next(failures, failed)

    async def _frames(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        parameters: Mapping[str, object] | None = None,
        body: object = None,
    ) -> AsyncIterator[StreamEvent]:
        """A stream's events as they come. Raises CuebookError, also for the error that ends a stream."""
        headers = {**headers, "Accept": "text/event-stream"}
        async with self._wire.stream(method, path, body=body, parameters=parameters, headers=headers) as answer:
            async for frame in EventSource(answer).aiter_sse():
                if not frame.data:
                    continue  # it only says when to come back
                if frame.event == "error":
                    raise failure_of(httpx.Response(500, content=frame.data.encode()))
                yield StreamEvent(frame.event, msgspec.json.decode(frame.data), frame.id)


def turn_of(event: StreamEvent) -> TurnAnswer:
    """The answer that the last event of a stream holds."""
    return msgspec.convert(event.data, TurnAnswer)


def _broken_off() -> CuebookError:
    failed = CuebookError(UNREACHABLE, "the stream broke off before its end")
    failed.is_passing = True
    return failed


def _message(content: str | None, choice: str | None, form: Values | None) -> NewMessage:
    return NewMessage(content=content, choice=choice, form=msgspec.UNSET if form is None else dict(form))


def _asking(expected_turn: int | None, queue: bool, idempotency_key: str | None) -> dict[str, str]:
    headers = once(idempotency_key)
    if expected_turn is not None:
        headers["If-Match"] = f'"{expected_turn}"'
    if queue:
        headers["Prefer"] = "busy=queue"
    return headers

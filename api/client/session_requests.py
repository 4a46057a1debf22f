"""Sessions over HTTP: create, find, read, change and delete them, and send messages."""

import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import msgspec

from api.client.streams import NoMoreEvents, ShownWords, StreamEvent, Values, ends_attempt, frames
from api.client.transport import UNREACHABLE, CuebookError, HttpTransport, waiting
from api.schemas.ids import in_path
from api.schemas.lifecycle import (
    CompressionView,
    ContextView,
    Ending,
    ExternalMessage,
    KeyedSession,
    KeyedView,
    ModelChoice,
    NewCompression,
    NewFork,
    NewLabels,
    NewSpeech,
    NewValues,
    PastTurn,
    PromptMessage,
    SessionChange,
    SessionWithMessages,
    SnapshotList,
    SnapshotView,
)
from api.schemas.session_lists import MEDIA_TYPES, Format, HitList, ImportView, SessionList, SessionStatsView
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
from runtime.state.state import Status
from scripts.builtin import CHAT
from scripts.model.script import Scope

SEEN_MAX = 50_000  # ids of frames of one stream that are remembered, to skip repeated ones
_SENT = {field.name: field.encode_name for field in msgspec.structs.fields(ExternalMessage)}
"""Fields of a message that API requests accept, by their names in prompts."""
DocumentFormat: TypeAlias = Literal["json", "yaml", "jsonl"]


class Sessions:
    """The sessions of a server. Each change is a turn; all methods raise CuebookError."""

    def __init__(self, wire: HttpTransport) -> None:
        self._wire = wire

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
        """Create a session; without a script it is a free conversation.

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
        return await self._wire.post("/api/sessions", SessionStart, new, headers=once(idempotency_key))

    async def get(self, session_id: str) -> SessionView:
        """Return the current state of a session."""
        return await self._wire.get(path_of(session_id), SessionView)

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
        """Send a message, a choice or a filled form to a session.

        With `expected_turn` the request fails if the session is at another turn. With `queue` it waits while the
        session answers another message.
        """
        body, headers = _message(content, choice, form), _asking(expected_turn, queue, idempotency_key)
        return await self._wire.post(path_of(session_id, "messages"), TurnAnswer, body, headers=headers)

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
        restart of the server, `message.reset` retracts the words so far.
        """
        body, headers = _message(content, choice, form), _asking(expected_turn, queue, idempotency_key)
        seen: set[tuple[str, str]] = set()
        words = ShownWords()
        for attempt in itertools.count(1):
            try:
                async for event in frames(self._wire, "POST", path_of(session_id, "messages"), headers, body=body):
                    if event.kind == "turn":
                        yield event
                        return
                    place = event.kind, event.id  # a frame without an id has that of the frame before it
                    if place not in seen:  # else it was yielded before the stream was interrupted
                        for shown in words.replace_by(event):
                            yield shown
                    if len(seen) < SEEN_MAX and not ends_attempt(event):
                        seen.add(place)
                raise _interrupted_error()
            except CuebookError as failed:
                await self._wire.retry_delay(attempt, failed)

    async def messages(
        self, session_id: str, *, after: int = 0, limit: int = 100, cursor: str | None = None
    ) -> MessageList:
        """Return a page of messages, oldest first."""
        path = path_of(session_id, "messages")
        return await self._wire.get(path, MessageList, after=after, limit=limit, cursor=cursor)

    async def transcript(self, session_id: str) -> AsyncIterator[MessageView]:
        """Yield every message, oldest first, page by page."""
        page = await self.messages(session_id, limit=200)
        while True:
            for message in page.data:
                yield message
            if page.next_cursor is None:
                return
            page = await self.messages(session_id, limit=200, cursor=page.next_cursor)

    async def variables(self, session_id: str) -> dict[str, Any]:
        """Return every variable with its value at the current position."""
        return await self._wire.get(path_of(session_id, "variables"), dict[str, Any])

    async def variable_store(self, session_id: str) -> VariableStore:
        """Return the variables by scope, with type, source and time."""
        return await self._wire.get(path_of(session_id, "variables"), VariableStore, scoped=True)

    async def events(self, session_id: str, *, after: int = 0, limit: int = 100, wait_s: int = 0) -> EventList:
        """Return a page of events, oldest first; `wait_s` is how long to wait for one."""
        path, parameters = path_of(session_id, "events"), {"after": after, "limit": limit}
        return await self._wire.ask("GET", path, EventList, parameters=parameters, headers=waiting(wait_s))

    async def follow(self, session_id: str, *, after: int = 0) -> AsyncIterator[StreamEvent]:
        """Yield the events of a session after a number, with streamed words, until it ends."""
        place: dict[str, str] = {}
        failures = 0
        while True:
            try:
                async for event in frames(self._wire, "GET", path_of(session_id, "events"), place, {"after": after}):
                    place, failures = ({"Last-Event-ID": event.id} if event.id else place), 0
                    yield event
                    if event.kind == "ended":
                        return
            except NoMoreEvents:
                return
            except CuebookError as failed:
                failures += 1
                await self._wire.retry_delay(failures, failed)

    # -- changes and lists ------------------------------------------------------------------------------------------

    async def get_or_create(
        self,
        key: str,
        user_id: str,
        script_id: str = CHAT,
        *,
        initial_variables: Values | None = None,
        metadata: Values | None = None,
        locale: str | None = None,
        timezone: str | None = None,
        context: Values | str | None = None,
    ) -> KeyedView:
        """Return the session with a key such as `telegram:123`, created if it is missing; concurrent calls create one.

        `context` is its context strategy, as in scripts: `"window"`, or `{"strategy": "window", "k": 5}`.
        """
        body = KeyedSession(
            key=key,
            user_id=user_id,
            script_id=script_id,
            initial_variables=dict(initial_variables or {}),
            metadata=dict(metadata or {}),
            locale=locale,
            timezone=timezone,
            context=context if context is None or isinstance(context, str) else dict(context),
        )
        return await self._wire.post("/api/sessions/by-key", KeyedView, body)

    async def by_key(self, key: str) -> SessionView:
        """Return the session with a key."""
        return await self._wire.get("/api/sessions/by-key", SessionView, key=key)

    async def update_metadata(self, session_id: str, metadata: Values, *, key: str | None = None) -> SessionView:
        """Merge metadata into a session's, in which null removes a name; set its key if it has none."""
        body = NewLabels(metadata=dict(metadata), key=key)
        return await self._wire.ask("PATCH", path_of(session_id), SessionView, body=body)

    async def set_variables(self, session_id: str, variables: Values, *, scope: Scope | None = None) -> SessionChange:
        """Set variables, all or none; null unsets one."""
        return await self._change("PATCH", session_id, "variables", NewValues(variables=dict(variables), scope=scope))

    async def pause(self, session_id: str) -> SessionChange:
        """Pause a session: it takes no message until it is resumed."""
        return await self._change("POST", session_id, "pause")

    async def resume(self, session_id: str) -> SessionChange:
        """Resume a paused session."""
        return await self._change("POST", session_id, "resume")

    async def end(self, session_id: str, reason: str = "") -> SessionChange:
        """End the conversation."""
        return await self._change("POST", session_id, "end", Ending(reason=reason))

    async def clear(self, session_id: str) -> SessionChange:
        """Remove all messages from the conversation; the database retains them."""
        return await self._change("POST", session_id, "clear")

    async def rewind(
        self, session_id: str, *, turn: int | None = None, before_user_message: int | None = None
    ) -> SessionChange:
        """Restore the state after a turn, or before a message of the user, counted from 0."""
        body = PastTurn(turn=turn, before_user_message=before_user_message)
        return await self._change("POST", session_id, "rewind", body)

    async def append(self, session_id: str, messages: Sequence[Values]) -> SessionChange:
        """Append messages from elsewhere, as `{"role": "user", "content": "…"}`, in one turn; tool calls as in prompts,
        with `tool_calls` and `tool_call_id`. Other fields are stored as metadata.
        """
        body = {"messages": [_request_message(each) for each in messages]}
        return await self._change("POST", session_id, "messages/append", body)

    async def take_over(self, session_id: str) -> SessionChange:
        """Talk in place of the script, under the name of the key, until the session is given back."""
        return await self._change("POST", session_id, "take-over")

    async def speak(self, session_id: str, content: str) -> SessionChange:
        """Say something in a session that was taken over with the same key."""
        return await self._change("POST", session_id, "speak", NewSpeech(content=content))

    async def give_back(self, session_id: str) -> SessionChange:
        """Let the script continue, which puts its question again; or dismiss a request for a person."""
        return await self._change("POST", session_id, "give-back")

    async def use_model(self, session_id: str, model: str | None) -> SessionChange:
        """Ask another language model from now on, whatever the script names; None: those of the script again."""
        return await self._change("POST", session_id, "model", ModelChoice(model=model))

    async def fork(
        self,
        session_id: str,
        *,
        turn: int | None = None,
        before_user_message: int | None = None,
        key: str | None = None,
        metadata: Values | None = None,
    ) -> SessionWithMessages:
        """Copy a session; the copy continues independently."""
        body = NewFork(turn=turn, before_user_message=before_user_message, key=key, metadata=dict(metadata or {}))
        return await self._wire.post(path_of(session_id, "fork"), SessionWithMessages, body, headers=once())

    async def find(
        self,
        *,
        user_id: str | None = None,
        status: Status | None = None,
        script_id: str | None = None,
        key_prefix: str | None = None,
        metadata: Values | None = None,
        sort: Literal["activity", "created"] = "activity",
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionList:
        """Return a page of sessions, the last active first; all of `metadata` must be in theirs.

        To read all pages while sessions continue, sort by `created`: by activity, a session that continues moves to the
        front, where later pages do not show it.
        """
        which = {"userId": user_id, "status": status, "scriptId": script_id, "keyPrefix": key_prefix}
        pairs = [_metadata_filter(name, value) for name, value in (metadata or {}).items()]
        page = {"sort": sort, "limit": limit, "cursor": cursor}
        return await self._wire.get("/api/sessions", SessionList, **which, metadata=pairs, **page)

    async def search(
        self,
        words: str,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> HitList:
        """Return a page of messages that contain all words (`"a phrase"` in quotes), the last recorded first."""
        which = {"q": words, "userId": user_id, "sessionId": session_id}
        return await self._wire.get("/api/sessions/search", HitList, **which, limit=limit, cursor=cursor)

    async def stats(self, session_id: str) -> SessionStatsView:
        """Return the statistics of a session."""
        return await self._wire.get(path_of(session_id, "stats"), SessionStatsView)

    async def history(
        self, session_id: str, *, max_messages: int = 50, max_tokens: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the last messages as `{"role", "content"}` for a prompt, from a message of the user's on."""
        return await self._history(session_id, maxMessages=max_messages, maxTokens=max_tokens)

    async def prompt_messages(self, session_id: str) -> list[dict[str, Any]]:
        """Return the messages that models see by the context strategy, after the summary and memo."""
        return await self._history(session_id, view="context")

    async def _history(self, session_id: str, **parameters: object) -> list[dict[str, Any]]:
        """Read messages; their fields get the names they have in prompts."""
        found = await self._wire.get(path_of(session_id, "history"), list[PromptMessage], **parameters)
        return [
            {name: value for name, value in msgspec.structs.asdict(each).items() if value is not msgspec.UNSET}
            for each in found
        ]

    async def context(self, session_id: str) -> ContextView:
        """Return the context: what the strategy stores, and what models see."""
        return await self._wire.get(path_of(session_id, "context"), ContextView)

    async def compress(self, session_id: str, *, keep: int = 20, instruct: str = "") -> CompressionView:
        """Summarise all but the last messages for models."""
        body = NewCompression(keep=keep, instruct=instruct)
        return await self._wire.post(path_of(session_id, "compress"), CompressionView, body, headers=once())

    async def export(self, session_id: str, form: Format = "json", *, masked: bool | None = None) -> str:
        """Return the session as a document; a masked one has no personal values and cannot be imported."""
        parameters = {"format": form, "masked": masked}
        return (await self._wire.content("GET", path_of(session_id, "export"), parameters=parameters)).decode()

    async def import_session(
        self,
        document: Values | str | bytes,
        form: DocumentFormat = "json",
        *,
        user_id: str | None = None,
        key: str | None = None,
        file_name: str | None = None,
        path: str | None = None,
        replace: bool = False,
        dry_run: bool = False,
    ) -> ImportView:
        """Import a document of `export`, or a session of Agently (`json`, `yaml`) or nanobot (`jsonl`).

        Old sessions of nanobot have their key in the `file_name`; `path` leads to the session in the document.

        Without `replace`, an import whose answer was lost is done, but raises `SESSION_EXISTS` or `SESSION_KEY_EXISTS`
        with the `sessionId` in its `context`.
        """
        parameters = {
            "userId": user_id,
            "key": key,
            "fileName": file_name,
            "path": path,
            "replace": replace,
            "dryRun": dry_run,
        }
        content = document.encode(errors="surrogatepass") if isinstance(document, str) else document
        headers = {"Content-Type": MEDIA_TYPES[form]} if isinstance(content, bytes) else None
        return await self._wire.ask(
            "POST", "/api/sessions/import", ImportView, body=content, parameters=parameters, headers=headers
        )

    async def snapshots(self, session_id: str, *, after: int | None = None, limit: int = 100) -> SnapshotList:
        """Return a page of turns, each with the position after it."""
        return await self._wire.get(path_of(session_id, "snapshots"), SnapshotList, after=after, limit=limit)

    async def snapshot(self, session_id: str, turn: int) -> SnapshotView:
        """Return the session after a turn."""
        return await self._wire.get(path_of(session_id, "snapshots", str(turn)), SnapshotView)

    async def delete(self, session_id: str) -> bool:
        """Delete a session permanently; return false if there is none."""
        try:
            await self._wire.ask("DELETE", path_of(session_id), type(None))
        except CuebookError as failed:
            if failed.code == "SESSION_NOT_FOUND":
                return False
            raise
        return True

    async def _change(self, method: str, session_id: str, what: str, body: object = None) -> SessionChange:
        return await self._wire.ask(method, path_of(session_id, what), SessionChange, body=body, headers=once())


def _interrupted_error() -> CuebookError:
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


def _metadata_filter(name: str, value: object) -> str:
    """Return a filter of the list, which compares values other than texts as JSON."""
    name = name.replace("\\", "\\\\").replace(":", "\\:")
    return f"{name}:{value if isinstance(value, str) else msgspec.json.encode(value).decode()}"


def _request_message(message: Values) -> Values:
    """Return a message in the format of requests, without empty fields."""
    fields = {name: value for name, value in message.items() if value is not None}
    others = {name: value for name, value in fields.items() if name not in _SENT}
    sent = {_SENT[name]: value for name, value in fields.items() if name in _SENT}
    return {**sent, "metadata": {**others, **sent.get("metadata", {})}} if others else sent


def path_of(session_id: str, *further: str) -> str:
    """Return the path of a session."""
    return "/".join(["/api/sessions", in_path(session_id), *further])


def once(idempotency_key: str | None = None) -> dict[str, str]:
    """Return the Idempotency-Key header; the server carries out requests with the same key once."""
    return {"Idempotency-Key": str(uuid4()) if idempotency_key is None else idempotency_key}

"""What an application does with sessions besides talking to them: find, set, pause, take back, copy, add, delete."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from api.client.wire import Wire
from api.paths import in_path
from api.schemas.contexts import Compressed, ContextView, NewCompression
from api.schemas.lifecycle import (
    Back,
    Ending,
    KeyedSession,
    KeyedView,
    NewFork,
    NewLabels,
    NewValues,
    SessionChanged,
    SnapshotList,
    SnapshotView,
)
from api.schemas.session_lists import HitList, SessionList, SessionStatsView
from api.schemas.sessions import SessionView
from api.schemas.transfers import ImportView
from api.transfer.exporting import Format
from runtime.state import Status
from scripts.builtin import CHAT
from scripts.model import Scope

Values: TypeAlias = Mapping[str, Any]

_SENT = {
    "role": "role",
    "content": "content",
    "tool_calls": "toolCalls",
    "tool_call_id": "toolCallId",
    "name": "name",
    "metadata": "metadata",
}
"""What of a message has a place in requests to the API, by its names in prompts."""


class Operations:
    """Sessions, as an application keeps them. Whatever changes one is a turn, and raises CuebookError."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def get_or_create(
        self,
        key: str,
        user_id: str,
        script_id: str = CHAT,
        *,
        initial_variables: Values | None = None,
        metadata: Values | None = None,
        locale: str | None = None,
        context: Values | str | None = None,
    ) -> KeyedView:
        """The session of a key such as `telegram:123`, begun if there is none yet; one, however many ask at once.

        `context` is what models see of it, as in scripts: `"window"`, or `{"strategy": "window", "k": 5}`.
        """
        body = KeyedSession(
            key=key,
            user_id=user_id,
            script_id=script_id,
            initial_variables=dict(initial_variables or {}),
            metadata=dict(metadata or {}),
            locale=locale,
            context=context if context is None or isinstance(context, str) else dict(context),
        )
        return await self._wire.ask("POST", "/api/sessions/by-key", KeyedView, body=body)

    async def by_key(self, key: str) -> SessionView:
        """The session of a key."""
        return await self._wire.ask("GET", "/api/sessions/by-key", SessionView, parameters={"key": key})

    async def note(self, session_id: str, metadata: Values, *, key: str | None = None) -> SessionView:
        """Changes the metadata of a session, where null removes a name; gives it a key, if it has none."""
        body = NewLabels(metadata=dict(metadata), key=key)
        return await self._wire.ask("PATCH", path_of(session_id), SessionView, body=body)

    async def set_variables(self, session_id: str, variables: Values, *, scope: Scope | None = None) -> SessionChanged:
        """Sets variables, all or none; null unsets one."""
        body = NewValues(variables=dict(variables), scope=scope)
        return await self._change("PATCH", session_id, "variables", body)

    async def pause(self, session_id: str) -> SessionChanged:
        """Takes no message until the session is resumed."""
        return await self._change("POST", session_id, "pause")

    async def resume(self, session_id: str) -> SessionChanged:
        """Goes on where it was paused."""
        return await self._change("POST", session_id, "resume")

    async def end(self, session_id: str, reason: str = "") -> SessionChanged:
        """Ends the conversation."""
        return await self._change("POST", session_id, "end", Ending(reason=reason))

    async def clear(self, session_id: str) -> SessionChanged:
        """Takes all that was said out of the conversation; the record keeps it."""
        return await self._change("POST", session_id, "clear")

    async def rewind(
        self, session_id: str, *, turn: int | None = None, before_user_message: int | None = None
    ) -> SessionChanged:
        """Goes back to where a turn left the session, or to before a message of the user's, counted from 0."""
        body = Back(turn=turn, before_user_message=before_user_message)
        return await self._change("POST", session_id, "rewind", body)

    async def append(self, session_id: str, messages: Sequence[Values]) -> SessionChanged:
        """Adds messages that were said elsewhere, as `{"role": "user", "content": "…"}`, all in one turn; calls of
        tools as prompts hold them, with `tool_calls` and `tool_call_id`. Whatever else one holds is kept as metadata.
        """
        body = {"messages": [_sent(each) for each in messages]}
        return await self._change("POST", session_id, "messages/append", body)

    async def fork(
        self,
        session_id: str,
        *,
        turn: int | None = None,
        before_user_message: int | None = None,
        key: str | None = None,
        metadata: Values | None = None,
    ) -> SessionView:
        """A copy of a session, which goes on by itself."""
        body = NewFork(turn=turn, before_user_message=before_user_message, key=key, metadata=dict(metadata or {}))
        return await self._wire.ask("POST", path_of(session_id, "fork"), SessionView, body=body, headers=once())

    async def find(
        self,
        *,
        user_id: str | None = None,
        status: Status | None = None,
        script_id: str | None = None,
        key_prefix: str | None = None,
        metadata: Mapping[str, str] | None = None,
        sort: Literal["activity", "created"] = "activity",
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionList:
        """A page of sessions, the last active first."""
        parameters = {
            "userId": user_id,
            "status": status,
            "scriptId": script_id,
            "keyPrefix": key_prefix,
            "metadata": [f"{name}:{value}" for name, value in (metadata or {}).items()],
            "sort": sort,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._wire.ask("GET", "/api/sessions", SessionList, parameters=parameters)

    async def search(
        self,
        words: str,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> HitList:
        """A page of messages in which all words occur (`"a phrase"` in quotes), the last first."""
        parameters = {"q": words, "userId": user_id, "sessionId": session_id, "limit": limit, "cursor": cursor}
        return await self._wire.ask("GET", "/api/sessions/search", HitList, parameters=parameters)

    async def stats(self, session_id: str) -> SessionStatsView:
        """What a session came to."""
        return await self._wire.ask("GET", path_of(session_id, "stats"), SessionStatsView)

    async def history(
        self, session_id: str, *, max_messages: int = 50, max_tokens: int | None = None
    ) -> list[dict[str, Any]]:
        """The last messages as `{"role", "content"}`, for a prompt; they begin where an exchange does."""
        parameters = {"maxMessages": max_messages, "maxTokens": max_tokens}
        return await self._wire.ask("GET", path_of(session_id, "history"), list[dict[str, Any]], parameters=parameters)

    async def prompt_messages(self, session_id: str) -> list[dict[str, Any]]:
        """The messages as models see them by the session's context strategy, with the summary and memo before them."""
        parameters = {"view": "context"}
        return await self._wire.ask("GET", path_of(session_id, "history"), list[dict[str, Any]], parameters=parameters)

    async def context(self, session_id: str) -> ContextView:
        """What the session's context strategy keeps, and shows models."""
        return await self._wire.ask("GET", path_of(session_id, "context"), ContextView)

    async def compress(self, session_id: str, *, keep: int = 20, instruct: str = "") -> Compressed:
        """Sums up all but the last messages, for models."""
        body = NewCompression(keep=keep, instruct=instruct)
        return await self._wire.ask("POST", path_of(session_id, "compress"), Compressed, body=body, headers=once())

    async def export(self, session_id: str, form: Format = "json", *, masked: bool | None = None) -> str:
        """The session as a document; masked, it has no personal values, and cannot be imported."""
        return await self._wire.text(path_of(session_id, "export"), parameters={"format": form, "masked": masked})

    async def bring(
        self, document: Values, *, user_id: str | None = None, key: str | None = None, replace: bool = False
    ) -> ImportView:
        """Imports a document that `export` gave as JSON, or a session of Agently's."""
        parameters = {"userId": user_id, "key": key, "replace": replace}
        return await self._wire.ask("POST", "/api/sessions/import", ImportView, body=document, parameters=parameters)

    async def snapshots(self, session_id: str, *, after: int | None = None, limit: int = 100) -> SnapshotList:
        """A page of where each turn left the session."""
        parameters = {"after": after, "limit": limit}
        return await self._wire.ask("GET", path_of(session_id, "snapshots"), SnapshotList, parameters=parameters)

    async def snapshot(self, session_id: str, turn: int) -> SnapshotView:
        """The session as a turn left it."""
        return await self._wire.ask("GET", path_of(session_id, "snapshots", str(turn)), SnapshotView)

    async def delete(self, session_id: str) -> None:
        """Deletes a session for good; one that is not there is an error."""
        await self._wire.ask("DELETE", path_of(session_id), type(None))

    async def _change(self, method: str, session_id: str, what: str, body: object = None) -> SessionChanged:
        return await self._wire.ask(method, path_of(session_id, what), SessionChanged, body=body, headers=once())


def _sent(message: Values) -> Values:
    """A message as requests have it; nothing of what says nothing."""
    told = {name: value for name, value in message.items() if value is not None}
    others = {name: value for name, value in told.items() if name not in _SENT}
    sent = {_SENT[name]: value for name, value in told.items() if name in _SENT}
    return {**sent, "metadata": {**others, **sent.get("metadata", {})}} if others else sent


def path_of(session_id: str, *further: str) -> str:
    """Where a session is."""
    return "/".join(["/api/sessions", in_path(session_id), *further])


def once(idempotency_key: str | None = None) -> dict[str, str]:
    """The header by which a request that is sent again is known; the same request is never carried out twice."""
    return {"Idempotency-Key": idempotency_key or str(uuid4())}

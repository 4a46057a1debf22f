"""What an application does with sessions besides talking to them: find, set, pause, take back, copy, add, delete."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from uuid import uuid4

from api.client.wire import Wire
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
from api.schemas.sessions import SessionView
from scripts.builtin import CHAT
from scripts.model import Scope

Values: TypeAlias = Mapping[str, Any]


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
    ) -> KeyedView:
        """The session of a key such as `telegram:123`, begun if there is none yet; one, however many ask at once."""
        body = KeyedSession(
            key=key,
            user_id=user_id,
            script_id=script_id,
            initial_variables=dict(initial_variables or {}),
            metadata=dict(metadata or {}),
            locale=locale,
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
        """Adds messages that were said elsewhere, as `{"role": "user", "content": "…"}`, all in one turn."""
        return await self._change("POST", session_id, "messages/append", {"messages": list(messages)})

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


def path_of(session_id: str, *further: str) -> str:
    """Where a session is."""
    return "/".join(["/api/sessions", session_id, *further])


def once(idempotency_key: str | None = None) -> dict[str, str]:
    """The header by which a request that is sent again is known; the same request is never carried out twice."""
    return {"Idempotency-Key": idempotency_key or str(uuid4())}

"""Message stores for `with_history` that are not sessions of Cuebook: in memory, or an application's own.

The interface is that of seed 003's `MemoryRepository`: append, load and clear by session id.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from runtime.context.messages import message_of, record_of
from runtime.context.windows import recent


class MessageStore(Protocol):
    """Messages by session id. The methods may be plain or asynchronous."""

    def append(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> Awaitable[None] | None:
        """Add messages to a session, all or none."""

    def load(self, session_id: str) -> Awaitable[Sequence[Mapping[str, Any]]] | Sequence[Mapping[str, Any]]:
        """Return all messages of a session, oldest first; an empty list for an unknown session."""

    def clear(self, session_id: str) -> Awaitable[None] | None:
        """Remove all messages of a session."""


class InMemoryStore:
    """Messages in RAM, for tests and short-lived programs: gone when the process ends."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[dict[str, Any]]] = {}

    def append(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Add messages to a session."""
        self._sessions.setdefault(session_id, []).extend(dict(message) for message in messages)

    def load(self, session_id: str) -> list[dict[str, Any]]:
        """Return copies of all messages of a session, oldest first."""
        return [dict(message) for message in self._sessions.get(session_id, [])]

    def clear(self, session_id: str) -> None:
        """Remove all messages of a session."""
        self._sessions.pop(session_id, None)


class StoreSession(Struct, frozen=True):
    """A session of a message store; it needs no creation."""

    session_id: str


class StoreConversations:
    """Adapts a message store for `with_history`. Plain methods run in a thread, because they may block."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    async def get_or_create(self, key: str, user_id: str) -> StoreSession:
        """Return the session of a key; `user_id` is ignored."""
        return StoreSession(key)

    async def history(
        self, session_id: str, *, max_messages: int = 50, max_tokens: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the last messages of a session, from where an exchange begins."""
        loaded = await _result(self._store.load, session_id)
        messages = [message_of(each, number) for number, each in enumerate(loaded, 1)]
        chosen = recent(messages, max_messages, max_tokens)
        return [_without_number(record_of(message)) for message in chosen]

    async def append(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Add messages to a session."""
        await _result(self._store.append, session_id, messages)


def _without_number(store: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in store.items() if name != "number"}


async def _result(method: Any, *arguments: Any) -> Any:
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    result = await asyncio.to_thread(method, *arguments)
    return await result if inspect.isawaitable(result) else result

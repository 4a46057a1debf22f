"""Adds a history to any callable that answers messages: previous messages are passed in, new ones are stored.

The idea is that of `RunnableWithMessageHistory` in LangChain and Synaptic; its two parts, `before` and `after`, are for
programs that call the model themselves, as the hooks request prefix and finally of Agently.
"""

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from cachetools import LRUCache
from msgspec import Struct

from api.client.transport import CuebookError
from runtime.context.messages import message_of
from runtime.context.windows import recent
from runtime.state.events import Message
from scripts.expressions.values import ValueRefused

ChatMessage: TypeAlias = Mapping[str, Any]
"""A message in the usual format: `{"role": "user", "content": "…"}`, with `tool_calls` and other fields."""

Config: TypeAlias = Mapping[str, Any]
"""The configuration of a call; `{"metadata": {"session_id": "alice"}}` names its conversation."""

Input: TypeAlias = str | ChatMessage | Sequence[ChatMessage]
"""New input: a text of the user, a message, or several."""

T = TypeVar("T")
SessionIdOf: TypeAlias = Callable[[Config], str]

DEFAULT_SESSION = "default"
_OVER = frozenset({"SESSION_NOT_FOUND", "SESSION_REDACTED"})
KNOWN_MAX = 1_000  # cached session ids of conversations, to avoid lookups


@runtime_checkable
class Conversations(Protocol):
    """A store of conversations: the `sessions` of a client or of an embedded runtime.

    The methods may be plain, as those of `SyncClient`.
    """

    async def get_or_create(self, key: str, user_id: str) -> Any:
        """Return the session of a key, created if it is missing."""

    async def history(
        self, session_id: str, *, max_messages: int = 50, max_tokens: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the last messages of a session, from a message of the user's on."""

    async def append(self, session_id: str, messages: Sequence[ChatMessage]) -> Any:
        """Append messages to a session in one turn."""


@runtime_checkable
class ContextConversations(Conversations, Protocol):
    """A store of conversations with context strategies, such as the `sessions` of a client."""

    async def get_or_create(self, key: str, user_id: str, *, context: Mapping[str, Any] | str | None = None) -> Any:
        """Return the session of a key, created with a context strategy if it is missing."""

    async def prompt_messages(self, session_id: str) -> list[dict[str, Any]]:
        """Return the messages that models see by the context strategy, after the summary and memo."""


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


class WithHistory(Generic[T]):
    """A callable with a history; await it with new input and a config that names the conversation.

    `call` takes messages and returns a text or a message (or several); it may be asynchronous or plain. For `stream` it
    returns an iterator of pieces of text, asynchronous or plain. `conversations` are the `sessions` of a client, or a
    MessageStore. The conversation is the session with the key `session_id`; without one the config's metadata names
    it, else it is `default`.

    The messages are the last `max_messages`, within `max_tokens`. With `context`, such as `"summary_buffer"` or
    `{"strategy": "window", "k": 5}`, a new conversation has this context strategy, which selects and summarises them.
    """

    def __init__(
        self,
        call: Callable[[list[ChatMessage]], T | Awaitable[T]],
        conversations: Conversations | MessageStore,
        *,
        session_id: str | SessionIdOf | None = None,
        user_id: str = DEFAULT_SESSION,
        max_messages: int = 50,
        max_tokens: int | None = None,
        context: Mapping[str, Any] | str | None = None,
    ) -> None:
        """Raises TypeError for a `context` with conversations that have no context strategies."""
        self._call = call
        self._conversations: Conversations = (
            conversations if isinstance(conversations, Conversations) else StoreConversations(conversations)
        )
        self._session_id = session_id
        self._user_id = user_id
        self._max_messages = max_messages
        self._max_tokens = max_tokens
        self._context = context
        self._with_context: ContextConversations | None = None
        if context is not None:
            if not isinstance(conversations, ContextConversations):
                raise TypeError("a context strategy needs the `sessions` of a client; a message store has none")
            self._with_context = conversations
        self._session_ids: LRUCache[str, str] = LRUCache(KNOWN_MAX)  # sessions by their keys

    async def __call__(self, message: Input, config: Config | None = None) -> T:
        """Call the callable with the history and the new input; store both input and answer in one turn.

        If the callable fails, nothing is stored. Raises its errors, TypeError for an answer that is not a text or
        message, and CuebookError.
        """
        answer: T = await _result(self._call, await self.before(message, config))
        await self.after(message, answer, config)
        return answer

    async def stream(self, message: Input, config: Config | None = None) -> AsyncIterator[str]:
        """Yield the pieces of text that the callable answers; at their end store input and answer in one turn.

        If the callable fails, or the caller stops before the end, nothing is stored. Raises the errors of the callable,
        TypeError for a piece that is not a text, and CuebookError.
        """
        answer = await _result(self._call, await self.before(message, config))
        pieces: list[str] = []
        async for piece in _pieces(answer):
            if not isinstance(piece, str):
                raise TypeError(f"a piece of an answer must be a text, not {type(piece).__name__}")
            pieces.append(piece)
            yield piece
        await self.after(message, "".join(pieces), config)

    async def before(self, message: Input, config: Config | None = None) -> list[ChatMessage]:
        """Return the messages of a call: new system messages, the history, and the other new messages."""
        new = _messages(message, "user")
        history = await self._on_session(config, self._history)
        first = [each for each in new if each["role"] == "system"]
        return [*first, *history, *(each for each in new if each["role"] != "system")]

    async def after(self, message: Input, answer: object, config: Config | None = None) -> None:
        """Store the new messages, except system messages, and the answer."""
        new = [each for each in _messages(message, "user") if each["role"] != "system"]
        messages = [*new, *_messages(answer, "assistant")]
        await self._on_session(config, lambda session: _result(self._conversations.append, session, messages))

    async def _history(self, session_id: str) -> list[ChatMessage]:
        limits = {"max_messages": self._max_messages, "max_tokens": self._max_tokens}
        history: list[ChatMessage] = await (
            _result(self._conversations.history, session_id, **limits)
            if self._with_context is None
            else _result(self._with_context.prompt_messages, session_id)
        )
        return history

    async def _get_or_create(self, key: str) -> Any:
        if self._with_context is not None:
            return await _result(self._with_context.get_or_create, key, self._user_id, context=self._context)
        return await _result(self._conversations.get_or_create, key, self._user_id)

    async def _on_session(self, config: Config | None, ask: Callable[[str], Awaitable[Any]]) -> Any:
        """Run a request on the conversation's session; replace a session that was deleted or redacted by a new one."""
        key = self._key(config or {})
        known = self._session_ids.get(key)
        if known is not None:
            try:
                return await ask(known)
            except CuebookError as failed:
                if failed.code not in _OVER:
                    raise
        session = await self._get_or_create(key)
        self._session_ids[key] = session.session_id
        return await ask(session.session_id)

    def _key(self, config: Config) -> str:
        if callable(self._session_id):
            return self._session_id(config)
        if self._session_id is not None:
            return self._session_id
        metadata = config.get("metadata")
        named = metadata.get("session_id") if isinstance(metadata, Mapping) else None
        if named is not None and not isinstance(named, str):  # otherwise all such users shared one conversation
            raise TypeError(f"the session_id of a config is a text, not {type(named).__name__}")
        return named or DEFAULT_SESSION


with_history = WithHistory
"""``answer = with_history(ask_model, cuebook.sessions)``, then ``await answer("Hello")``."""


async def _pieces(answer: object) -> AsyncIterator[object]:
    """Yield the pieces of an answer: a text is one piece; a plain iterator is read in a thread."""
    if isinstance(answer, AsyncIterable):
        async for piece in answer:
            yield piece
        return
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        yield answer
        return
    pieces, end = iter(answer), object()
    while (piece := await asyncio.to_thread(next, pieces, end)) is not end:
        yield piece


def _messages(value: object, role: str) -> list[ChatMessage]:
    """Convert input in any accepted format to messages. Raises TypeError, ValueRefused."""
    match value:
        case str():
            return [{"role": role, "content": value}]
        case Mapping() if "content" in value:
            message = {"role": role, **value}
            _message_of(message, 1)  # a store would take it, and each later call would fail
            return [message]
        case Sequence() if not isinstance(value, bytes):
            return [message for each in value for message in _messages(each, role)]
        case _:
            raise TypeError(f"expected a text or a message with `content`, not {type(value).__name__}")


# -- stores that are not sessions of Cuebook --------------------------------------------------------------------------


class StoreSession(Struct, frozen=True):
    """A session of a message store; it needs no creation."""

    session_id: str


class StoreConversations:
    """Adapts a message store for `with_history`."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    async def get_or_create(self, key: str, user_id: str) -> StoreSession:
        """Return the session of a key; `user_id` is ignored."""
        return StoreSession(key)

    async def history(
        self, session_id: str, *, max_messages: int = 50, max_tokens: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the last messages of a session as the store has them, from a message of the user's on."""
        loaded = await _result(self._store.load, session_id)
        messages = [_message_of(each, number) for number, each in enumerate(loaded, 1)]
        return [dict(loaded[each.number - 1]) for each in recent(messages, max_messages, max_tokens)]

    async def append(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Add messages to a session."""
        await _result(self._store.append, session_id, messages)


def _message_of(data: Mapping[str, Any], number: int) -> Message:
    """Return a message whose size can be estimated. Raises TypeError."""
    try:
        return message_of(data, number)
    except ValueRefused:  # it has longer values than a variable, which the store may contain
        return message_of({"role": data["role"], "content": data.get("content")}, number)


async def _result(method: Any, *arguments: Any, **named: Any) -> Any:
    """Call a plain or an asynchronous method; a plain one runs in a thread, because it may block."""
    if inspect.iscoroutinefunction(method):
        return await method(*arguments, **named)
    result = await asyncio.to_thread(method, *arguments, **named)
    return await result if inspect.isawaitable(result) else result

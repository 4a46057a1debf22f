"""A history around any callable that answers messages: what was said before goes in, what is said now is kept.

The idea is that of seed 003's `RunnableWithMessageHistory`; its two ends, `before` and `after`, are the hooks of seed
001 (request prefix and finally) for programs that make their calls themselves.
"""

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from api.client.errors import CuebookError
from api.message_stores import MessageStore, StoreConversations

ChatMessage: TypeAlias = Mapping[str, Any]
"""A message in the usual form: `{"role": "user", "content": "…"}`, with `tool_calls` and the like beside it."""

Config: TypeAlias = Mapping[str, Any]
"""What comes along with a call; `{"metadata": {"session_id": "alice"}}` names its conversation."""

Given: TypeAlias = str | ChatMessage | Sequence[ChatMessage]
"""What is said: a text of the user's, a message, or several."""

T = TypeVar("T")
SessionIdOf: TypeAlias = Callable[[Config], str]

DEFAULT_SESSION = "default"
_OVER = frozenset({"SESSION_NOT_FOUND", "SESSION_TEXT_DROPPED"})
KNOWN_MAX = 1_000  # conversations whose sessions are remembered, so that they need not be looked up


@runtime_checkable
class Conversations(Protocol):
    """What keeps the conversations: `sessions` of a client, or of an embedded runtime."""

    async def get_or_create(self, key: str, user_id: str) -> Any:
        """The session of a key, begun if there is none yet."""

    async def history(
        self, session_id: str, *, max_messages: int = 50, max_tokens: int | None = None
    ) -> list[dict[str, Any]]:
        """The last messages of a session that make sense by themselves."""

    async def append(self, session_id: str, messages: Sequence[ChatMessage]) -> Any:
        """Adds messages to a session, all in one turn."""


class WithHistory(Generic[T]):
    """A callable with a history; await it with what is said now, and a config that names the conversation.

    `call` takes messages and gives a text or a message (or several); it may be asynchronous or plain. For `stream` it
    gives an iterator of pieces of text, asynchronous or plain. `conversations` are the `sessions` of a client, or a
    MessageStore. The conversation is the session with the key `session_id`; without one the config's metadata says
    which, else it is `default`.
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
    ) -> None:
        self._call = call
        self._conversations = _conversations(conversations)
        self._session_id = session_id
        self._user_id = user_id
        self._max_messages = max_messages
        self._max_tokens = max_tokens
        self._known: OrderedDict[str, str] = OrderedDict()  # sessions by their keys

    async def __call__(self, given: Given, config: Config | None = None) -> T:
        """What the callable answers to the history and what is said now; both are then kept, in one turn.

        Where the callable fails, nothing is kept. Raises what it raises, TypeError for an answer that is no text and no
        message, CuebookError.
        """
        answered = await self._answer(await self.before(given, config))
        await self.after(given, answered, config)
        return answered

    async def stream(self, given: Given, config: Config | None = None) -> AsyncIterator[str]:
        """Yield the pieces of text that the callable answers; at their end question and answer are kept, in one turn.

        Where the callable fails, or the caller stops before the end, nothing is kept. Raises what the callable raises,
        TypeError for a piece that is no text, CuebookError.
        """
        answered = await self._answer(await self.before(given, config))
        pieces: list[str] = []
        async for piece in _pieces(answered):
            if not isinstance(piece, str):
                raise TypeError(f"a piece of an answer is a text, not {type(piece).__name__}")
            pieces.append(piece)
            yield piece
        await self.after(given, "".join(pieces), config)

    async def before(self, given: Given, config: Config | None = None) -> list[ChatMessage]:
        """What goes into a call: system messages of what is given, the history, and the rest of what is given."""
        said = _messages(given, "user")
        history = await self._on_session(
            config,
            lambda session: self._conversations.history(
                session, max_messages=self._max_messages, max_tokens=self._max_tokens
            ),
        )
        first = [each for each in said if each["role"] == "system"]
        return [*first, *history, *(each for each in said if each["role"] != "system")]

    async def after(self, given: Given, answered: object, config: Config | None = None) -> None:
        """Keeps what was given, but for system messages, and what was answered."""
        said = [each for each in _messages(given, "user") if each["role"] != "system"]
        messages = [*said, *_messages(answered, "assistant")]
        await self._on_session(config, lambda session: self._conversations.append(session, messages))

    async def _answer(self, messages: list[ChatMessage]) -> T:
        if inspect.isasyncgenfunction(self._call):
            return cast("T", self._call(messages))  # pieces, which `stream` reads
        if inspect.iscoroutinefunction(self._call):
            answered: T = await self._call(messages)
            return answered
        plain = await asyncio.to_thread(self._call, messages)  # so that it holds nothing up
        return await plain if inspect.isawaitable(plain) else plain

    async def _on_session(self, config: Config | None, ask: Callable[[str], Awaitable[Any]]) -> Any:
        """Asks something of the conversation's session; one that is no more, or has no text any more, begins anew."""
        key = self._key(config or {})
        known = self._known.get(key)
        if known is not None:
            try:
                return await ask(known)
            except CuebookError as failed:
                if failed.code not in _OVER:
                    raise
        session = await self._conversations.get_or_create(key, self._user_id)
        self._known[key] = session.session_id
        self._known.move_to_end(key)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return await ask(session.session_id)

    def _key(self, config: Config) -> str:
        if callable(self._session_id):
            return self._session_id(config)
        if self._session_id is not None:
            return self._session_id
        metadata = config.get("metadata")
        named = metadata.get("session_id") if isinstance(metadata, Mapping) else None
        return named if isinstance(named, str) and named else DEFAULT_SESSION


with_history = WithHistory
"""``answer = with_history(ask_model, cuebook.sessions)``, then ``await answer("Hello")``."""


def _conversations(given: Conversations | MessageStore) -> Conversations:
    return given if isinstance(given, Conversations) else StoreConversations(given)


async def _pieces(answered: object) -> AsyncIterator[object]:
    """Yield the pieces of an answer: those of an iterator, each waited for in a thread; a text is one piece."""
    if isinstance(answered, AsyncIterable):
        async for piece in answered:
            yield piece
        return
    if isinstance(answered, str) or not isinstance(answered, Iterable):
        yield answered
        return
    pieces, end = iter(answered), object()
    while (piece := await asyncio.to_thread(next, pieces, end)) is not end:
        yield piece


def _messages(said: object, role: str) -> list[ChatMessage]:
    """Messages of whatever form they come in. Raises TypeError."""
    match said:
        case str():
            return [{"role": role, "content": said}]
        case Mapping() if "content" in said:
            return [{"role": role, **said}]
        case Sequence() if not isinstance(said, bytes):
            return [message for each in said for message in _messages(each, role)]
        case _:
            raise TypeError(f"a text or a message with `content` is needed, not {type(said).__name__}")

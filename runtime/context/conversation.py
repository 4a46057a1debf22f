"""A conversation without a server or a database, like a session of Agently.

It stores all messages, the window of them that a model sees, and a memo, and resizes the window by the same rules as
the strategies `lite` and `memo`. A condenser or a handler makes the memo; without either, the memo is an extract.
"""

import asyncio
import threading
import uuid
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import msgspec

from runtime.context import serialization
from runtime.context.extracts import ExtractiveCondenser
from runtime.context.messages import message_of
from runtime.context.ports import Condenser
from runtime.context.resize import (
    FORCED,
    AttachmentHandler,
    Book,
    Decision,
    Handlers,
    MemoHandler,
    PolicyHandler,
    ResizeHandler,
    decide,
    remember_by,
    resize,
    shown_memo,
)
from runtime.context.strategies import count_messages
from runtime.context.summaries import Remember, remember_with
from runtime.state.events import Message
from runtime.state.ports import ModelFailed
from runtime.state.state import ContextMemory
from scripts.expressions.values import Value
from scripts.model.context_strategies import ContextSettings, Limit, read_settings

RESIZE_S = 300.0

T = TypeVar("T")


class Conversation:
    """The messages of a conversation, their window, and the memo.

    Every blocking method has an asynchronous counterpart with the prefix `async_`; the blocking one can also be called
    in a running event loop, which it blocks. Messages may be appended at any time, also by other threads.
    """

    def __init__(
        self,
        id: str | None = None,
        *,
        settings: ContextSettings | Mapping[str, object] | None = None,
        handlers: Handlers = Handlers(),  # noqa: B008  (frozen)
        condense: Condenser | None = None,
        resize_s: float = RESIZE_S,
    ) -> None:
        """`settings` have the names of Agently (`session.limit`, …), or are a value. Raises SettingsInvalid."""
        self.id = id or uuid.uuid4().hex
        read = settings if isinstance(settings, ContextSettings) else serialization.session_settings(settings or {})
        serialization.checked_mode(read.strategy)
        self._settings = read
        self._handlers = handlers
        self._condense = condense or ExtractiveCondenser()
        self._resize_s = resize_s
        self._full: list[Message] = []
        self._current: list[Message] = []
        self._memory = ContextMemory()
        self._loads = 0
        self._lock = threading.Lock()  # never held while an operation waits
        self._resizing = False

    # -- contents -----------------------------------------------------------------------------------------------------

    @property
    def full_chat_history(self) -> tuple[Message, ...]:
        """Return all messages, oldest first."""
        return tuple(self._full)

    @property
    def current_chat_history(self) -> tuple[Message, ...]:
        """Return the window: the messages that a model sees."""
        return tuple(self._current)

    @property
    def memo(self) -> dict[str, Value]:
        """Return the memo, with the ``{type, turn, reason}`` of the last resize as `last_resize`."""
        return shown_memo(self._memory)

    @property
    def turns(self) -> int:
        """Return the number of the assistant's messages."""
        return self._memory.turns

    @property
    def last_resize_turn(self) -> int:
        """Return the value of `turns` at the last resize."""
        return self._memory.resized_at

    @property
    def memo_cursor(self) -> int:
        """Return the number of the last message that the memo covers."""
        return self._memory.memo_to

    @property
    def settings(self) -> ContextSettings:
        """Return the current settings."""
        return self._settings

    def append_message(self, message: Message | Mapping[str, object]) -> Message:
        """Add a message at the end, with the next number. Raises TypeError, ValueRefused."""
        made = message if isinstance(message, Message) else message_of(message, 0)
        with self._lock:
            made = msgspec.structs.replace(made, number=self._memory.seen + 1)
            self._full.append(made)
            self._current.append(made)
            self._memory = count_messages((made,), self._memory)
        return made

    def replace(self, messages: Iterable[Message | Mapping[str, object]]) -> None:
        """Replace all messages and clear the memo. Raises TypeError, ValueRefused."""
        made = [each if isinstance(each, Message) else message_of(each, 0) for each in messages]
        numbered = [msgspec.structs.replace(each, number=number) for number, each in enumerate(made, 1)]
        with self._lock:
            self._full, self._current = numbered, list(numbered)
            self._memory = count_messages(tuple(numbered), ContextMemory())
            self._loads += 1

    def clear_window(self) -> None:
        """Clear the window; the full history and the memo do not change."""
        with self._lock:
            self._current = []
            self._loads += 1

    # -- the window ---------------------------------------------------------------------------------------------------

    async def async_judge_resize(self, force: bool | str = False) -> Decision | None:
        """Return whether and how the window must be resized; `force` names the type, and true means lite.

        Raises TypeError if the policy returns no decision, ValueError if it returns an empty type.
        """
        if force:
            return Decision(force if isinstance(force, str) else "lite", FORCED)
        return await decide(self._book(), self._settings, self._handlers)

    async def async_resize(self, force: bool | str = False) -> Decision | None:
        """Resize the window if necessary, and return the decision.

        A call during another resize does nothing. If the memo cannot be made now (ModelFailed, or out of time), the
        window does not change, nothing is lost, and a later call tries again. Raises KeyError for a type without a
        handler, TypeError for invalid results of handlers, TimeoutError; then nothing has changed.
        """
        with self._lock:
            if self._resizing:
                return None
            self._resizing = True
        try:
            return await self._resize(force, asyncio.get_running_loop().time() + self._resize_s)
        finally:
            self._resizing = False

    def judge_resize(self, force: bool | str = False) -> Decision | None:
        """Do the same as `async_judge_resize`."""
        return _run_blocking(self.async_judge_resize(force))

    def resize(self, force: bool | str = False) -> Decision | None:
        """Do the same as `async_resize`."""
        return _run_blocking(self.async_resize(force))

    async def _resize(self, force: bool | str, ends_at: float) -> Decision | None:
        if not force and self._put_off():
            return None
        async with asyncio.timeout_at(ends_at):
            decision = await self.async_judge_resize(force)
        if decision is None:
            return None
        before, loads = self._book(), self._loads
        otherwise = remember_with(self._condense, self._settings.instructions)
        remember = _in_time(remember_by(self._handlers, self._settings, otherwise), ends_at)
        own = decision.type in self._handlers.resize  # a memo has the same limit, but retains its finished pieces
        async with asyncio.timeout_at(ends_at if own else None):
            after = await resize(before, decision, self._settings, remember, self._handlers)
        with self._lock:
            if self._loads != loads:  # another conversation has been loaded
                return None
            self._take(after, before)
        return None if after.memory.last_resize is before.memory.last_resize else decision

    def _put_off(self) -> bool:
        """Return whether the next attempt at a memo waits for another call."""
        with self._lock:
            waits = self._memory.retry_in
            if waits:
                self._memory = msgspec.structs.replace(self._memory, retry_in=waits - 1)
        return waits > 0

    def _book(self) -> Book:
        with self._lock:
            return Book(tuple(self._full), tuple(self._current), self._memory)

    def _take(self, after: Book, before: Book) -> None:
        """Apply the result of a resize, and append the messages that arrived during it; no memo covers them yet."""
        came = self._full[len(before.full) :]
        seen = self._memory.seen
        self._full = []
        for message in (*after.full, *came):  # a message added by a handler has no number yet
            seen += not message.number
            self._full.append(message if message.number else msgspec.structs.replace(message, number=seen))
        self._current = [*after.current, *came]
        now = self._memory
        self._memory = msgspec.structs.replace(after.memory, seen=seen, turns=now.turns, opener=now.opener)

    # -- settings and handlers ----------------------------------------------------------------------------------------

    def configure(
        self,
        mode: str | None = None,
        limit: Limit | Mapping[str, int | None] | None = None,
        every_n_turns: int | None = None,
    ) -> None:
        """Set the arguments that are not None. `mode` also enables or disables the memo. Raises SettingsInvalid."""
        settings = msgspec.to_builtins(self._settings)
        if mode is not None:
            settings["strategy"] = serialization.checked_mode(mode)
            settings["memo"] = {**settings.get("memo", {}), "enabled": mode == "memo"}
        if limit is not None:
            settings["limit"] = msgspec.to_builtins(limit)
        if every_n_turns is not None:
            settings["resize"] = {**settings.get("resize", {}), "every_n_turns": every_n_turns}
        self._settings = read_settings(settings)

    def use_lite(self, limit: Limit | Mapping[str, int | None] | None = None, every_n_turns: int | None = None) -> None:
        """Disable the memo."""
        self.configure("lite", limit, every_n_turns)

    def use_memo(self, limit: Limit | Mapping[str, int | None] | None = None, every_n_turns: int | None = None) -> None:
        """Enable the memo."""
        self.configure("memo", limit, every_n_turns)

    def set_policy_handler(self, handler: PolicyHandler | None) -> None:
        """Set the application's policy for when and how to resize the window; None: the settings decide."""
        self._handlers = msgspec.structs.replace(self._handlers, policy=handler)

    def set_resize_handlers(self, type: str, handler: ResizeHandler | None) -> None:
        """Set the application's handler for resizes of a type; None: the built-in one.

        Raises ValueError for an empty type.
        """
        if not type:
            raise ValueError("a handler needs the name of a type of resizes")
        others = {name: each for name, each in self._handlers.resize.items() if name != type}
        own = {} if handler is None else {type: handler}
        self._handlers = msgspec.structs.replace(self._handlers, resize={**others, **own})

    def set_memo_handler(self, handler: MemoHandler | None) -> None:
        """Set the application's function that makes the memo; None: the condenser makes it."""
        self._handlers = msgspec.structs.replace(self._handlers, memo=handler)

    def set_attachment_summary_handler(self, handler: AttachmentHandler | None) -> None:
        """Set the application's function that describes attachments; None: `attachments_of`."""
        self._handlers = msgspec.structs.replace(self._handlers, attachments=handler)

    # -- serialization ------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the conversation as JSON, without handlers, models and their keys."""
        return msgspec.json.encode(self._save()).decode()

    def to_yaml(self, key_path: str = "") -> str:
        """Return the same as YAML, under the keys of a path such as ``payload.session``."""
        return serialization.to_yaml(self._save(), key_path)

    def load_json(self, text: str | bytes | Mapping[str, object]) -> None:
        """Replace the conversation by a saved one with its settings, by default those of `lite`; the handlers do not
        change.

        Raises TypeError for data that is not a conversation, ValueError for invalid JSON; then nothing has changed.
        """
        self._load(serialization.from_json(text))

    def load_yaml(self, text: str | bytes, key_path: str = "") -> None:
        """Do the same from YAML. Raises KeyError if the path does not exist, TypeError, ValueError."""
        self._load(serialization.from_yaml(text, key_path))

    def _save(self) -> serialization.SavedConversation:
        return serialization.save(self.id, self._book(), self._settings)

    def _load(self, document: serialization.SavedConversation) -> None:
        book = serialization.restore(document)
        with self._lock:
            self.id = document.id or self.id
            self._settings = document.settings or ContextSettings(strategy="lite")
            self._full, self._current, self._memory = list(book.full), list(book.current), book.memory
            self._loads += 1


def _in_time(remember: Remember, ends_at: float) -> Remember:
    """Limit the time of memos; those that are finished in time are retained."""

    async def in_time(memo: Mapping[str, Value], messages: tuple[Message, ...]) -> Value:
        try:
            async with asyncio.timeout_at(ends_at):
                return await remember(memo, messages)
        except TimeoutError:
            raise ModelFailed("the memo was not made in time") from None

    return in_time


def _run_blocking(waiting: Coroutine[object, object, T]) -> T:
    """Return the result of a coroutine, run in a new event loop; in a new thread if a loop is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(waiting)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, waiting).result()

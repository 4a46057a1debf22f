"""A conversation by itself, without a server or a record: the session of seed 001.

It keeps everything that was said, the window of it that a model is to see, and a memo, and makes the window smaller by
the same rules as the strategies `lite` and `memo`. What a model is needed for is a condenser's or a handler's to do;
where there is neither, the memo is an extract.
"""

import asyncio
import threading
import uuid
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import msgspec

from runtime.context.accounts import Remember, remember_with
from runtime.context.extracts import Extracting
from runtime.context.memory import ContextMemory
from runtime.context.messages import message_of
from runtime.context.ports import Condenser
from runtime.context.resizing import (
    FORCED,
    AttachmentHandler,
    Book,
    Decision,
    Handlers,
    MemoHandler,
    PolicyHandler,
    ResizeHandler,
    decided,
    remember_by,
    resized,
    shown_memo,
)
from runtime.context.saving import Saved, from_json, from_yaml, restored, saved, to_json, to_yaml
from runtime.context.session_settings import checked_mode, session_settings
from runtime.context.strategies import counted
from runtime.events import Message
from runtime.ports import ModelFailed
from scripts.contexts import ContextSettings, Limit, read_settings
from scripts.values import Value

RESIZE_S = 300.0

T = TypeVar("T")


class Conversation:
    """What was said, the window of it, and the memo.

    Every method that waits has a twin with `async_` before its name; the plain one also works where a loop runs, which
    then stands still for so long. Messages may be appended at any time, also by other threads.
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
        """`settings` are by their names in seed 001 (`session.limit`, …), or a value. Raises SettingsInvalid."""
        self.id = id or uuid.uuid4().hex
        self._settings = ContextSettings(strategy="lite")
        if settings is not None:
            self._settings = settings if isinstance(settings, ContextSettings) else session_settings(settings)
        checked_mode(self._settings.strategy)
        self._handlers = handlers
        self._condense = condense or Extracting()
        self._resize_s = resize_s
        self._full: list[Message] = []
        self._current: list[Message] = []
        self._memory = ContextMemory()
        self._loads = 0
        self._lock = threading.Lock()  # held for moments, never while something is waited for
        self._resizing = False

    # -- what it holds ------------------------------------------------------------------------------------------------

    @property
    def full_chat_history(self) -> tuple[Message, ...]:
        """Everything that was said, oldest first."""
        return tuple(self._full)

    @property
    def current_chat_history(self) -> tuple[Message, ...]:
        """The window: the messages that a model is to see."""
        return tuple(self._current)

    @property
    def memo(self) -> dict[str, Value]:
        """What is kept in mind, and as `last_resize` the ``{type, turn, reason}`` of the last resize."""
        return shown_memo(self._memory)

    @property
    def turns(self) -> int:
        """How many messages of the assistant's there were."""
        return self._memory.turns

    @property
    def last_resize_turn(self) -> int:
        """How many those were at the last resize."""
        return self._memory.resized_at

    @property
    def memo_cursor(self) -> int:
        """The number of the last message that the memo was made with."""
        return self._memory.memo_to

    @property
    def settings(self) -> ContextSettings:
        """As they are now."""
        return self._settings

    def append_message(self, message: Message | Mapping[str, object]) -> Message:
        """Adds a message at the end, numbered. Raises TypeError, ValueRefused."""
        made = message if isinstance(message, Message) else message_of(message, 0)
        with self._lock:
            made = msgspec.structs.replace(made, number=self._memory.seen + 1)
            self._full.append(made)
            self._current.append(made)
            self._memory = counted((made,), self._memory)
        return made

    def replace(self, messages: Iterable[Message | Mapping[str, object]]) -> None:
        """Becomes a conversation of these messages, with nothing kept in mind. Raises TypeError, ValueRefused."""
        made = [each if isinstance(each, Message) else message_of(each, 0) for each in messages]
        numbered = [msgspec.structs.replace(each, number=number) for number, each in enumerate(made, 1)]
        with self._lock:
            self._full, self._current = numbered, list(numbered)
            self._memory = counted(tuple(numbered), ContextMemory())
            self._loads += 1

    def clear_window(self) -> None:
        """Shows a model nothing of what was said so far; all of it stays in the full history, and the memo as it is."""
        with self._lock:
            self._current = []
            self._loads += 1

    # -- the window ---------------------------------------------------------------------------------------------------

    async def async_judge_resize(self, force: bool | str = False) -> Decision | None:
        """Whether and how the window is to be made smaller; `force` names the type, and true stands for lite.

        Raises TypeError where the policy gives no decision.
        """
        if force:
            return Decision(force if isinstance(force, str) else "lite", FORCED)
        return await decided(self._book(), self._settings, self._handlers)

    async def async_resize(self, force: bool | str = False) -> Decision | None:
        """Makes the window smaller where that is due, and says what was decided.

        While one resize is under way, another does nothing. Where the memo cannot be had now (ModelFailed, or in time),
        the window stays, nothing is lost, and it is tried again in one of the next calls. Raises KeyError where nothing
        does a resize of the type, TypeError for what handlers give, TimeoutError; then nothing has changed.
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
        """As `async_judge_resize`."""
        return _waited(self.async_judge_resize(force))

    def resize(self, force: bool | str = False) -> Decision | None:
        """As `async_resize`."""
        return _waited(self.async_resize(force))

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
        own = decision.type in self._handlers.resize  # what the memo takes has the same end, but keeps what was done
        async with asyncio.timeout_at(ends_at if own else None):
            after = await resized(before, decision, self._settings, remember, self._handlers)
        with self._lock:
            if self._loads != loads:  # another conversation by now
                return None
            self._take(after, before)
        return None if after.memory.last_resize is before.memory.last_resize else decision

    def _put_off(self) -> bool:
        """Whether the next attempt at a memo has to wait for one more call."""
        with self._lock:
            waits = self._memory.retry_in
            if waits:
                self._memory = msgspec.structs.replace(self._memory, retry_in=waits - 1)
        return waits > 0

    def _book(self) -> Book:
        with self._lock:
            return Book(tuple(self._full), tuple(self._current), self._memory)

    def _take(self, after: Book, before: Book) -> None:
        """Goes over to what a resize left, with the messages that came meanwhile; they are in no memo yet."""
        came = self._full[len(before.full) :]
        seen = self._memory.seen
        self._full = []
        for message in (*after.full, *came):  # one that a handler brought has no number yet
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
        """Sets what is given. Choosing a mode also says whether a memo is kept. Raises SettingsInvalid."""
        given = msgspec.to_builtins(self._settings)
        if mode is not None:
            given["strategy"] = checked_mode(mode)
            given["memo"] = {**given.get("memo", {}), "enabled": mode == "memo"}
        if limit is not None:
            given["limit"] = msgspec.to_builtins(limit)
        if every_n_turns is not None:
            given["resize"] = {**given.get("resize", {}), "every_n_turns": every_n_turns}
        self._settings = read_settings(given)

    def use_lite(self, limit: Limit | Mapping[str, int | None] | None = None, every_n_turns: int | None = None) -> None:
        """Keeps no memo."""
        self.configure("lite", limit, every_n_turns)

    def use_memo(self, limit: Limit | Mapping[str, int | None] | None = None, every_n_turns: int | None = None) -> None:
        """Keeps a memo."""
        self.configure("memo", limit, every_n_turns)

    def set_policy_handler(self, handler: PolicyHandler | None) -> None:
        """Lets the application decide when and how the window is made smaller; None: the settings do."""
        self._handlers = msgspec.structs.replace(self._handlers, policy=handler)

    def set_resize_handlers(self, type: str, handler: ResizeHandler | None) -> None:
        """Lets the application do the resizes of a type; None: what is always there does."""
        others = {name: each for name, each in self._handlers.resize.items() if name != type}
        own = {} if handler is None else {type: handler}
        self._handlers = msgspec.structs.replace(self._handlers, resize={**others, **own})

    def set_memo_handler(self, handler: MemoHandler | None) -> None:
        """Lets the application make the memo; None: the condenser does."""
        self._handlers = msgspec.structs.replace(self._handlers, memo=handler)

    def set_attachment_summary_handler(self, handler: AttachmentHandler | None) -> None:
        """Lets the application tell what is attached to messages; None: `attachments_of` does."""
        self._handlers = msgspec.structs.replace(self._handlers, attachments=handler)

    # -- written down -------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Everything it takes to go on, as JSON: no handler, and nothing of a model or its keys."""
        return to_json(self._saved())

    def to_yaml(self, key_path: str = "") -> str:
        """The same as YAML, under the keys of a path such as ``payload.session``."""
        return to_yaml(self._saved(), key_path)

    def load_json(self, text: str | bytes | Mapping[str, object]) -> None:
        """Becomes what was written down, whatever it was before; the handlers stay.

        Raises TypeError for what is no conversation, ValueError for what is no JSON; then nothing has changed.
        """
        self._load(from_json(text))

    def load_yaml(self, text: str | bytes, key_path: str = "") -> None:
        """The same from YAML. Raises KeyError where the path leads nowhere, TypeError, ValueError."""
        self._load(from_yaml(text, key_path))

    def _saved(self) -> Saved:
        return saved(self.id, self._book(), self._settings)

    def _load(self, given: Saved) -> None:
        book = restored(given)
        with self._lock:
            self.id = given.id or self.id
            self._settings = given.settings or ContextSettings(strategy="lite")
            self._full, self._current, self._memory = list(book.full), list(book.current), book.memory
            self._loads += 1


def _in_time(remember: Remember, ends_at: float) -> Remember:
    """Makes memos until a time, so that those which are there by then are kept."""

    async def in_time(memo: Mapping[str, Value], messages: tuple[Message, ...]) -> Value:
        try:
            async with asyncio.timeout_at(ends_at):
                return await remember(memo, messages)
        except TimeoutError:
            raise ModelFailed("the memo was not made in time") from None

    return in_time


def _waited(waiting: Coroutine[object, object, T]) -> T:
    """What a coroutine gives, in a loop of its own; within a thread of its own where one runs here already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(waiting)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, waiting).result()

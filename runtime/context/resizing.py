"""Whether a window is too long, and how it is made smaller: the policy of seed 001, and its two ways, lite and deep.

Lite keeps the newest messages that the limits allow. Deep goes down to a part of the limit in characters, so that the
next messages do not make the window too long at once. Where a memo is kept, no message leaves the window before it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from runtime.context.accounts import Remember, remembered
from runtime.context.attachments import attachments_of
from runtime.context.memory import ContextMemory, LastResize
from runtime.context.messages import adopted
from runtime.context.windows import chars_in, fitting, group_start, head_of
from runtime.events import Message
from scripts.contexts import ContextSettings
from scripts.values import Value

LOW_WATER = 0.6  # of the limit in characters, that a deep resize leaves

TOO_LONG = "max_messages_text_length"
TOO_MANY = "max_keep_messages_count"
EVERY_N_TURNS = "every_n_turns"
FORCED = "force"
LAST_RESIZE = "last_resize"

Messages: TypeAlias = tuple[Message, ...]
Memo: TypeAlias = Mapping[str, Value]


class Decision(Struct, frozen=True):
    """A window is to be made smaller: in which way, and why."""

    type: str
    reason: str = ""


class Book(Struct, frozen=True):
    """A conversation as it is resized: all of it, its window, and what is kept beside."""

    full: Messages
    current: Messages
    memory: ContextMemory


# Handlers may be async or not. What they give is checked where it is used.
PolicyHandler: TypeAlias = Callable[[Messages, Messages, Memo, ContextSettings], object]
ResizeHandler: TypeAlias = Callable[[Messages, Messages, Memo, ContextSettings], object]
MemoHandler: TypeAlias = Callable[[Memo, Messages, tuple[Memo, ...], ContextSettings], object]
AttachmentHandler: TypeAlias = Callable[[Message], object]


class Handlers(Struct, frozen=True):
    """What an application does in its own way; it goes before any setting.

    `policy(full, current, memo, settings)` gives None, the name of a type, ``{type, reason}`` or a Decision.
    `resize[type](full, current, memo, settings)` gives the three as they are to be.
    `memo(memo, messages, attachments, settings)` gives the new memo. `attachments(message)` gives a list of records.
    """

    policy: PolicyHandler | None = None
    resize: Mapping[str, ResizeHandler] = {}
    memo: MemoHandler | None = None
    attachments: AttachmentHandler | None = None


async def settled(given: object) -> object:
    """What a handler gave, whether it is async or not."""
    return await given if inspect.isawaitable(given) else given


# -- the policy -------------------------------------------------------------------------------------------------------


async def decided(book: Book, settings: ContextSettings, handlers: Handlers) -> Decision | None:
    """Whether and how the window is to be made smaller. Raises TypeError where a handler gives none of that."""
    if handlers.policy is None:
        return judged(book.current, book.memory, settings)
    return decision_of(await settled(handlers.policy(book.full, book.current, shown_memo(book.memory), settings)))


def judged(window: Messages, memory: ContextMemory, settings: ContextSettings) -> Decision | None:
    """Characters first, then messages, then turns.

    A window that cannot be made any smaller, for one message in it that is too long, is not judged anew before another
    message comes.
    """
    said = window[len(head_of(window)) :]
    if newest_in(said) > memory.resized_to:
        if settings.chars_max and sum(map(chars_in, said)) >= settings.chars_max:
            return Decision("deep", TOO_LONG)
        if settings.messages_max and len(window) > settings.messages_max:
            return Decision("lite", TOO_MANY)
    turns = settings.resize.every_n_turns
    if turns and memory.turns - memory.resized_at >= turns:
        return Decision("lite", EVERY_N_TURNS)
    return None


def decision_of(given: object) -> Decision | None:
    """A decision from what a policy gave. Raises TypeError."""
    match given:
        case None | Decision():
            return given
        case str():
            return Decision(given)
        case {"type": str(kind), **others}:
            reason = others.get("reason", "")
            return Decision(kind, reason if isinstance(reason, str) else "")
        case _:
            raise TypeError(f"a policy gives None, the name of a type or a record with one, not {given!r:.80}")


# -- the resize -------------------------------------------------------------------------------------------------------


async def resized(
    book: Book, decision: Decision, settings: ContextSettings, remember: Remember, handlers: Handlers
) -> Book:
    """The conversation after a resize; without one where the memo could not be made, which is tried again later.

    Raises KeyError where nothing does a resize of this type, TypeError where its handler gives no three parts.
    """
    handler = handlers.resize.get(decision.type)
    if handler is not None:
        given = handler(book.full, book.current, shown_memo(book.memory), settings)
        full, current, memo = _three(await settled(given))
        whole = adopted(full, book.full)
        memory = msgspec.structs.replace(book.memory, memo=memo_without_note(memo))
        return _noted(Book(whole, adopted(current, whole), memory), decision)
    if decision.type not in ("lite", "deep"):
        raise KeyError(f"nothing does a resize of the type {decision.type!r}")
    kept = pruned(book.current, settings, deep=decision.type == "deep")
    memory = book.memory
    pending = [message for message in book.full if message.number > memory.memo_to]
    staying = {message.number for message in kept}
    leaving = [message for message in book.current if message.number not in staying]
    # Where there are only too many messages, those that leave are in the memo already, most times.
    due = decision.reason != TOO_MANY or newest_in(leaving) > memory.memo_to
    if settings.has_memo and pending and due:
        memory = await remembered(memory, pending, remember, settings.chars_max)
        if memory.failed:
            return Book(book.full, book.current, memory)
    return _noted(Book(book.full, kept, memory), decision)


def pruned(window: Messages, settings: ContextSettings, *, deep: bool) -> Messages:
    """The newest messages that the limits allow; system messages at the beginning stay.

    The newest stays in any case; where it alone is longer than the window may be, as much of it as may be.
    """
    head = head_of(window)
    said = window[len(head) :]
    if settings.messages_max:
        said = said[-max(settings.messages_max - len(head), 1) :]
    if settings.chars_max:
        most = int(settings.chars_max * LOW_WATER) if deep else settings.chars_max - 1
        said = said[fitting(said, most, chars_in) :]
    if len(said) < len(window) - len(head):
        results = next((place for place, each in enumerate(said) if each.role != "tool"), None)
        said = window[group_start(window, len(window) - len(said)) :] if results is None else said[results:]
    if len(said) == 1 and settings.chars_max and len(said[0].content) > settings.chars_max:
        said = (msgspec.structs.replace(said[0], content=said[0].content[: settings.chars_max]),)
    return (*head, *said)


def remember_by(handlers: Handlers, settings: ContextSettings, otherwise: Remember) -> Remember:
    """How the memo is made: by the application's handler, if there is one."""
    handler = handlers.memo
    if handler is None:
        return otherwise

    async def remember(memo: Memo, messages: Messages) -> Value:
        found = [each for message in messages for each in await _attached(handlers.attachments, message)]
        made: object = await settled(handler(memo, messages, tuple(found), settings))
        if not isinstance(made, dict):
            raise TypeError(f"a memo handler gives a record, not {type(made).__name__}")
        return made

    return remember


async def _attached(handler: AttachmentHandler | None, message: Message) -> Sequence[Memo]:
    if handler is None:
        return attachments_of(message)
    found: object = await settled(handler(message))
    if not isinstance(found, list | tuple) or not all(isinstance(each, dict) for each in found):
        raise TypeError("an attachment handler gives a list of records")
    return found


def shown_memo(memory: ContextMemory) -> dict[str, Value]:
    """The memo with a note of the last resize, as `last_resize`."""
    noted = {} if memory.last_resize is None else {LAST_RESIZE: msgspec.to_builtins(memory.last_resize)}
    return {**memory.memo, **noted}


def memo_without_note(given: object) -> dict[str, Value]:
    """The memo in a record that may hold such a note. Raises TypeError."""
    if not isinstance(given, Mapping):
        raise TypeError(f"a memo is a record, not {type(given).__name__}")
    return {name: value for name, value in given.items() if name != LAST_RESIZE}


def newest_in(messages: Sequence[Message]) -> int:
    """The highest number; 0 where there is none."""
    return max((message.number for message in messages), default=0)


def _noted(book: Book, decision: Decision) -> Book:
    memory = book.memory
    note = LastResize(decision.type, memory.turns, decision.reason)
    to = max(newest_in(book.full), memory.resized_to)
    memory = msgspec.structs.replace(memory, resized_at=memory.turns, resized_to=to, last_resize=note)
    return Book(book.full, book.current, memory)


def _three(given: object) -> tuple[object, object, object]:
    if not isinstance(given, list | tuple) or len(given) != 3:
        raise TypeError("a resize handler gives three things: the whole conversation, its window and the memo")
    return given[0], given[1], given[2]

"""Resizing of windows: the policy of Agently, and its two types, lite and deep.

Lite retains the newest messages that the limits allow. Deep reduces the window to a part of the character limit, so
that the next messages do not exceed it at once. With a memo, no message leaves the window before the memo covers it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from runtime.context.messages import PARTS, adopt, attachments_of, is_text
from runtime.context.summaries import Remember, add_memo
from runtime.context.windows import chars_in, fitting_start, group_start, head_of
from runtime.state.events import Message
from runtime.state.state import ContextMemory, LastResize
from scripts.expressions.values import Value
from scripts.model.context_strategies import ContextSettings

LOW_WATER = 0.6  # the part of the character limit that a deep resize leaves

TOO_LONG = "max_messages_text_length"
TOO_MANY = "max_keep_messages_count"
EVERY_N_TURNS = "every_n_turns"
FORCED = "force"
LAST_RESIZE = "last_resize"

Messages: TypeAlias = tuple[Message, ...]
Memo: TypeAlias = Mapping[str, Value]


class Decision(Struct, frozen=True):
    """A decision to resize a window: the type, and the reason; empty if a policy handler gives none."""

    type: str
    reason: str = ""


class Book(Struct, frozen=True):
    """A conversation for a resize: all messages, the window, and the strategy's data."""

    full: Messages
    current: Messages
    memory: ContextMemory


# Handlers may be async. Their results are validated where they are used.
PolicyHandler: TypeAlias = Callable[[Messages, Messages, Memo, ContextSettings], object]
ResizeHandler: TypeAlias = Callable[[Messages, Messages, Memo, ContextSettings], object]
MemoHandler: TypeAlias = Callable[[Memo, Messages, tuple[Memo, ...], ContextSettings], object]
AttachmentHandler: TypeAlias = Callable[[Message], object]


class Handlers(Struct, frozen=True):
    """Functions of an application that replace built-in behaviour; they take precedence over settings.

    `policy(full, current, memo, settings)` returns None, the name of a type, ``{type, reason}`` or a Decision.
    `resize[type](full, current, memo, settings)` returns new values of the first three.
    `memo(memo, messages, attachments, settings)` returns the new memo. `attachments(message)` returns a list of
    records.
    """

    policy: PolicyHandler | None = None
    """Decides when and how the window is resized; None: the settings do."""
    resize: Mapping[str, ResizeHandler] = {}
    """Resizes the window, by type; the types `lite` and `deep` have built-in ones."""
    memo: MemoHandler | None = None
    """Makes the memo; None: the model, or an extract."""
    attachments: AttachmentHandler | None = None
    """Describes the attachments of a message for the memo; None: by type, address and known properties."""


async def await_result(result: object) -> object:
    """Return a handler's result, which may be awaitable."""
    return await result if inspect.isawaitable(result) else result


# -- the policy -------------------------------------------------------------------------------------------------------


async def decide(book: Book, settings: ContextSettings, handlers: Handlers) -> Decision | None:
    """Return whether and how the window must be resized.

    Raises TypeError or ValueError for an invalid result of a handler.
    """
    if handlers.policy is None:
        return judge(book.current, book.memory, settings)
    return decision_of(await await_result(handlers.policy(book.full, book.current, shown_memo(book.memory), settings)))


def judge(window: Messages, memory: ContextMemory, settings: ContextSettings) -> Decision | None:
    """Return the decision by characters, then messages, then turns.

    A window that cannot become smaller, because one message in it is too long, is not judged again until another
    message arrives.
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


def decision_of(result: object) -> Decision | None:
    """Return the decision in a policy's result. Raises TypeError, and ValueError for an empty type."""
    match result:
        case "" | Decision(type="") | {"type": ""}:
            raise ValueError("a policy returns the name of a type, not an empty text")
        case None | Decision():
            return result
        case str():
            return Decision(result)
        case {"type": str(kind), **others}:
            reason = others.get("reason", "")
            return Decision(kind, reason if isinstance(reason, str) else "")
        case _:
            raise TypeError(f"a policy returns None, the name of a type or a record with one, not {result!r:.80}")


# -- the resize -------------------------------------------------------------------------------------------------------


async def resize(
    book: Book, decision: Decision, settings: ContextSettings, remember: Remember, handlers: Handlers
) -> Book:
    """Return the conversation after a resize, or unchanged if the memo could not be made, which is tried again later.

    Raises KeyError for a type without a handler, TypeError if the handler does not return three parts.
    """
    handler = handlers.resize.get(decision.type)
    if handler is not None:
        result = handler(book.full, book.current, shown_memo(book.memory), settings)
        full, current, memo = _three(await await_result(result))
        whole = adopt(full, book.full)
        memory = msgspec.structs.replace(book.memory, memo=memo_without_note(memo))
        return _note(Book(whole, adopt(current, whole), memory), decision)
    if decision.type not in ("lite", "deep"):
        raise KeyError(f"there is no handler for a resize of the type {decision.type!r}")
    messages_left = prune(book.current, settings, deep=decision.type == "deep")
    memory = book.memory
    pending = [message for message in book.full if message.number > memory.memo_to]
    staying = {message.number for message in messages_left}
    leaving = [message for message in book.current if message.number not in staying]
    # If only the number of messages is exceeded, the memo usually covers the leaving ones already.
    due = decision.reason != TOO_MANY or newest_in(leaving) > memory.memo_to
    if settings.has_memo and pending and due:
        memory = await add_memo(memory, pending, remember, settings.chars_max)
        if memory.failed:
            return Book(book.full, book.current, memory)
    return _note(Book(book.full, messages_left, memory), decision)


def prune(window: Messages, settings: ContextSettings, *, deep: bool) -> Messages:
    """Return the newest messages that the limits allow; system messages at the beginning remain.

    The newest message always remains; if it alone exceeds the character limit, it is cut.
    """
    head = head_of(window)
    said = window[len(head) :]
    if settings.messages_max:
        said = said[-max(settings.messages_max - len(head), 1) :]
    if settings.chars_max:
        most = int(settings.chars_max * LOW_WATER) if deep else settings.chars_max - 1
        said = said[fitting_start(said, most, chars_in) :]
    if len(said) < len(window) - len(head):
        places = [place for place, each in enumerate(said) if each.role != "tool"]
        begin = next((place for place in places if said[place].role != "system"), places[0] if places else None)
        said = window[group_start(window, len(window) - len(said)) :] if begin is None else said[begin:]
    if len(said) == 1 and settings.chars_max and len(said[0].content) > settings.chars_max:
        said = (_cut(said[0], settings.chars_max),)
    return (*head, *said)


def _cut(message: Message, chars_max: int) -> Message:
    """Return the beginning of a message, with its attachments."""
    text = message.content[:chars_max]
    parts = message.metadata.get(PARTS)
    if not isinstance(parts, list):
        return msgspec.structs.replace(message, content=text)
    others = [part for part in parts if isinstance(part, dict) and not is_text(part)]
    metadata = {**message.metadata, PARTS: [{"type": "text", "text": text}, *others]}
    return msgspec.structs.replace(message, content=text, metadata=metadata)


def remember_by(handlers: Handlers, settings: ContextSettings, otherwise: Remember) -> Remember:
    """Return the function that makes the memo: the application's handler, if there is one."""
    handler = handlers.memo
    if handler is None:
        return otherwise

    async def remember(memo: Memo, messages: Messages) -> Value:
        found = [each for message in messages for each in await _attach(handlers.attachments, message)]
        made: object = await await_result(handler(memo, messages, tuple(found), settings))
        if not isinstance(made, dict):
            raise TypeError(f"a memo handler returns a record, not {type(made).__name__}")
        return made

    return remember


async def _attach(handler: AttachmentHandler | None, message: Message) -> Sequence[Memo]:
    if handler is None:
        return attachments_of(message)
    found: object = await await_result(handler(message))
    if not isinstance(found, list | tuple) or not all(isinstance(each, dict) for each in found):
        raise TypeError("an attachment handler returns a list of records")
    return found


def shown_memo(memory: ContextMemory) -> dict[str, Value]:
    """Return the memo with the last resize as `last_resize`."""
    noted = {} if memory.last_resize is None else {LAST_RESIZE: msgspec.to_builtins(memory.last_resize)}
    return {**memory.memo, **noted}


def memo_without_note(result: object) -> dict[str, Value]:
    """Return the memo without `last_resize`. Raises TypeError."""
    if not isinstance(result, Mapping):
        raise TypeError(f"a memo is a record, not {type(result).__name__}")
    return {name: value for name, value in result.items() if name != LAST_RESIZE}


def newest_in(messages: Sequence[Message]) -> int:
    """Return the highest message number, 0 without messages."""
    return max((message.number for message in messages), default=0)


def _note(book: Book, decision: Decision) -> Book:
    memory = book.memory
    note = LastResize(decision.type, memory.turns, decision.reason)
    to = max(newest_in(book.full), memory.resized_to)
    memory = msgspec.structs.replace(memory, resized_at=memory.turns, resized_to=to, last_resize=note)
    return Book(book.full, book.current, memory)


def _three(result: object) -> tuple[object, object, object]:
    if not isinstance(result, list | tuple) or len(result) != 3:
        raise TypeError("a resize handler returns three things: the whole conversation, its window and the memo")
    return result[0], result[1], result[2]

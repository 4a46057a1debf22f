"""The built-in context strategies: what each shows of a conversation, and what it stores.

They are those of Agently and Synaptic. None changes the transcript; a summary or memo is derived from it and stored
beside it.
"""

from collections.abc import Sequence

import msgspec

from runtime.context.ports import Condenser, View
from runtime.context.resize import Book, Handlers, decide, newest_in, remember_by, resize
from runtime.context.summaries import remember_with, summarise
from runtime.context.windows import (
    chars_in,
    fitting_start,
    group_start,
    head_of,
    legal_start,
    newest_exchanges,
    opener_of,
    tokens_in,
)
from runtime.state.events import Message
from runtime.state.state import ContextMemory, Opener
from scripts.model.context_strategies import MESSAGES_MAX, ContextSettings

BUFFER_MESSAGES_MAX = 200
"""The limit of a buffer, which contains everything a model can use; conversations may have thousands of messages."""

LATE_MESSAGES_MAX = 200
"""The number of loaded messages that no summary covers yet: while none can be made, a conversation continues."""

TOKENS_LEAST = 5  # minimum tokens of a message
LOW_WATER = 0.6  # the part of a summary buffer's tokens that is not summarised when it is too long


class _WithoutSummary:
    """A strategy that stores nothing about a conversation except its opener."""

    messages_max: int

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """Return the memory with the opener of the conversation."""
        return _with_opener(messages, memory, self.messages_max)


class Buffer(_WithoutSummary):
    """Shows all messages, up to a limit."""

    messages_max = BUFFER_MESSAGES_MAX

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """Return all messages."""
        head, said = _parts(messages, memory)
        return View((*head, *said[legal_start(said, 0, _opener(messages, memory, self.messages_max)) :]))


class Window(_WithoutSummary):
    """Shows the last k exchanges, and a message without an answer yet."""

    def __init__(self, k: int) -> None:
        self._k = k
        self.messages_max = min(6 * k + 20, MESSAGES_MAX)

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """Return whole exchanges."""
        head, said = _parts(messages, memory)
        return View((*head, *said[newest_exchanges(said, self._k, _opener(messages, memory, self.messages_max)) :]))


class TokenBuffer(_WithoutSummary):
    """Shows the last exchanges that fit into a number of tokens, and always the newest message."""

    def __init__(self, tokens_max: int) -> None:
        self._tokens_max = tokens_max
        self.messages_max = min(tokens_max // TOKENS_LEAST + 1, MESSAGES_MAX)

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """Return whole exchanges, or the end of the newest one if it alone does not fit."""
        head, said = _parts(messages, memory)
        left = self._tokens_max - sum(map(tokens_in, head))
        opener = _opener(messages, memory, self.messages_max)
        return View((*head, *said[legal_start(said, fitting_start(said, left, tokens_in), opener) :]))


class _WithSummary:
    """A strategy that shows a summary and the messages after it."""

    def __init__(self, messages_max: int, instruct: str) -> None:
        self.messages_max = messages_max + LATE_MESSAGES_MAX
        self._instruct = instruct

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """Return the summary, and every message that it does not cover."""
        head, said = _parts(messages, memory)
        pending = _pending(messages, memory) or said[group_start(said, len(said) - 1) :]
        begin = 0 if memory.summary else legal_start(pending, 0, _opener(messages, memory, self.messages_max))
        return View((*head, *pending[begin:]), summary=memory.summary)

    async def _extend(self, memory: ContextMemory, older: Sequence[Message], condense: Condenser) -> ContextMemory:
        if memory.retry_in:
            return msgspec.structs.replace(memory, retry_in=memory.retry_in - 1)
        return await summarise(memory, older, condense, self._instruct) if older else memory


class Summary(_WithSummary):
    """Shows a summary and the last messages: after each turn, older messages are summarised."""

    def __init__(self, keep: int, instruct: str = "") -> None:
        super().__init__(keep, instruct)
        self._keep = keep

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """Return the memory with a summary of all but the last messages."""
        pending = _pending(messages, memory)
        begin = group_start(pending, max(len(pending) - self._keep, 0))
        return await self._extend(memory, pending[:begin], condense)


class SummaryBuffer(_WithSummary):
    """Shows a summary and the messages after it, which are summarised when they exceed a number of tokens."""

    def __init__(self, tokens_max: int, instruct: str = "") -> None:
        super().__init__(min(tokens_max // TOKENS_LEAST, MESSAGES_MAX), instruct)
        self._tokens_max = tokens_max

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """Return the memory; if there were too many tokens, its summary includes the older messages."""
        pending = _pending(messages, memory)
        if sum(map(tokens_in, pending)) <= self._tokens_max:
            return await self._extend(memory, (), condense)
        begin = group_start(pending, fitting_start(pending, int(self._tokens_max * LOW_WATER), tokens_in))
        return await self._extend(memory, pending[:begin], condense)


class Resizing:
    """Shows a window that a policy resizes (`lite`), and a memo of the whole conversation (`memo`)."""

    def __init__(self, settings: ContextSettings, handlers: Handlers = Handlers()) -> None:  # noqa: B008  (frozen)
        self._settings = settings
        self._handlers = handlers
        by_chars = settings.chars_max // (2 * TOKENS_LEAST) if settings.chars_max else BUFFER_MESSAGES_MAX
        most = settings.messages_max or min(by_chars, BUFFER_MESSAGES_MAX)
        self.messages_max = min(most, MESSAGES_MAX) + (LATE_MESSAGES_MAX if settings.has_memo else 20)

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """Return the window within its limits, even if it could not be resized yet, and the memo."""
        head, said = _parts(messages, memory)
        begin = 0
        if self._settings.messages_max:
            begin = max(len(said) - max(self._settings.messages_max - len(head), 1), 0)
        if self._settings.chars_max:
            begin += fitting_start(said[begin:], self._settings.chars_max, chars_in)
        begin = legal_start(said, begin, _opener(messages, memory, self.messages_max))
        return View((*head, *said[begin:]), memo=memory.memo if self._settings.has_memo else {})

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """Return the memory with the start of the window, and a memo of the messages before it.

        The whole conversation that a resize handler returns is ignored, and so are new messages in its window: the
        transcript in the database does not change.
        """
        memory = count_messages(messages, memory, self.messages_max)
        if memory.retry_in:
            return msgspec.structs.replace(memory, retry_in=memory.retry_in - 1)
        head, said = _parts(messages, memory)
        book = Book(tuple(messages), (*head, *said), memory)
        decision = await decide(book, self._settings, self._handlers)
        if decision is None:
            return memory
        remember = remember_by(self._handlers, self._settings, remember_with(condense, self._settings.instructions))
        book = await resize(book, decision, self._settings, remember, self._handlers)
        numbers = [message.number for message in book.current[len(head_of(book.current)) :] if message.number]
        after = min(numbers) - 1 if numbers else newest_in(messages)
        return msgspec.structs.replace(book.memory, after=max(after, memory.after))


def count_messages(
    messages: Sequence[Message], memory: ContextMemory, messages_max: int | None = None
) -> ContextMemory:
    """Return the memory with the new messages counted; `messages_max` is as in `_opener`, None if all are loaded."""
    since = [message for message in messages if message.number > memory.seen]
    turns = sum(message.role == "assistant" for message in since)
    seen = max(newest_in(since), memory.seen)
    opened = _with_opener(messages, memory, messages_max)
    return msgspec.structs.replace(opened, seen=seen, turns=memory.turns + turns)


def _parts(messages: Sequence[Message], memory: ContextMemory) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the system messages that remain first, and the others of the window."""
    head = head_of(messages)
    return head, tuple(message for message in messages[len(head) :] if message.number > memory.after)


def _opener(messages: Sequence[Message], memory: ContextMemory, messages_max: int | None) -> Opener:
    """Return the role that opens each exchange: the user, if as many messages are loaded as a strategy reads and the
    beginning of the conversation is not among them.
    """
    if memory.opener is None and messages_max is not None and len(messages) >= messages_max:
        head = head_of(messages)
        if len(messages) > len(head) and messages[len(head)].number > len(head) + 1:
            return "user"
    return opener_of(messages, memory)


def _with_opener(messages: Sequence[Message], memory: ContextMemory, messages_max: int | None) -> ContextMemory:
    if memory.opener is not None or not any(message.role in ("user", "assistant") for message in messages):
        return memory
    return msgspec.structs.replace(memory, opener=_opener(messages, memory, messages_max))


def _pending(messages: Sequence[Message], memory: ContextMemory) -> tuple[Message, ...]:
    """Return the messages that no summary covers."""
    _, said = _parts(messages, memory)
    return tuple(message for message in said if message.number > memory.summary_to)

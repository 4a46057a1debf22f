"""The strategies that are always there: what each shows of a conversation, and what it keeps of it.

They follow seeds 001 and 003. None changes the transcript; a summary or memo is made of it, and kept beside it.
"""

from collections.abc import Sequence

import msgspec

from runtime.context.accounts import remember_with, summed_up
from runtime.context.memory import ContextMemory
from runtime.context.ports import Condenser, Strategy, View
from runtime.context.resizing import Book, Handlers, decided, newest_in, remember_by, resized
from runtime.context.windows import (
    chars_in,
    fitting,
    group_start,
    head_of,
    legal_start,
    newest_exchanges,
    opener_of,
    tokens_in,
)
from runtime.events import Message
from scripts.contexts import MESSAGES_MAX, ContextSettings

BUFFER_MESSAGES_MAX = 200
"""Of a buffer, which keeps everything a model can make use of; the conversations of thousands are at hand."""

LATE_MESSAGES_MAX = 200
"""Messages at hand that no summary tells of yet: as long as none can be had, a conversation goes on."""

TOKENS_LEAST = 5  # that a message takes
LOW_WATER = 0.6  # of the tokens of a summary buffer, that are left as they are when it was too long


class Buffer:
    """Shows everything, up to a bound."""

    messages_max = BUFFER_MESSAGES_MAX

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """All the messages."""
        head, said = _parts(messages, memory)
        return View((*head, *said[legal_start(said, 0, opener_of(messages, memory)) :]))

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """Who opened the conversation."""
        return _opened(messages, memory)


class Window:
    """Shows the last k exchanges, and a message that waits for its answer."""

    def __init__(self, k: int) -> None:
        self._k = k
        self.messages_max = min(6 * k + 20, MESSAGES_MAX)

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """Whole exchanges."""
        head, said = _parts(messages, memory)
        return View((*head, *said[newest_exchanges(said, self._k, opener_of(messages, memory)) :]))

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """Who opened the conversation."""
        return _opened(messages, memory)


class TokenBuffer:
    """Shows the last exchanges that fit in so many tokens, and the newest message whatever it takes."""

    def __init__(self, tokens_max: int) -> None:
        self._tokens_max = tokens_max
        self.messages_max = min(tokens_max // TOKENS_LEAST + 1, MESSAGES_MAX)

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """Whole exchanges, or the end of the newest where it alone does not fit."""
        head, said = _parts(messages, memory)
        left = self._tokens_max - sum(map(tokens_in, head))
        return View((*head, *said[legal_start(said, fitting(said, left, tokens_in), opener_of(messages, memory)) :]))

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """Who opened the conversation."""
        return _opened(messages, memory)


class Summary:
    """Shows a summary and the last messages: what comes to be older is summed up after each turn."""

    def __init__(self, keep: int, instruct: str = "") -> None:
        self._keep = keep
        self._instruct = instruct
        self.messages_max = keep + LATE_MESSAGES_MAX

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """The summary, and every message that it does not tell of."""
        return _with_summary(messages, memory)

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """The summary, with the messages before the last ones in it."""
        pending = _pending(messages, memory)
        begin = group_start(pending, max(len(pending) - self._keep, 0))
        return await _extended(memory, pending[:begin], condense, self._instruct)


class SummaryBuffer:
    """Shows a summary and the messages since, which are as they are until they take more than so many tokens."""

    def __init__(self, tokens_max: int, instruct: str = "") -> None:
        self._tokens_max = tokens_max
        self._instruct = instruct
        self.messages_max = min(tokens_max // TOKENS_LEAST, MESSAGES_MAX) + LATE_MESSAGES_MAX

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """The summary, and every message that it does not tell of."""
        return _with_summary(messages, memory)

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """The summary, with the older messages in it where there were too many tokens."""
        pending = _pending(messages, memory)
        if sum(map(tokens_in, pending)) <= self._tokens_max:
            return await _extended(memory, (), condense, self._instruct)
        begin = group_start(pending, fitting(pending, int(self._tokens_max * LOW_WATER), tokens_in))
        return await _extended(memory, pending[:begin], condense, self._instruct)


class Resizing:
    """Shows a window that is made smaller by a policy (`lite`), and what is kept in mind of it all (`memo`)."""

    def __init__(self, settings: ContextSettings, handlers: Handlers = Handlers()) -> None:  # noqa: B008  (frozen)
        self._settings = settings
        self._handlers = handlers
        by_chars = settings.chars_max // (2 * TOKENS_LEAST) if settings.chars_max else BUFFER_MESSAGES_MAX
        most = settings.messages_max or min(by_chars, BUFFER_MESSAGES_MAX)
        self.messages_max = min(most, MESSAGES_MAX) + (LATE_MESSAGES_MAX if settings.has_memo else 20)

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """The window within its limits, whether it could be made smaller already or not, and the memo."""
        head, said = _parts(messages, memory)
        begin = 0
        if self._settings.messages_max:
            begin = max(len(said) - max(self._settings.messages_max - len(head), 1), 0)
        if self._settings.chars_max:
            begin += fitting(said[begin:], self._settings.chars_max, chars_in)
        begin = legal_start(said, begin, opener_of(messages, memory))
        return View((*head, *said[begin:]), memo=memory.memo if self._settings.has_memo else {})

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """Where the window begins, and the memo with what was said before it.

        What a handler for a resize gives as the whole conversation changes nothing, nor do messages of its own in the
        window: the conversation is the record's.
        """
        memory = counted(messages, memory)
        if memory.retry_in:
            return msgspec.structs.replace(memory, retry_in=memory.retry_in - 1)
        head, said = _parts(messages, memory)
        book = Book(tuple(messages), (*head, *said), memory)
        decision = await decided(book, self._settings, self._handlers)
        if decision is None:
            return memory
        remember = remember_by(self._handlers, self._settings, remember_with(condense, self._settings.instructions))
        book = await resized(book, decision, self._settings, remember, self._handlers)
        kept = [message.number for message in book.current[len(head_of(book.current)) :] if message.number]
        after = min(kept) - 1 if kept else newest_in(messages)
        return msgspec.structs.replace(book.memory, after=max(after, memory.after))


class Chain:
    """Several strategies, from left to right: each sees what the one before it shows.

    All keep what they keep in one memory, so only one of them may make a summary, and one a memo.
    """

    def __init__(self, *strategies: Strategy) -> None:
        if not strategies:
            raise ValueError("a chain is made of strategies; there is none")
        self._strategies = strategies
        self.messages_max = max(strategy.messages_max for strategy in strategies)

    def view(self, messages: Sequence[Message], memory: ContextMemory) -> View:
        """What the last of them shows, with the summary and memo of any."""
        view = View(tuple(messages))
        for strategy in self._strategies:
            next = strategy.view(view.messages, memory)
            view = View(next.messages, next.summary or view.summary, next.memo or view.memo)
        return view

    async def follow(self, messages: Sequence[Message], memory: ContextMemory, condense: Condenser) -> ContextMemory:
        """What each of them keeps."""
        for strategy in self._strategies:
            memory = await strategy.follow(messages, memory, condense)
        return memory


def counted(messages: Sequence[Message], memory: ContextMemory) -> ContextMemory:
    """The memory, with the messages counted that came since."""
    since = [message for message in messages if message.number > memory.seen]
    turns = sum(message.role == "assistant" for message in since)
    seen = max(newest_in(since), memory.seen)
    return msgspec.structs.replace(_opened(messages, memory), seen=seen, turns=memory.turns + turns)


def _parts(messages: Sequence[Message], memory: ContextMemory) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The system messages that stay first, and the others of the window."""
    head = head_of(messages)
    return head, tuple(message for message in messages[len(head) :] if message.number > memory.after)


def _opened(messages: Sequence[Message], memory: ContextMemory) -> ContextMemory:
    if memory.opener is not None or not any(message.role in ("user", "assistant") for message in messages):
        return memory
    return msgspec.structs.replace(memory, opener=opener_of(messages, memory))


def _pending(messages: Sequence[Message], memory: ContextMemory) -> tuple[Message, ...]:
    """The messages that no summary tells of."""
    _, said = _parts(messages, memory)
    return tuple(message for message in said if message.number > memory.summary_to)


def _with_summary(messages: Sequence[Message], memory: ContextMemory) -> View:
    head, said = _parts(messages, memory)
    pending = _pending(messages, memory) or said[group_start(said, len(said) - 1) :]
    begin = 0 if memory.summary else legal_start(pending, 0, opener_of(messages, memory))
    return View((*head, *pending[begin:]), summary=memory.summary)


async def _extended(
    memory: ContextMemory, older: Sequence[Message], condense: Condenser, instruct: str
) -> ContextMemory:
    if memory.retry_in:
        return msgspec.structs.replace(memory, retry_in=memory.retry_in - 1)
    return await summed_up(memory, older, condense, instruct) if older else memory

"""Which messages of a conversation stand together, what they take, and where a window of them may begin."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Protocol, TypeAlias

import msgspec

from runtime.context.attachments import attachments_of
from runtime.context.memory import ContextMemory, Opener
from runtime.events import Message
from runtime.tokens import MESSAGE_TOKENS, tokens_of

Cost: TypeAlias = Callable[[Message], int]
"""About how much a message takes: tokens where it stands in the prompt, or characters."""


class ContextStrategy(Protocol):
    """Chooses what a model sees of a conversation."""

    def choose(self, messages: Sequence[Message], tokens_max: int, cost: Cost) -> tuple[Message, ...]:
        """The messages for the prompt, oldest first, within the tokens; the newest is always among them."""


class TokenWindow:
    """The newest messages that fit, by whole exchanges: no reply without what it is a reply to."""

    def choose(self, messages: Sequence[Message], tokens_max: int, cost: Cost) -> tuple[Message, ...]:
        """The last exchanges that fit; where not even one does, its last messages, and at least the newest."""
        costs = [cost(message) for message in messages]
        begin = _fitting(costs, tokens_max)
        starts = _starts(messages, "assistant", begin) if begin else []
        return tuple(messages[starts[0] if starts else begin :])


# -- what a message takes ---------------------------------------------------------------------------------------------


def tokens_in(message: Message) -> int:
    """About how many tokens a message takes, with what is attached to it."""
    return tokens_of(message.content) + MESSAGE_TOKENS + (tokens_of(_others(message)) if message.metadata else 0)


def chars_in(message: Message) -> int:
    """About how many characters a message has: who says it, what is said, and what is attached in a few words."""
    return len(message.role) + len(message.content) + (len(_others(message)) if message.metadata else 0)


def _others(message: Message) -> str:
    others = [*attachments_of(message), *([calls] if (calls := message.metadata.get("tool_calls")) else [])]
    return msgspec.json.encode(others).decode() if others else ""


# -- where a window may begin -----------------------------------------------------------------------------------------


def head_of(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The system messages that a conversation begins with; they stay first in every window."""
    return tuple(takewhile(lambda message: message.role == "system", messages))


def opener_of(messages: Sequence[Message], memory: ContextMemory) -> Opener:
    """Who opened the conversation: with that begins each exchange, what is said and what is answered to it."""
    if memory.opener is not None:
        return memory.opener
    for message in messages:
        if message.role in ("user", "assistant"):
            return message.role
    return "user"


def legal_start(messages: Sequence[Message], begin: int, opener: Opener) -> int:
    """The first place from `begin` on where an exchange begins.

    Where none does, the newest exchange is too long for the window: then the first place where at least no result of a
    tool stands without its call.
    """
    starts = _starts(messages, opener, begin)
    return starts[0] if starts else _without_orphan(messages, begin)


def newest_exchanges(messages: Sequence[Message], k: int, opener: Opener) -> int:
    """Where the last k whole exchanges begin; one that waits for its answer stands after them."""
    starts = _starts(messages, opener, 0)
    if starts and not _answered(messages[starts[-1] :], opener):
        k += 1
    return starts[-k] if len(starts) >= k else legal_start(messages, 0, opener)


def fitting(messages: Sequence[Message], most: int, cost: Cost) -> int:
    """Where the longest end of the messages begins that takes no more; it has the newest one in any case."""
    return _fitting([cost(message) for message in messages], most)


def group_start(messages: Sequence[Message], begin: int) -> int:
    """The same place, or an earlier one where it is within the results of a tool: where that was called."""
    while 0 < begin < len(messages) and messages[begin].role == "tool":
        begin -= 1
    return begin


def recent(
    messages: Sequence[Message], messages_max: int, tokens_max: int | None = None, opener: Opener | None = None
) -> tuple[Message, ...]:
    """The end of a conversation, as one goes on from it: it begins where an exchange does (seed 002, `get_history`).

    An exchange that alone takes more than `messages_max` or `tokens_max` is given whole, however long it is.
    """
    opener = opener or opener_of(messages, ContextMemory())
    begin = max(len(messages) - max(messages_max, 1), 0)
    if tokens_max is not None:
        begin += fitting(messages[begin:], tokens_max, tokens_in)
    starts = _starts(messages, opener, 0)
    later = [start for start in starts if start >= begin]
    found = later[:1] or starts[-1:] or [_without_orphan(messages, begin)]
    return tuple(messages[found[0] :])


def _starts(messages: Sequence[Message], opener: Opener, begin: int) -> list[int]:
    """Where, from `begin` on, exchanges begin: where the opener speaks after an answer."""
    found: list[int] = []
    answered = True
    for place, message in enumerate(messages):
        if message.role == opener:
            if answered and place >= begin:
                found.append(place)
            answered = False
        elif message.role in ("user", "assistant"):
            answered = True
    return found


def _answered(exchange: Sequence[Message], opener: Opener) -> bool:
    return any(message.role in ("user", "assistant") and message.role != opener for message in exchange)


def _without_orphan(messages: Sequence[Message], begin: int) -> int:
    """The first place from `begin` on that is no result of a tool; where there is none, where that was called."""
    for place in range(begin, len(messages)):
        if messages[place].role != "tool":
            return place
    return group_start(messages, begin)


def _fitting(costs: Sequence[int], most: int) -> int:
    begin, left = len(costs), most
    while begin and (costs[begin - 1] <= left or begin == len(costs)):
        begin -= 1
        left -= costs[begin]
    return begin

"""Windows of a conversation: groups of messages, their cost, and the valid start of a window."""

from collections.abc import Callable, Sequence
from itertools import dropwhile, takewhile
from typing import TypeAlias

import msgspec

from runtime.context.messages import attachments_of
from runtime.context.text_lengths import MESSAGE_TOKENS, tokens_of
from runtime.state.events import Message
from runtime.state.state import ContextMemory, Opener

Cost: TypeAlias = Callable[[Message], int]
"""The estimated cost of a message: tokens of a prompt, or characters."""


# -- the cost of a message --------------------------------------------------------------------------------------------


def tokens_in(message: Message) -> int:
    """Return the estimated number of tokens of a message, including its attachments."""
    return tokens_of(message.content) + MESSAGE_TOKENS + (tokens_of(_others(message)) if message.metadata else 0)


def chars_in(message: Message) -> int:
    """Return the number of characters of a message: role, text, and the descriptions of its attachments."""
    return len(message.role) + len(message.content) + (len(_others(message)) if message.metadata else 0)


def _others(message: Message) -> str:
    others = [*attachments_of(message), *([calls] if (calls := message.metadata.get("tool_calls")) else [])]
    return msgspec.json.encode(others).decode() if others else ""


# -- the start of a window --------------------------------------------------------------------------------------------


def head_of(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the system messages at the beginning of a conversation; they remain first in every window."""
    return tuple(takewhile(lambda message: message.role == "system", messages))


def after_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the end of a conversation without the system messages that it starts with, unless there are no others.

    Once the messages before them are gone, they would seem to begin the conversation, and remain for ever.
    """
    return tuple(dropwhile(lambda message: message.role == "system", messages)) or tuple(messages)


def opener_of(messages: Sequence[Message], memory: ContextMemory) -> Opener:
    """Return the role that opened the conversation; each exchange begins with a message of this role."""
    if memory.opener is not None:
        return memory.opener
    return next((message.role for message in messages if message.role in ("user", "assistant")), "user")


def legal_start(messages: Sequence[Message], begin: int, opener: Opener) -> int:
    """Return the first index from `begin` on where an exchange begins.

    If there is none, the newest exchange is too long for the window: then the first index where no tool result is
    separated from its call.
    """
    starts = _starts(messages, opener, begin)
    return starts[0] if starts else without_orphan(messages, begin)


def newest_exchanges(messages: Sequence[Message], k: int, opener: Opener) -> int:
    """Return the index where the last k whole exchanges begin; an unanswered message after them does not count."""
    starts = _starts(messages, opener, 0)
    if starts and not _has_answer(messages[starts[-1] :], opener):
        k += 1
    return starts[-k] if len(starts) >= k else legal_start(messages, 0, opener)


def fitting_start(messages: Sequence[Message], most: int, cost: Cost) -> int:
    """Return the start of the longest suffix of messages within a cost; it always includes the newest message."""
    begin, left = len(messages), most
    while begin:
        own = cost(messages[begin - 1])
        if own > left and begin < len(messages):
            break
        begin -= 1
        left -= own
    return begin


def last_exchanges(messages: Sequence[Message], tokens_max: int, cost: Cost) -> tuple[Message, ...]:
    """Return the last whole exchanges that fit into a number of tokens: no reply without the message it replies to.

    If not even one fits, these are its last messages, and at least the newest one.
    """
    begin = fitting_start(messages, tokens_max, cost)
    starts = _starts(messages, "assistant", begin) if begin else []
    return tuple(messages[starts[0] if starts else begin :])


def group_start(messages: Sequence[Message], begin: int) -> int:
    """Return the index, or, if it is at a tool result, the index of the tool's call before it."""
    while 0 < begin < len(messages) and messages[begin].role == "tool":
        begin -= 1
    return begin


def recent(
    messages: Sequence[Message], messages_max: int, tokens_max: int | None = None, opener: Opener | None = None
) -> tuple[Message, ...]:
    """Return the end of a conversation, from a message of the opener on (`get_history` of nanobot), after the system
    messages with which the conversation begins.

    They begin with the first question that fits into `messages_max` and `tokens_max`, else with the last question,
    whatever the length of its answer.
    """
    opener = opener or opener_of(messages, ContextMemory())
    head = head_of(messages)
    said = messages[len(head) :]
    begin = max(len(said) - max(messages_max - len(head), 1), 0)
    if tokens_max is not None:
        begin += fitting_start(said[begin:], tokens_max - sum(map(tokens_in, head)), tokens_in)
    questions = [place for place, each in enumerate(said) if each.role == opener]
    fitting = [place for place in questions if place >= begin]
    found = fitting[:1] or questions[-1:] or [without_orphan(said, begin)]
    return (*head, *said[found[0] :])


def without_orphan(messages: Sequence[Message], begin: int) -> int:
    """Return the first index from `begin` on that is no tool result, or else the index of the tool's call."""
    for place in range(begin, len(messages)):
        if messages[place].role != "tool":
            return place
    return group_start(messages, begin)


def _starts(messages: Sequence[Message], opener: Opener, begin: int) -> list[int]:
    """Return the indices from `begin` on where exchanges begin: where the opener speaks after an answer."""
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


def _has_answer(exchange: Sequence[Message], opener: Opener) -> bool:
    return any(message.role in ("user", "assistant") and message.role != opener for message in exchange)

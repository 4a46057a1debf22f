"""Makes a summary or a memo of a conversation, in pieces.

Every finished piece is stored with the number of the last message it covers; after a failure, a later attempt
continues from there, after some turns. So every message is covered exactly once.
"""

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from runtime.context.ports import Condense, Condenser
from runtime.context.text_lengths import CHARS_MIN, cut_text, cut_value, longest_in
from runtime.context.windows import Cost, tokens_in
from runtime.state.events import Message
from runtime.state.ports import ModelFailed
from runtime.state.state import ContextMemory
from scripts.expressions.values import Value, ValueRefused, to_value

SUMMARY_CHARS_MAX = 8_000
MEMO_CHARS_MAX = 16_000
PIECE_TOKENS_MAX = 3_000  # summarised at a time
PIECE_CHARS_MAX = 12_000  # added to a memo at a time, if no other length is set
RETRY_TURNS_MAX = 31

Remember: TypeAlias = Callable[[Mapping[str, Value], tuple[Message, ...]], Awaitable[Value]]
"""Returns a new memo made from the previous one and messages. Raises ModelFailed."""


def pieces(messages: Sequence[Message], most: int, cost: Cost) -> Iterator[tuple[Message, ...]]:
    """Yield all messages in order, in pieces up to a cost; a message that exceeds it alone is a piece of its own."""
    piece: list[Message] = []
    total = 0
    for message in messages:
        own = cost(message)
        if piece and total + own > most:
            yield tuple(piece)
            piece, total = [], 0
        piece.append(message)
        total += own
    if piece:
        yield tuple(piece)


async def summarise(
    memory: ContextMemory, messages: Sequence[Message], condense: Condenser, instruct: str
) -> ContextMemory:
    """Return the memory with a summary that also covers these messages, which follow those covered already."""
    for piece in pieces(messages, PIECE_TOKENS_MAX, tokens_in):
        wish = Condense(purpose="summarise", messages=piece, previous=memory.summary or None, instruct=instruct)
        try:
            summary = await condense(wish)
        except ModelFailed:
            return put_off(memory)
        if not isinstance(summary, str) or not summary.strip():
            return put_off(memory)
        summary = cut_text(summary.strip(), SUMMARY_CHARS_MAX)
        memory = msgspec.structs.replace(memory, summary=summary, summary_to=piece[-1].number, failed=0, retry_in=0)
    return memory


async def add_memo(
    memory: ContextMemory, messages: Sequence[Message], remember: Remember, chars_max: int
) -> ContextMemory:
    """Return the memory with a memo that also covers these messages, which follow those covered already."""
    for piece in pieces(
        messages, chars_max or PIECE_CHARS_MAX, lambda message: len(message.role) + len(message.content)
    ):
        try:
            memo = memo_of(await remember(memory.memo, piece))
        except ModelFailed:
            return put_off(memory)
        memory = msgspec.structs.replace(memory, memo=memo, memo_to=piece[-1].number, failed=0, retry_in=0)
    return memory


def remember_with(condense: Condenser, instruct: str) -> Remember:
    """Return a function that makes memos with a condenser."""

    async def remember(memo: Mapping[str, Value], messages: tuple[Message, ...]) -> Value:
        wish = Condense(purpose="memo", messages=messages, previous=dict(memo) or None, instruct=instruct)
        made = await condense(wish)
        if not isinstance(made, dict) or not made:
            raise ModelFailed("the model gave no memo")
        return made

    return remember


def memo_of(value: Value) -> Mapping[str, Value]:
    """Return a memo from a condenser's result: a record, or its field `memo`. Raises TypeError, ModelFailed."""
    if isinstance(value, dict) and isinstance(value.get("memo"), dict):
        value = value["memo"]
    if not isinstance(value, dict):
        raise TypeError(f"a memo is a record, not {type(value).__name__}")
    try:
        memo = to_value(value)
    except ValueRefused as refused:
        raise ModelFailed(f"the memo cannot be stored: {refused}") from refused
    length = longest_in(memo)
    while len(msgspec.json.encode(memo)) > MEMO_CHARS_MAX and length > CHARS_MIN:
        length = max(math.floor(length * 0.7), CHARS_MIN)
        memo = cut_value(memo, length)
    if not isinstance(memo, dict) or len(msgspec.json.encode(memo)) > MEMO_CHARS_MAX:
        raise ModelFailed("the memo is too long to be stored")
    return memo


def put_off(memory: ContextMemory) -> ContextMemory:
    """Return the memory after a failed attempt: the next one is due in the next turn, then after 1, 3, 7, … turns."""
    waits = min(2 ** min(memory.failed, 10) - 1, RETRY_TURNS_MAX)
    return msgspec.structs.replace(memory, failed=memory.failed + 1, retry_in=waits)

"""Has accounts of a conversation made, piece by piece: a summary, or a memo of what is to be kept in mind.

Every piece that is done is kept, with the number of the last message it tells of; where one fails, the next attempt
goes on from there, after some turns. So no message is left out, and none is told of twice.
"""

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from runtime.context.memory import ContextMemory
from runtime.context.ports import Condense, Condenser
from runtime.context.windows import Cost, tokens_in
from runtime.events import Message
from runtime.ports import ModelFailed
from runtime.prompts.fitting import CHARS_MIN, cut_text, cut_value, longest_in
from scripts.values import Value, ValueRefused, bounded

SUMMARY_CHARS_MAX = 8_000
MEMO_CHARS_MAX = 16_000
PIECE_TOKENS_MAX = 3_000  # summed up at a time
PIECE_CHARS_MAX = 12_000  # put into a memo at a time, where no other length is set
RETRY_TURNS_MAX = 31

Remember: TypeAlias = Callable[[Mapping[str, Value], tuple[Message, ...]], Awaitable[Value]]
"""Makes a new memo of the one so far and of messages. Raises ModelFailed."""


def pieces(messages: Sequence[Message], most: int, cost: Cost) -> Iterator[tuple[Message, ...]]:
    """All the messages in order, in pieces that take no more; one that does so by itself stands alone."""
    piece: list[Message] = []
    taken = 0
    for message in messages:
        own = cost(message)
        if piece and taken + own > most:
            yield tuple(piece)
            piece, taken = [], 0
        piece.append(message)
        taken += own
    if piece:
        yield tuple(piece)


async def summed_up(
    memory: ContextMemory, messages: Sequence[Message], condense: Condenser, instruct: str
) -> ContextMemory:
    """With a summary that tells of these messages too, which follow those it tells of."""
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


async def remembered(
    memory: ContextMemory, messages: Sequence[Message], remember: Remember, chars_max: int
) -> ContextMemory:
    """With a memo made of these messages too, which follow those it was made with."""
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
    """Has memos made as accounts are."""

    async def remember(memo: Mapping[str, Value], messages: tuple[Message, ...]) -> Value:
        wish = Condense(purpose="memo", messages=messages, previous=dict(memo) or None, instruct=instruct)
        made = await condense(wish)
        if not isinstance(made, dict) or not made:
            raise ModelFailed("the model gave no memo")
        return made

    return remember


def memo_of(given: Value) -> Mapping[str, Value]:
    """A memo from what was given for one: a record, or one in its field `memo`. Raises TypeError, ModelFailed."""
    if isinstance(given, dict) and isinstance(given.get("memo"), dict):
        given = given["memo"]
    if not isinstance(given, dict):
        raise TypeError(f"a memo is a record, not {type(given).__name__}")
    try:
        memo = bounded(given)
    except ValueRefused as refused:
        raise ModelFailed(f"the memo cannot be kept: {refused}") from refused
    length = longest_in(memo)
    while len(msgspec.json.encode(memo)) > MEMO_CHARS_MAX and length > CHARS_MIN:
        length = max(math.floor(length * 0.7), CHARS_MIN)
        memo = cut_value(memo, length)
    if not isinstance(memo, dict) or len(msgspec.json.encode(memo)) > MEMO_CHARS_MAX:
        raise ModelFailed("the memo is too long to be kept")
    return memo


def put_off(memory: ContextMemory) -> ContextMemory:
    """An account could not be made: it is tried again in the next turn, after one, three, seven, … turns."""
    waits = min(2 ** min(memory.failed, 10) - 1, RETRY_TURNS_MAX)
    return msgspec.structs.replace(memory, failed=memory.failed + 1, retry_in=waits)

"""What a context strategy keeps.

A strategy never changes the transcript. What it makes of it (a summary, a memo, where its window begins) is a value of
its own, kept in the session's state, so that it survives a restart and goes back with a rewind.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from scripts.values import Value

Opener: TypeAlias = Literal["user", "assistant"]


class LastResize(Struct, frozen=True):
    """The last time a window was made smaller: how, in which turn of the assistant's, and why."""

    type: str
    turn: int
    reason: str


class ContextMemory(Struct, frozen=True, omit_defaults=True):
    """What a strategy keeps of a conversation beside its messages, which it knows by their numbers."""

    after: int = 0  # the window begins after this message
    summary: str = ""
    summary_to: int = 0  # the last message the summary tells of
    memo: Mapping[str, Value] = {}
    memo_to: int = 0  # the last message the memo was made with
    seen: int = 0  # the last message that was counted
    turns: int = 0  # messages of the assistant's so far
    resized_at: int = 0  # how many those were at the last resize
    resized_to: int = 0  # the last message at the last resize
    last_resize: LastResize | None = None
    opener: Opener | None = None  # who opened the conversation, and so each exchange
    failed: int = 0  # times in a row that no summary or memo could be had
    retry_in: int = 0  # turns to wait until it is tried again

"""The statistics of a session."""

from datetime import datetime

from msgspec import Struct

from store.interface.rows import Role


class MessageCounts(Struct, frozen=True):
    """The number of messages of one role, and their length in characters."""

    role: Role
    messages: int
    characters: int


class CallsUsed(Struct, frozen=True):
    """The usage of language models, including calls of failed turns; the cost is null if no cost is known."""

    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float | None


class SessionStatistics(Struct, frozen=True):
    """The statistics of a session. Durations are in seconds; a mean of no values is null."""

    turns: int
    started_at: datetime
    finished_at: datetime
    answered_in_s: float | None
    """Mean time from the end of a turn to the next message of the user."""
    turn_took_s: float | None
    """Mean time from a message of the user to the end of its turn."""
    said: list[MessageCounts]
    used: CallsUsed

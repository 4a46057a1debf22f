"""The row types of timers."""

from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

import msgspec

TimerKind: TypeAlias = Literal["wait", "remind", "expire"]
TimerStatus: TypeAlias = Literal["pending", "failed", "held"]


class TimerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A moment at which a session does something by itself."""

    tenant: str
    session_id: str
    """A UUID."""
    user_id: str
    turn: int
    """The turn after which the session has the timer."""
    timer_id: str
    """Unique among the timers of the session."""
    kind: TimerKind
    action_id: str
    moment: str
    """The moment as the script has it: `3 days`."""
    due: datetime
    status: TimerStatus = "pending"
    attempts: int = 0
    """Failed attempts to fire it."""
    next_attempt_at: datetime
    error: str | None = None
    """Why the last attempt failed."""


class DueTimers(NamedTuple):
    """The first due timer of each session, the earliest first, and when the next one is due."""

    due: list[TimerRow]
    next_due: datetime | None

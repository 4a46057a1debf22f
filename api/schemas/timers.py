"""Timers of sessions."""

from datetime import datetime

from api.schemas.base import Body, Id, View
from store.interface.timer_rows import TimerKind, TimerStatus


class TimerView(View, frozen=True, kw_only=True):
    """A moment at which a session does something by itself."""

    session_id: str
    user_id: str
    timer_id: str
    """Unique among the timers of the session."""
    kind: TimerKind
    """The end of a wait, a reminder, or the expiry of a question."""
    action_id: str
    moment: str
    """The moment as the script has it: `3 days`."""
    due: datetime
    status: TimerStatus
    """`failed` after all attempts, or `held` by `hold_late_timers`; the session's next turn sets it again."""
    attempts: int
    """Failed attempts to fire it."""
    next_attempt_at: datetime
    error: str | None
    """The code of the error of the last attempt."""


class TimerList(View, frozen=True, kw_only=True):
    """A page of timers, the earliest first; `nextCursor` is null on the last page."""

    data: list[TimerView]
    next_cursor: str | None


class FiredTimer(Body, frozen=True, kw_only=True):
    """The timer to fire now, also before it is due."""

    timer_id: Id

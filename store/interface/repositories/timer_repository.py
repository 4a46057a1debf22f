"""Timers of sessions. Those of a turn are committed with the turn."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from store.interface.pages import Page
from store.interface.timer_rows import DueTimers, TimerRow, TimerStatus


class TimerRepository(Protocol):
    """Read timers, and note failed attempts to fire them."""

    async def ahead(self, now: datetime, limit: int) -> DueTimers:
        """Return the first timers of at most `limit` sessions of all tenants that are due, and when the next is due."""

    async def page(
        self,
        tenant: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        status: TimerStatus | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[TimerRow]:
        """Return a page of timers, the earliest first. Raises CursorInvalid."""

    async def replace(self, tenant: str, session_id: str, timers: Sequence[TimerRow], turn: int | None) -> None:
        """Replace the timers of a session by those after its turn `turn`, unless it has had another turn since, on
        another server. Without a turn, they are replaced in any case.
        """

    async def hold_due(self, now: datetime) -> int:
        """Hold the pending timers of all tenants that are due; return how many. Each stays until its session has a
        turn, or `replace`.
        """

    async def note_failure(
        self, timer: TimerRow, *, status: TimerStatus, next_attempt_at: datetime, error: str
    ) -> None:
        """Store that an attempt to fire a timer failed, unless the session has had a turn since."""

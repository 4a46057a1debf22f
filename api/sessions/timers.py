"""The timers of sessions, and the scheduler that fires them when they are due, while the server runs.

Each firing is a turn, committed only if the session has had no other turn since. The table of timers says what is due;
whether a timer still exists is decided by the session's state when it fires, and its turn is committed like any other.
A timer therefore fires once, also after a crash.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import structlog
from msgspec import Struct

from api.background import cancel_all, start_background, wait_at_most
from api.errors import ApiError
from api.sessions.chat import Chat
from api.sessions.live_turns import TurnResult
from api.sessions.row_mapping import timer_rows
from api.sessions.turn_runner import Preconditions, TurnRunner
from runtime.state.inputs import TimerDue
from store.interface.errors import StoreError
from store.interface.timer_rows import TimerRow

READ_MAX = 512  # sessions in one reading of the table; they wait in memory for their turn
IDLE_S = 15.0  # interval of reading the table without a signal: for timers of a server that died, or another clock
TROUBLE_S = 1.0  # delay after the database could not be read or written
DELAY_S, DELAY_GROWTH, DELAY_MAX_S = 5.0, 4.0, 21_600.0
ATTEMPTS_MAX = 8  # about 30 hours
PAUSE_MIN_S, PAUSE_MAX_S, PAUSE_TURNS = 0.01, 0.04, 1.25
"""The pause between the starts of two timers, so that messages of users are answered nearly as fast as without timers.

Within these bounds it is PAUSE_TURNS times as long as the last turn of a timer took: longer on a busy machine, and for
sessions that are not cached. A turn that calls a model takes longer and delays no other one.
"""
STOP_S = 5.0  # for firing timers when the server stops; their turns are committed or have no effect
_NOTHING_DUE = frozenset({"INTERVENTION_REFUSED", "SESSION_NOT_FOUND", "SESSION_REDACTED"})
_SOON = frozenset({"SESSION_BUSY", "TURN_CONFLICT", "SERVER_BUSY"})

log = structlog.get_logger()


class _FiringRequest(Struct, frozen=True):
    """The fingerprint of a firing."""

    timer_id: str


class SessionTimers(Struct, frozen=True):
    """The timers of the sessions of all tenants."""

    chat: Chat
    runner: TurnRunner

    async def fire(self, tenant: str, session_id: str, turn_input: TimerDue, condition: Preconditions) -> TurnResult:
        """Fire the timers of a session that are due, or the one that `turn_input` names. Raises ApiError.

        INTERVENTION_REFUSED: the session has no such timer, or nothing is due.
        """
        take = partial(self.chat.take_turn, turn_input, condition.idempotency_key, refused="INTERVENTION_REFUSED")
        return await self.chat.submit_change(tenant, session_id, _FiringRequest(turn_input.timer_id), take, condition)

    async def arm(self, tenant: str, session_id: str, expected_turn: int | None = None) -> tuple[TimerRow, ...]:
        """Store the timers of a session as its current state has them, and return them. Raises ApiError
        SESSION_NOT_FOUND, SESSION_REDACTED, TURN_CONFLICT.

        Those of a fork or an import are not stored until then, or until the session's next turn.
        """
        async with self.chat.exclusive(tenant, session_id, expected_turn=expected_turn) as cached:
            rows = timer_rows(cached.session, cached.program, cached.state, self.runner.settings.timezone)
            await self.runner.store.timers.replace(tenant, session_id, rows, cached.state.turn)
        self.chat.timers_changed.set()
        return rows


class Scheduler:
    """Fires at most `timer_concurrency` timers at the same time, those of one session one after the other."""

    def __init__(self, timers: SessionTimers) -> None:
        self._timers = timers
        self._runner = timers.runner
        self._changed = timers.chat.timers_changed
        self._due: deque[TimerRow] = deque()  # read, but not begun
        self._starting = asyncio.Lock()
        self._pause_s = PAUSE_MIN_S
        self._firing: dict[tuple[str, str], asyncio.Task[None]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Fire timers while the context lasts. Raises StoreError."""
        if self._runner.settings.hold_late_timers:
            held = await self._runner.store.timers.hold_due(self._runner.clock())
            log.info("timers that are already due are held", timers=held)
        work = start_background(self._run(), "timers have stopped until the server is restarted")
        try:
            yield
        finally:
            await cancel_all(work)
            if self._firing:
                await asyncio.wait(self._firing.values(), timeout=STOP_S)
            await cancel_all(*self._firing.values())

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                wait_s = await self._fire_due()
            except StoreError as error:
                log.warning("timers cannot be read", error=str(error))
                wait_s = TROUBLE_S
            await wait_at_most(wait_s, self._changed)

    async def _fire_due(self) -> float:
        """Start the turns of timers that are due, as far as there is room; return how long to wait."""
        self._begin()
        if self._due:
            return IDLE_S  # a turn that ends wakes the scheduler
        found = await self._runner.store.timers.ahead(self._runner.clock(), READ_MAX)
        self._due.extend(each for each in found.due if (each.tenant, each.session_id) not in self._firing)
        self._begin()
        if self._due or found.next_due is None:
            return IDLE_S
        return min(max((found.next_due - self._runner.clock()).total_seconds(), 0.0), IDLE_S)

    def _begin(self) -> None:
        """Start the turns of the timers that were read. What has changed since is found by the turn itself."""
        while self._due and len(self._firing) < self._runner.settings.timer_concurrency:
            timer = self._due.popleft()
            place = timer.tenant, timer.session_id
            if place not in self._firing:
                self._firing[place] = asyncio.create_task(self._fire(timer))

    async def _fire(self, timer: TimerRow) -> None:
        try:
            async with self._starting:
                await asyncio.sleep(self._pause_s)
            begun = time.monotonic()
            await self._attempt(timer)
            self._pause_s = min(max(PAUSE_TURNS * (time.monotonic() - begun), PAUSE_MIN_S), PAUSE_MAX_S)
        except StoreError as error:
            log.warning("a timer waits for the database", session=timer.session_id, error=str(error))
            await asyncio.sleep(TROUBLE_S)
        except Exception:  # (the outermost handler of a background task)
            log.exception("a timer could not be fired", session=timer.session_id, timer=timer.timer_id)
            await asyncio.sleep(IDLE_S)  # it is still due, and would begin again at once
        finally:
            del self._firing[timer.tenant, timer.session_id]
            self._changed.set()

    async def _attempt(self, timer: TimerRow) -> None:
        """Fire a timer, or note that it failed. Raises StoreError."""
        missed_before = self._runner.clock() - timedelta(seconds=self._runner.settings.catch_up_s)
        due = TimerDue(missed_before=missed_before)
        try:
            await self._timers.fire(timer.tenant, timer.session_id, due, Preconditions(queue=True))
        except ApiError as error:
            if error.code in _SOON:
                await asyncio.sleep(TROUBLE_S)
            elif error.code in _NOTHING_DUE:
                await self._correct(timer)
            else:
                await self._note_failure(timer, error)
        else:
            self._runner.metrics.timer_attempts.labels("fired").inc()

    async def _correct(self, timer: TimerRow) -> None:
        """Store the timers as the state has them: the row does not belong to it, or the session is gone."""
        await asyncio.sleep(TROUBLE_S)
        try:
            await self._timers.arm(timer.tenant, timer.session_id)
        except ApiError as error:
            if error.code in _NOTHING_DUE:  # else it is busy: the timer is still there, and is tried again
                await self._runner.store.timers.replace(timer.tenant, timer.session_id, (), None)

    async def _note_failure(self, timer: TimerRow, error: ApiError) -> None:
        attempts = timer.attempts + 1
        is_final = attempts >= ATTEMPTS_MAX
        self._runner.metrics.timer_attempts.labels("failed" if is_final else "delayed").inc()
        delay = timedelta(seconds=min(DELAY_S * DELAY_GROWTH ** (attempts - 1), DELAY_MAX_S))
        fields = {"session": timer.session_id, "timer": timer.timer_id, "attempts": attempts, "code": error.code}
        log.warning("timer_failed" if is_final else "a timer will be tried again", **fields)
        await self._runner.store.timers.note_failure(
            timer,
            status="failed" if is_final else "pending",
            next_attempt_at=self._runner.clock() + delay,
            error=error.code,
        )

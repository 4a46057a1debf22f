"""Fires the timers of sessions: each is a turn, committed only if the session has had no other turn since."""

from functools import partial

from msgspec import Struct

from api.sessions.chat import Chat
from api.sessions.live_turns import TurnResult
from api.sessions.row_mapping import timer_rows
from api.sessions.turn_runner import Preconditions, TurnRunner
from runtime.state.inputs import TimerDue
from store.interface.timer_rows import TimerRow


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
        request = _FiringRequest(turn_input.timer_id)
        return await self.chat.submit_change(tenant, session_id, request, take, condition)

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

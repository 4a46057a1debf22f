"""Fires the timers of sessions: each is a turn, committed only if the session has had no other turn since."""

from msgspec import Struct

from api.errors import ApiError
from api.sessions.chat import Chat, context_of
from api.sessions.live_turns import PendingTurn
from api.sessions.session_cache import CachedSession
from api.sessions.timer_rows import timer_rows
from api.sessions.turn_runner import Preconditions, TurnResult, TurnRunner
from runtime.engine.engine import TurnFailed
from runtime.state.inputs import InputRefused, TimerDue
from store.interface.timer_rows import TimerRow


class _FiringRequest(Struct, frozen=True):
    """The fingerprint of a firing."""

    timer_id: str


class SessionTimers:
    """The timers of the sessions of all tenants."""

    def __init__(self, chat: Chat, runner: TurnRunner) -> None:
        self._chat = chat
        self._store = runner.store
        self._settings = runner.settings
        self._clock = runner.clock

    async def fire(self, tenant: str, session_id: str, turn_input: TimerDue, condition: Preconditions) -> TurnResult:
        """Fire the timers of a session that are due, or the one that `turn_input` names. Raises ApiError.

        INTERVENTION_REFUSED: the session has no such timer, or nothing is due.
        """

        async def take(cached: CachedSession, pending: PendingTurn[TurnResult]) -> TurnResult:
            started = self._clock()
            try:
                turn = await self._chat.run(cached, turn_input, started, pending)
            except InputRefused as error:
                raise ApiError("INTERVENTION_REFUSED", str(error), context=context_of(cached)) from error
            except TurnFailed as failed:
                raise await self._chat.fail(cached, failed) from failed
            return await self._chat.commit(cached, turn, started, condition.idempotency_key, pending.fingerprint)

        request = _FiringRequest(turn_input.timer_id)
        return await self._chat.submit_change(tenant, session_id, request, take, condition)

    async def arm(self, tenant: str, session_id: str, expected_turn: int | None = None) -> tuple[TimerRow, ...]:
        """Store the timers of a session as its current state has them, and return them. Raises ApiError
        SESSION_NOT_FOUND, SESSION_REDACTED, TURN_CONFLICT.

        Those of a fork or an import are not stored until then, or until the session's next turn.
        """
        async with self._chat.exclusive(tenant, session_id, expected_turn=expected_turn) as cached:
            rows = timer_rows(cached.session, cached.program, cached.state, self._settings.timezone)
            await self._store.timers.replace(tenant, session_id, rows, cached.state.turn)
        self._chat.timers_changed.set()
        return rows

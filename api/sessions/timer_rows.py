"""Maps the timers of a session to database rows."""

from runtime.state.program import Program
from runtime.state.state import State
from runtime.timers.timers import pending_timers
from store.interface.rows import SessionRow
from store.interface.timer_rows import TimerRow


def timer_rows(session: SessionRow, program: Program, state: State, default_zone: str) -> tuple[TimerRow, ...]:
    """Return the rows of the timers that a session has in a state."""
    if not program.has_time:
        return ()
    return tuple(
        TimerRow(
            tenant=session.tenant,
            session_id=session.session_id,
            user_id=session.user_id,
            turn=state.turn,
            timer_id=each.timer_id,
            kind=each.kind,
            action_id=each.action,
            moment=each.moment.text,
            due=each.due,
            next_attempt_at=each.due,
        )
        for each in pending_timers(program, state, default_zone)
    )

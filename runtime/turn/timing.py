"""Begin and continue the counting of the timers of a wait."""

from collections.abc import Collection

from msgspec.structs import replace

from runtime.state.state import Timing
from runtime.timers.due import due_moment
from runtime.timers.timers import dates_wanted, pending_timers, times_of
from runtime.turn.context import ActionFailed, TurnContext
from scripts.expressions.time_values import parse_date
from scripts.model.actions import Action, Expiry, Question
from scripts.model.base import Expression


def begin(run: TurnContext, action: Action) -> Timing:
    """Count the timers of an action from now on, unless they are counted already; return how they are counted.

    After a migration, the moments of the new version may have dates that were not evaluated yet.
    """
    timing = run.state.timing or Timing(run.now())
    wanted = dates_wanted(run.program, run.state, action)
    dates = {key: _date(run, date.expression) for key, date in wanted if key not in timing.dates}
    if dates or run.state.timing is None:
        run.state.timing = timing = replace(timing, dates={**timing.dates, **dates})
    return timing


def past_expiry(run: TurnContext, action: Question) -> Expiry | None:
    """Return the expiry of a question whose date is past before the question is put; None if it can be put."""
    _, expiry = times_of(run.program, run.state, len(run.state.frames), action)
    if expiry is None or expiry.until is None:
        return None
    dates = begin(run, action).dates
    zone = run.program.zone(run.state, run.default_zone)
    due = due_moment(expiry, run.now(), zone, dates.get(f"expire {expiry.text}", ""))
    return expiry if due is not None and due <= run.now() else None


def note_message(run: TurnContext) -> None:
    """Count reminders and expiry from the user's message: of the current question, and of one that an interrupt
    suspended, unless it has expired meanwhile.
    """
    expired: set[int] = set()
    if any(frame.held is not None for frame in run.state.frames):
        due = (each for each in pending_timers(run.program, run.state, run.default_zone) if each.due <= run.now())
        expired = {each.depth for each in due if each.depth < len(run.state.frames)}
    count_from_now(run, expired)


def count_from_now(run: TurnContext, expired: Collection[int] = ()) -> None:
    """Count reminders and expiry from now on, but not those of suspended questions at the depths of `expired`."""
    state = run.state
    if state.timing is not None:
        state.timing = replace(state.timing, heard=run.now())
    for depth, frame in enumerate(state.frames):
        if frame.held is not None and frame.held.timing is not None and depth not in expired:
            frame.held = replace(frame.held, timing=replace(frame.held.timing, heard=run.now()))


def count_seconds(run: TurnContext) -> None:
    """Add the time since the last turn to the current phase, unless the session slept until a moment."""
    state, now = run.state, run.now()
    if state.last_at is not None and state.phase and (state.wait is None or state.wait.kind != "time"):
        seconds = max((now - state.last_at).total_seconds(), 0.0)
        state.awake = {**state.awake, state.phase: state.awake.get(state.phase, 0.0) + seconds}
    state.last_at = now


def _date(run: TurnContext, expression: Expression) -> str:
    """Return the value of a date; a value that is none means that the moment never comes, with a warning."""
    try:
        value = run.value(expression)
    except ActionFailed as error:
        run.warn("expression_failed", str(error))
        return ""
    if not isinstance(value, str) or parse_date(value) is None:
        run.warn("date_missing", f"`{expression.source}` is not a date")
        return ""
    return value

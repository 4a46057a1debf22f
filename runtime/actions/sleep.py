"""`wait`: the session sleeps until a moment of the script."""

import msgspec

from runtime.actions.outcomes import DONE, Answer, Outcome, Waits
from runtime.state.program import answering_id
from runtime.state.state import Timing, Wait
from runtime.timers.timers import pending_timers
from runtime.turn import timing
from runtime.turn.context import TurnContext
from scripts.model.actions import Sleep


def sleep(run: TurnContext, action: Sleep) -> Outcome:
    """Wait for the moment; one that is past passes, as does a date that is none."""
    timing.begin(run, action)
    wait = awake_at(run, Wait("time"))
    return DONE if wait.until is None or wait.until <= run.now() else Waits(wait)


def awake_at(run: TurnContext, wait: Wait) -> Wait:
    """Return the wait with the moment at which the session continues, also if its timers rest now."""
    state = msgspec.structs.replace(run.state, wait=wait, status="active", hand_over=None)
    timers = pending_timers(run.program, state, run.default_zone)
    due = next((each.due for each in timers if each.kind == "wait"), None)
    return msgspec.structs.replace(wait, until=due)


def answer_message(run: TurnContext, action: Sleep) -> Outcome:
    """Handle a message to the sleeping session."""
    if action.on_message == "resume":
        return DONE
    if action.on_message != "hold" and not run.state.interrupted:  # interrupts do not nest
        return Answer(answering_id(run.target(action.on_message)))
    wait, counted = awake_at(run, Wait("time")), run.state.timing or Timing(run.now())
    if not counted.is_announced and wait.until is not None:
        back = wait.until.astimezone(run.zone()).strftime("%Y-%m-%d %H:%M")
        run.say(run.phrase("asleep", (back,)))
        run.state.timing = msgspec.structs.replace(counted, is_announced=True)
    return Waits(wait)

"""`set`, `emit`, and the jumps `goto` and `end`."""

from runtime.actions.leading_away import jump
from runtime.events import Emitted
from runtime.outcomes import DONE, Finish, Outcome
from runtime.run import Run
from scripts.actions import Emit, End, Goto, Set


def assign(run: Run, action: Set) -> Outcome:
    """Assigns each variable in the order written, so that later ones may use earlier ones."""
    for name, expression in action.assignments.items():
        run.assign(name, run.value(expression), "script")
    return DONE


def emit(run: Run, action: Emit) -> Outcome:
    """Tells the application something, within the turn's events."""
    data = {name: run.value(value) for name, value in action.signal.data.items()}
    run.record(Emitted(action.id, action.signal.event, data))
    return DONE


def goto(run: Run, action: Goto) -> Outcome:
    """Leaves the topic for the beginning of another, or of the same again."""
    return jump(run, action.target)


def end(action: End) -> Finish:
    """Ends the conversation."""
    return Finish(action.reason or "", "end_action", action.id)

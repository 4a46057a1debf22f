"""`set`, `emit`, and the jumps `goto` and `end`."""

from runtime.events import Emitted
from runtime.outcomes import DONE, Finish, Jump, Outcome
from runtime.run import ActionFailed, Run
from scripts.model import Emit, End, Goto, Set
from scripts.targets import resolve_target


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
    target = resolve_target(run.program.script, action.target, run.state.phase)
    if target is None:
        raise ActionFailed(f"there is no topic or phase {action.target}")
    return Jump(*target)


def end(action: End) -> Outcome:
    """Ends the conversation."""
    return Finish(action.reason or "")

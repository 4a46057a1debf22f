"""Actions that hold other actions: `if`, `foreach`, `repeat`; and what happens at the end of an arm."""

from runtime.outcomes import DONE, Enter, Outcome
from runtime.run import Run
from runtime.state import Frame
from scripts.actions import Action, Foreach, If, Loop, Repeat
from scripts.sandbox import kind_of
from scripts.values import Value


def branch(run: Run, action: If) -> Outcome:
    """The arm the condition picks."""
    arm, actions = ("then", action.then) if run.holds(action.condition) else ("else", action.otherwise)
    return Enter(arm) if actions else DONE


def foreach(run: Run, action: Foreach) -> Outcome:
    """The actions once for each item; the list is taken now, whatever becomes of the variable later."""
    items = items_of(run, action.loop)
    return Enter("do", items, action.loop.name) if items and action.do else DONE


def items_of(run: Run, loop: Loop) -> list[Value]:
    """The list a loop walks; what is no list is an empty one, and leaves a warning. Raises ActionFailed."""
    items = run.value(loop.items)
    if items is not None and not isinstance(items, list):
        run.warn("expression_failed", f"line {loop.items.at.line}: foreach goes through a list, not {kind_of(items)}")
    return list(items) if isinstance(items, list) else []


def repeat(action: Repeat) -> Outcome:
    """The actions, again and again."""
    return Enter("do") if action.do else DONE


def goes_on(run: Run, action: Action, frame: Frame) -> bool:
    """At the end of an arm: whether to work through it once more. `frame.passes` counts the passes made."""
    match action:
        case Foreach():
            return frame.items is not None and frame.passes < len(frame.items)
        case Repeat():
            if action.until.until is not None and run.holds(action.until.until):
                return False
            if frame.passes < action.until.max:
                return True
            if action.until.until is not None:
                run.warn("repeat_limit", f"stopped after {action.until.max} passes; `until` never held")
            return False
        case _:
            return False

"""Actions that run other actions: `if`, `foreach`, `repeat`, `experiment`, and `call`, which runs a skill."""

import hashlib
from bisect import bisect
from collections.abc import Mapping
from itertools import accumulate

import msgspec

from runtime.actions.outcomes import DONE, CallSkill, Enter, Outcome
from runtime.state.events import Exposed
from runtime.state.scopes import WriteRefused
from runtime.state.state import Frame, Source
from runtime.turn.context import ActionFailed, TurnContext
from scripts.expressions.sandbox import kind_of
from scripts.expressions.values import Value
from scripts.model.actions import Action, Call, Experiment, Foreach, If, Loop, Repeat
from scripts.model.experiments import ExperimentPlan
from scripts.model.script import Parameter, Scope, Skill


def branch(run: TurnContext, action: If) -> Outcome:
    """Enter the arm that the condition selects."""
    arm, actions = ("then", action.then) if run.holds(action.condition) else ("else", action.otherwise)
    return Enter(arm) if actions else DONE


def foreach(run: TurnContext, action: Foreach) -> Outcome:
    """Run the actions once for each item; the list is evaluated once, so later changes of it have no effect."""
    items = items_of(run, action.loop)
    return Enter("do", items, action.loop.name) if items and action.do else DONE


def items_of(run: TurnContext, loop: Loop) -> list[Value]:
    """Return the list of a loop; any other value gives an empty list and a warning. Raises ActionFailed."""
    items = run.value(loop.items)
    if items is not None and not isinstance(items, list):
        run.warn("expression_failed", f"line {loop.items.at.line}: foreach goes through a list, not {kind_of(items)}")
    return list(items) if isinstance(items, list) else []


def repeat(run: TurnContext, action: Repeat) -> Outcome:
    """Enter the actions of the loop."""
    return Enter("do") if action.do else DONE


def repeats(run: TurnContext, action: Action, frame: Frame) -> bool:
    """Return whether a loop repeats at the end of its arm. `frame.passes` counts the finished passes."""
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


# -- experiments ------------------------------------------------------------------------------------------------------


def experiment(run: TurnContext, action: Experiment) -> Outcome:
    """Enter the actions of the arm, if it has any."""
    arm = arm_met(run, action)
    return Enter(arm) if action.arms.get(arm) else DONE


def arm_met(run: TurnContext, action: Experiment) -> str:
    """Return the arm of this user or session and store it. The first exposure is recorded as an event."""
    plan = run.program.experiments[action.plan]
    scope: Scope = "global" if plan.by == "user" else "session"
    cell = run.scopes.cells(scope).get(plan.id)
    before = (cell.value if cell is not None else None, run.state.exposed.get(plan.id))
    arm = next((name for name in before if isinstance(name, str) and name in plan.names), None)
    if arm is None:
        arm = drawn_arm(plan, run.state.user_id if plan.by == "user" else str(run.state.seed))
    if cell is None or cell.value != arm:
        run.assign_in(scope, plan.id, arm, "script")
    if run.state.exposed.get(plan.id) != arm:
        run.state.exposed[plan.id] = arm
        run.record(Exposed(action.id, plan.id, arm, plan.by))
    return arm


def drawn_arm(plan: ExperimentPlan, unit: str) -> str:
    """Return the arm of a user, by id, or of a session, by seed.

    The result depends only on the experiment's id, the unit, and the arms with their weights, so that two sessions of a
    user get the same arm without communication.
    """
    digest = hashlib.sha256(msgspec.json.encode([plan.id, unit])).digest()
    bounds = list(accumulate(arm.weight for arm in plan.arms))
    return plan.names[bisect(bounds, int.from_bytes(digest[:8]) % bounds[-1])]


# -- skills -----------------------------------------------------------------------------------------------------------


def call(run: TurnContext, action: Call) -> Outcome:
    """Begin a skill. Raises ActionFailed, before the skill begins, if a parameter is missing or invalid."""
    if action.loop is None:
        return _begin(run, action, None, 0)
    items = items_of(run, action.loop)
    return _begin(run, action, items, 0) if items else DONE


def _begin(run: TurnContext, action: Call, items: list[Value] | None, index: int) -> Outcome:
    skill = run.program.skills[action.skill]
    name = action.loop.name if action.loop is not None else ""
    item_names: Mapping[str, Value] = {} if items is None else {name: items[index]}
    parameters = [_parameter(run, action, skill, each, item_names) for each in skill.params]
    defaults: list[tuple[str, Value, Source]] = [(each.var, each.value, "default") for each in skill.declare]
    wanted = tuple(each for each in (*parameters, *defaults) if each[1] is not None)
    return CallSkill(skill.id, wanted, items, name) if skill.actions else DONE


def _parameter(
    run: TurnContext, action: Call, skill: Skill, each: Parameter, item_names: Mapping[str, Value]
) -> tuple[str, Value, Source]:
    expression = action.input.get(each.var)
    value = None if expression is None else run.value(expression, item_names)
    if value is not None:
        return each.var, value, "script"
    if each.value is None and each.required:
        raise ActionFailed(f"the skill {skill.id} needs `{each.var}`")
    return each.var, each.value, "default"


def leave_skill(run: TurnContext, action: Call, frame: Frame) -> CallSkill | None:
    """Assign what a skill returns, after its frame is removed; return the next call if items are left."""
    returned = _results(run, action, frame)
    if frame.items is None or action.loop is None:
        for variable, value in returned.items():
            run.assign(variable, value, "script")
        return None
    _into_record(frame, returned)
    if action.output and action.loop.items.source.isidentifier():  # after each item: the user may end the loop early
        run.assign(action.loop.items.source, frame.items, "script")
    if frame.passes < len(frame.items):
        outcome = _begin(run, action, frame.items, frame.passes)
        return outcome if isinstance(outcome, CallSkill) else None
    return None


def _results(run: TurnContext, action: Call, frame: Frame) -> dict[str, Value]:
    """Return the values of the variables that store results; one without a result is left out."""
    found = {name: frame.cells[name].value for name in run.program.skills[action.skill].returns if name in frame.cells}
    whole: dict[str, Value] = {variable: found for variable, name in action.output.items() if not name}
    return whole | {variable: found[name] for variable, name in action.output.items() if name in found}


def _into_record(frame: Frame, returned: Mapping[str, Value]) -> None:
    """Add the returned values to the fields of the current record; `passes` already counts that record.

    The list is copied, because the one in the frame also belongs to the state from before the turn.
    """
    items = list(frame.items or [])
    record = items[frame.passes - 1]
    if returned and not isinstance(record, dict):
        raise WriteRefused("the results of a call with `foreach` go into records; the list contains something else")
    if isinstance(record, dict):
        items[frame.passes - 1] = {**record, **returned}
    frame.items = items

"""`call`: a skill run with parameters of its own, and what it returns handed back."""

from collections.abc import Mapping

from runtime.actions.blocks import items_of
from runtime.outcomes import DONE, CallSkill, Outcome
from runtime.run import ActionFailed, Run
from runtime.scopes import WriteRefused
from runtime.state import Frame, Source
from scripts.actions import Call
from scripts.model import Parameter, Skill
from scripts.values import Value


def call(run: Run, action: Call) -> Outcome:
    """Begins a skill. Raises ActionFailed where a parameter is missing or does not fit, before it has begun."""
    if action.loop is None:
        return _begin(run, action, None, 0)
    items = items_of(run, action.loop)
    return _begin(run, action, items, 0) if items else DONE


def _begin(run: Run, action: Call, items: list[Value] | None, index: int) -> Outcome:
    skill = run.program.skill(action.skill)
    name = action.loop.name if action.loop is not None else ""
    at_hand: Mapping[str, Value] = {} if items is None else {name: items[index]}
    given = [_parameter(run, action, skill, each, at_hand) for each in skill.params]
    defaults: list[tuple[str, Value, Source]] = [(each.var, each.value, "default") for each in skill.declare]
    wanted = tuple(each for each in (*given, *defaults) if each[1] is not None)
    return CallSkill(skill.id, wanted, items, name) if skill.actions else DONE


def _parameter(
    run: Run, action: Call, skill: Skill, each: Parameter, at_hand: Mapping[str, Value]
) -> tuple[str, Value, Source]:
    expression = action.input.get(each.var)
    value = None if expression is None else run.value(expression, at_hand)
    if value is not None:
        return each.var, value, "script"
    if each.value is None and each.required:
        raise ActionFailed(f"the skill {skill.id} needs `{each.var}`")
    return each.var, each.value, "default"


def leave(run: Run, action: Call, frame: Frame) -> CallSkill | None:
    """Hands back what a skill returns, once its frame is gone; with items left, the call for the next of them."""
    returned = {variable: frame.cells[name].value for variable, name in action.output.items() if name in frame.cells}
    if frame.items is None or action.loop is None:
        for variable, value in returned.items():
            run.assign(variable, value, "script")
        return None
    _into_record(frame, returned)
    if frame.passes < len(frame.items):
        outcome = _begin(run, action, frame.items, frame.passes)
        return outcome if isinstance(outcome, CallSkill) else None
    if action.output and action.loop.items.source.isidentifier():
        run.assign(action.loop.items.source, frame.items, "script")
    return None


def _into_record(frame: Frame, returned: Mapping[str, Value]) -> None:
    """What was returned for a record becomes its fields; `passes` counts the record at hand already.

    The list is made anew: the one at hand is still that of the state the turn began with.
    """
    items = list(frame.items or [])
    record = items[frame.passes - 1]
    if returned and not isinstance(record, dict):
        raise WriteRefused("`output` of a call with `foreach` goes into records; the list holds something else")
    if isinstance(record, dict):
        items[frame.passes - 1] = {**record, **returned}
    frame.items = items

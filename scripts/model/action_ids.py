"""Ids of actions and interrupts that the author left without one."""

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from scripts.model import actions
from scripts.model.actions import Action, action_type, outputs_of, walk, with_arms
from scripts.model.base import Location
from scripts.model.diagnostics import PROBLEMS_MAX, Problems
from scripts.model.script import Detector, IncludeFile, Interrupt, Script, Skill, Topic

_Fresh: TypeAlias = Callable[[str, str, Location], str]
"""Return a new id for a type of action, the variable that it is about (or ""), and its location."""
_Owner = TypeVar("_Owner", Topic, Skill, Interrupt, Detector)
_File = TypeVar("_File", Script, IncludeFile)


def with_ids(script: Script, problems: Problems) -> Script:
    """Return the script with an id for every action: ``<type>_<n>`` within its topic if the author wrote none.

    The stage format has no ids; there one note reports all of them.
    """
    if script.form != "stage":
        return _Naming(problems).whole(script)
    derived = Problems(problems.file)
    script = _Naming(derived).whole(script)
    count = len(derived.sorted())
    if count:
        several = "+" if count == PROBLEMS_MAX else ""
        message = f"{count}{several} actions have no id; their ids are derived from type and number"
        problems.add("ID_DERIVED", message, script.at, severity="note")
    return script


def with_variable_ids(file: _File) -> _File:
    """Return a file of the first release with an id for every action: ``<type>_<variable>``, or ``<type>_<n>``."""
    return _Naming(None).whole(file)


class _Naming:
    """Derives ids, with the first variable of an action if there are no `problems` to report them to."""

    def __init__(self, problems: Problems | None) -> None:
        self._problems = problems

    def whole(self, file: _File) -> _File:
        named = replace(
            file,
            skills=tuple(map(self._within, file.skills)),
            interrupts=tuple(map(self._within, self._interrupts(file))),
            detectors=tuple(map(self._within, file.detectors)),
        )
        if isinstance(named, Script):
            phases = (replace(phase, topics=tuple(map(self._within, phase.topics))) for phase in named.phases)
            on_budget = _name_all(named.on_budget, self._fresh({each.id for each in walk(named.on_budget)}))
            named = replace(named, phases=tuple(phases), on_budget=on_budget)
        return named

    def _interrupts(self, file: Script | IncludeFile) -> Iterator[Interrupt]:
        fresh = self._fresh({each.id for each in file.interrupts})
        for each in file.interrupts:
            yield each if each.id else replace(each, id=fresh("interrupt", "", each.at))

    def _within(self, owner: _Owner) -> _Owner:
        used_ids = {action.id for action in walk(owner.actions)}
        return replace(owner, actions=_name_all(owner.actions, self._fresh(used_ids)))

    def _fresh(self, used_ids: set[str]) -> _Fresh:
        counts: dict[str, Iterator[str]] = {}

        def fresh(kind: str, variable: str, at: Location) -> str:
            start = f"{kind}_{variable}" if variable and self._problems is None else kind
            if start not in counts:
                numbered = (f"{start}_{n}" for n in itertools.count(1 if start == kind else 2))
                counts[start] = numbered if start == kind else itertools.chain((start,), numbered)
            name = next(name for name in counts[start] if name not in used_ids)
            used_ids.add(name)
            if self._problems is not None:
                message = f"this `{kind}` has no id; its derived id is {name}"
                self._problems.add("ID_DERIVED", message, at, fix=f"Add `id: {name}`.")
            return name

        return fresh


def _name_all(actions: tuple[Action, ...], fresh: _Fresh) -> tuple[Action, ...]:
    return tuple(_name_action(action, fresh) for action in actions)


def _name_action(action: Action, fresh: _Fresh) -> Action:
    named = action
    if not action.id:
        named = replace(action, id=fresh(action_type(action), _variable_of(action), action.at))
    return with_arms(named, lambda inner: _name_all(inner, fresh))


def _variable_of(action: Action) -> str:
    """Return the first variable that an action sets, or an empty text."""
    match action:
        case actions.Choose():
            return action.variable
        case actions.Set():
            return next(iter(action.assignments), "")
        case actions.Add():
            return next(iter(action.additions), "")
        case actions.Call():
            return next(iter(action.output), "")
        case actions.CallTool() if action.into is not None:
            return next(iter(action.into.variables), "")
        case actions.Recall():
            return action.into
        case actions.Experiment():
            return action.plan
        case _:
            return next((item.variable for item in outputs_of(action)), "")

"""An id for every action: sessions, migrations and statistics know actions by id, never by place."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from scripts.actions import Action, Choose, Experiment, Foreach, If, Repeat, action_type, walk
from scripts.diagnostics import PROBLEMS_MAX, Problems
from scripts.model import Detector, Interrupt, Script, Skill, Topic
from scripts.nodes import Location


def with_ids(script: Script, problems: Problems) -> Script:
    """The script with an id for every action: ``<type>_<n>`` within its topic where the author gave none.

    Nobody writes ids in the stage form; there one note stands for all of them.
    """
    if script.form == "stage":
        derived = Problems(problems.file)
        script = _with_ids(script, derived)
        count = len(derived.sorted())
        if count:
            message = (
                f"{count}{'+' * (count == PROBLEMS_MAX)} actions have no id; they are called by their kind and number"
            )
            problems.add("ID_DERIVED", message, script.at, severity="note")
        return script
    return _with_ids(script, problems)


def _with_ids(script: Script, problems: Problems) -> Script:
    return msgspec.structs.replace(
        script,
        phases=tuple(
            msgspec.structs.replace(phase, topics=tuple(_named_within(topic, problems) for topic in phase.topics))
            for phase in script.phases
        ),
        skills=tuple(_named_within(skill, problems) for skill in script.skills),
        interrupts=tuple(_named_within(each, problems) for each in _named_interrupts(script, problems)),
        detectors=tuple(_named_within(each, problems) for each in script.detectors),
        on_budget=_named(script.on_budget, _derived_ids({each.id for each in walk(script.on_budget)}, problems)),
    )


def _named_interrupts(script: Script, problems: Problems) -> Iterator[Interrupt]:
    fresh = _derived_ids({each.id for each in script.interrupts}, problems)
    for each in script.interrupts:
        yield each if each.id else msgspec.structs.replace(each, id=fresh("interrupt", each.at))


_Owner = TypeVar("_Owner", Topic, Skill, Interrupt, Detector)


def _named_within(owner: _Owner, problems: Problems) -> _Owner:
    taken = {action.id for action in walk(owner.actions)}
    return msgspec.structs.replace(owner, actions=_named(owner.actions, _derived_ids(taken, problems)))


def _derived_ids(taken: set[str], problems: Problems) -> Callable[[str, Location], str]:
    counts: dict[str, Iterator[str]] = {}

    def fresh(kind: str, at: Location) -> str:
        names = counts.setdefault(kind, (f"{kind}_{n}" for n in range(1, 1_000_000)))
        name = next(name for name in names if name not in taken)
        problems.add("ID_DERIVED", f"this `{kind}` has no id; it is called {name}", at, fix=f"Add `id: {name}`.")
        return name

    return fresh


def _named(actions: tuple[Action, ...], fresh: Callable[[str, Location], str]) -> tuple[Action, ...]:
    return tuple(_named_action(action, fresh) for action in actions)


def _named_action(action: Action, fresh: Callable[[str, Location], str]) -> Action:
    named = action if action.id else msgspec.structs.replace(action, id=fresh(action_type(action), action.at))
    match named:
        case If():
            return msgspec.structs.replace(
                named, then=_named(named.then, fresh), otherwise=_named(named.otherwise, fresh)
            )
        case Experiment():
            return msgspec.structs.replace(named, arms={arm: _named(inner, fresh) for arm, inner in named.arms.items()})
        case Foreach() | Repeat():
            return msgspec.structs.replace(named, do=_named(named.do, fresh))
        case Choose():
            choices = tuple(
                msgspec.structs.replace(choice, actions=_named(choice.actions, fresh)) for choice in named.choices
            )
            return msgspec.structs.replace(named, choices=choices)
        case _:
            return named

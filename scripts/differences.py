"""What is otherwise in another version of a script, by ids: what was added, removed and changed, sessions or not.

What of it a session of the earlier version could miss is told by `scripts.changes`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from scripts.actions import Action
from scripts.changes import Outline
from scripts.model import Detector, Interrupt, Phase, Script, Skill, Topic
from scripts.native_yaml import without_places
from scripts.renames import DETECTORS, INTERRUPTS, Path, Renames, written

What: TypeAlias = Literal["script", "phase", "topic", "action", "skill", "interrupt", "detector", "variable"]
How: TypeAlias = Literal["added", "removed", "changed"]

_Part: TypeAlias = Phase | Topic | Action | Skill | Interrupt | Detector


class Difference(Struct, frozen=True):
    """One thing that is otherwise. `path` is that in the later version, of what was removed in the earlier."""

    what: What
    how: How
    path: str
    was: str = ""
    """Its path in the earlier version, where it was another."""


def differences(old: Script, new: Script) -> tuple[Difference, ...]:
    """Every difference between two versions: of the script and its parts, then of the variables they declare."""
    return (*_of_parts(old, new), *_of_variables(old, new))


def _of_parts(old: Script, new: Script) -> Iterator[Difference]:
    renames, before, after = Renames(old, new), _parts(old), _parts(new)
    became = {path: renames.path(path) for path in before}
    for path in [path for path in before if became[path] not in after]:
        yield Difference(_what(path), "removed", written(path))
    earlier = {last: path for path, last in became.items() if last is not None}
    for path, part in after.items():
        was = earlier.get(path)
        if was is None:
            yield Difference(_what(path), "added", written(path))
        elif was != path or _own(before[was]) != _own(part):
            yield Difference(_what(path), "changed", written(path), written(was) if was != path else "")


def _parts(script: Script) -> Mapping[Path, Struct]:
    """Everything in a script that has an id of its own, and the script."""
    found: dict[Path, Struct] = {(): script}
    for phase in script.phases:
        found[phase.id,] = phase
        found |= {(phase.id, topic.id): topic for topic in phase.topics}
    found |= {("", skill.id): skill for skill in script.skills}
    found |= {(INTERRUPTS, interrupt.id): interrupt for interrupt in script.interrupts}
    found |= {(DETECTORS, detector.id): detector for detector in script.detectors}
    return found | {path: spot.action for path, spot in Outline(script).actions.items()}


def _what(path: Path) -> What:
    match len(path):
        case 0:
            return "script"
        case 1:
            return "phase"
        case 2:
            return _BESIDE.get(path[0], "topic")
        case _:
            return "action"


_BESIDE: Mapping[str, What] = {"": "skill", INTERRUPTS: "interrupt", DETECTORS: "detector"}


def _own(part: Struct) -> Struct:
    """What is said of a part itself: without its place in the file, and of the parts within it only the ids.

    The variables it declares are told for themselves.
    """
    changed = {name: _ids(getattr(part, name)) for name in part.__struct_fields__ if name not in _APART}
    return without_places(replace(part, **changed | dict.fromkeys(_APART & set(part.__struct_fields__), ())))


_APART = {"declare", "params", "migrations"}


def _ids(value: Any) -> Any:
    match value:
        case _ if isinstance(value, _Part):
            return value.id
        case tuple():
            return tuple(_ids(item) for item in value)
        case dict():
            return {key: _ids(item) for key, item in value.items()}
        case Struct():
            return replace(value, **{name: _ids(getattr(value, name)) for name in value.__struct_fields__})
        case _:
            return value


# -- variables --------------------------------------------------------------------------------------------------------


def _of_variables(old: Script, new: Script) -> Iterator[Difference]:
    renames = Renames(old, new)
    before = {
        (renames.path(scope), renames.variable(each.var)): (scope, each)
        for scope, (_, declared) in Outline(old).scopes.items()
        for each in declared
    }
    after = {(scope, each.var): each for scope, (_, declared) in Outline(new).scopes.items() for each in declared}
    for place, (scope, declaration) in before.items():
        if place not in after:
            yield Difference("variable", "removed", _variable(scope, declaration.var))
    for (scope, name), declaration in after.items():
        was = before.get((scope, name))
        if was is None:
            yield Difference("variable", "added", _variable(scope, name))
        elif was[1].var != name or without_places(was[1]) != without_places(declaration):
            earlier = _variable(was[0], was[1].var)
            path = _variable(scope, name)
            yield Difference("variable", "changed", path, earlier if earlier != path else "")


def _variable(scope: Path, name: str) -> str:
    return "/".join(part for part in (written(scope), name) if part)

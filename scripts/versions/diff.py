"""Compare two versions of a script by ids: additions, removals and changes, whether they affect sessions or not.

`scripts.versions.breaking_changes` reports the changes that affect sessions of the earlier version.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from scripts.model.actions import Action
from scripts.model.base import rebuild, without_places
from scripts.model.script import BESIDE, Path, Script, ScriptNode, nodes
from scripts.versions.breaking_changes import Outline
from scripts.versions.rename_map import Renames, format_path

What: TypeAlias = Literal["script", "phase", "topic", "action", "skill", "interrupt", "detector", "variable"]
How: TypeAlias = Literal["added", "removed", "changed"]


class ScriptDifference(Struct, frozen=True):
    """One difference. `path` is the path in the later version, or in the earlier version for a removal."""

    what: What
    how: How
    path: str
    was: str = ""
    """Its path in the earlier version, if it differs."""


class _Part(Struct, frozen=True):
    """A part of a version: its path as authors write it, and its content without its children."""

    what: What
    path: str
    content: Struct


def differences(old: Script, new: Script) -> tuple[ScriptDifference, ...]:
    """Return every difference between two versions: of the script and its parts, then of declared variables."""
    renames = Renames(old, new)
    parts = [(renames.path(path), part) for path, part in _parts(old).items()]
    variables = {(renames.path(scope), renames.variable(name)): part for (scope, name), part in _variables(old).items()}
    return (*_compare_parts(parts, _parts(new)), *_compare_parts(variables.items(), _variables(new)))


def _compare_parts(before: Iterable[tuple[Any, _Part]], after: Mapping[Any, _Part]) -> Iterator[ScriptDifference]:
    """Compare parts by their place in the later version."""
    for place, part in before:
        if place not in after:
            yield ScriptDifference(part.what, "removed", part.path)
    earlier = dict(before)
    for place, part in after.items():
        was = earlier.get(place)
        if was is None:
            yield ScriptDifference(part.what, "added", part.path)
        elif was != part:
            yield ScriptDifference(part.what, "changed", part.path, was.path if was.path != part.path else "")


def _parts(script: Script) -> Mapping[Path, _Part]:
    """Return every part of a script that has an id, and the script."""
    actions = {path: spot.action for path, spot in Outline(script).actions.items()}
    found: Mapping[Path, Struct] = {(): script, **dict(nodes(script)), **actions}
    return {path: _Part(_what(path), format_path(path), _own(part)) for path, part in found.items()}


def _variables(script: Script) -> Mapping[tuple[Path, str], _Part]:
    """Return every declared variable by scope and name."""
    return {
        (scope, each.var): _Part("variable", format_path((*scope, each.var)), without_places(each))
        for scope, (_, declared) in Outline(script).scopes.items()
        for each in declared
    }


def _what(path: Path) -> What:
    if len(path) == 2:
        return BESIDE.get(path[0], "topic")
    return "script" if not path else "phase" if len(path) == 1 else "action"


def _own(part: Struct) -> Struct:
    """Return the content of a part without locations, and only the ids of its children.

    The variables that it declares are compared separately.
    """
    changed = {name: _ids(getattr(part, name)) for name in part.__struct_fields__ if name not in _APART}
    return without_places(replace(part, **changed | dict.fromkeys(_APART & set(part.__struct_fields__), ())))


_APART = {"declare", "params", "migrations"}


def _ids(value: Any) -> Any:
    return value.id if isinstance(value, ScriptNode | Action) else rebuild(value, _ids)

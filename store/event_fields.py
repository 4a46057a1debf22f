"""What of an event holds no words of a person: the one list that retention and masking keep to.

It names what stays, kind by kind, never what goes: a field or a kind that is not here is dropped. Ids, numbers and
words of closed sets stay; what was said, known, noted, asked or given as a reason does not.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

_EACH = "[]"
_ACTION = ("action_id", "action_type", "skill", "interrupt", "detector")
_SCOPE = ("scope", "id", "entry")

EVENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "message": ("message",),
    "variable": ("variable",),
    "scope_entered": _SCOPE,
    "scope_left": _SCOPE,
    "scope_skipped": ("scope", "id"),
    "action_entered": _ACTION,
    "action_left": ("action_id", "rounds", "skill", "interrupt", "detector"),
    "action_skipped": _ACTION,
    "variant": ("action_id", "index"),
    "exit": ("action_id", "source"),
    "judged": ("action_id", "round", "progress", "understanding", "has_questions", "exit"),
    "jump": ("action_id", "phase_id", "topic_id"),
    "wait": ("action_id", "wait.kind", "wait.begins"),
    "warning": ("code", "action_id"),
    "interrupted": ("interrupt", "action_id"),
    "repaired": ("repair", "action_id", "variables"),
    "detected": ("detector", "label", "score", "severity", "by", "message"),
    "exposed": ("action_id", "experiment", "arm", "by"),
    "emitted": ("action_id", "event"),
    "remembered": ("unit_id", "action_id", "trust", "pinned"),
    "recalled": ("action_id", "by", "k", "units[].unit_id", "units[].trust", "units[].score"),
    "migrated": ("verdict", "old_place", "new_place"),
    "intervention": ("what", "scope", "turn", "first", "last", "keep"),
    "resized": ("strategy", "type", "after", "summary_to", "memo_to", "by", "tokens"),
    "ended": ("by", "action_id"),
}
"""By kind the fields of its data that stay; `a.b` is a field of an object, `a[].b` one of each object in a list."""


def kept_of_event(kind: str, data: str) -> str:
    """SQL for what stays of an event's data, a JSON object; `kind` and `data` are SQL for its kind and its data."""
    by_fields: dict[tuple[str, ...], list[str]] = {}
    for name, fields in EVENT_FIELDS.items():
        if fields:
            by_fields.setdefault(fields, []).append(f"'{name}'")
    cases = " ".join(
        f"WHEN {kind} IN ({', '.join(names)}) THEN {kept_fields(data, fields)}" for fields, names in by_fields.items()
    )
    return f"CASE {cases} ELSE '{{}}'::JSON END"


def kept_fields(data: str, fields: Sequence[str]) -> str:
    """SQL for a JSON object with these fields of another one, those that it has and that are not null.

    The object is parsed once: a state has 30 fields that stay, and each look into it would parse all of it.
    """
    tree = _tree(fields)
    shape = msgspec.json.encode(_shape(tree)).decode()
    return f"list_transform([from_json({data}, '{shape}')], lambda kept: {_kept('kept', tree)})[1]"


_Tree: TypeAlias = dict[str, "_Tree"]
"""Fields by name, `a[]` being a list of objects; a field within which nothing is named is kept as it is."""


def _tree(fields: Sequence[str]) -> _Tree:
    tree: _Tree = {}
    for field in fields:
        below = tree
        for name in field.split("."):
            below = below.setdefault(name, {})
    return tree


def _shape(tree: _Tree) -> dict[str, object]:
    """The structure that `from_json` reads."""
    return {
        name.removesuffix(_EACH): ([_shape(within)] if name.endswith(_EACH) else _shape(within)) if within else "JSON"
        for name, within in tree.items()
    }


def _kept(struct: str, tree: _Tree) -> str:
    pairs = ", ".join(f"'{name.removesuffix(_EACH)}', {_kept_field(struct, name, tree[name])}" for name in tree)
    return f"json_merge_patch('{{}}', json_object({pairs}))"  # which leaves out what is null


def _kept_field(struct: str, name: str, within: _Tree) -> str:
    place = f"{struct}.{name.removesuffix(_EACH)}"
    if not within:
        return place
    if name.endswith(_EACH):
        each = f"{struct}_each"
        return f"list_transform({place}, lambda {each}: {_kept(each, within)})"
    return f"nullif({_kept(place, within)}, '{{}}'::JSON)"

"""SQL that reduces a JSON object to some of its fields, such as an event to those that contain no personal text."""

from collections.abc import Sequence

import msgspec

from store.interface.event_fields import EACH, EVENT_FIELDS, FieldTree, field_tree


def remaining_event() -> str:
    """Return SQL for the retained fields of an event: of its column `data`, a JSON object, by its column `kind`."""
    by_fields: dict[tuple[str, ...], list[str]] = {}
    for name, fields in EVENT_FIELDS.items():
        if fields:
            by_fields.setdefault(fields, []).append(f"'{name}'")
    cases = " ".join(
        f"WHEN kind IN ({', '.join(names)}) THEN {remaining_fields('data', fields)}"
        for fields, names in by_fields.items()
    )
    return f"CASE {cases} ELSE '{{}}'::JSON END"


def remaining_fields(data: str, fields: Sequence[str]) -> str:
    """Return SQL for a JSON object with these fields of another one; fields that are missing or null are left out.

    The object is parsed once: each access to a field of it would parse all of it.
    """
    tree = field_tree(fields)
    shape = msgspec.json.encode(_shape(tree)).decode()
    return f"list_transform([from_json({data}, '{shape}')], lambda fields: {_remaining('fields', tree)})[1]"


def _shape(tree: FieldTree) -> dict[str, object]:
    """Return the structure of the tree, as `from_json` expects it."""
    return {
        name.removesuffix(EACH): ([_shape(within)] if name.endswith(EACH) else _shape(within)) if within else "JSON"
        for name, within in tree.items()
    }


def _remaining(struct: str, tree: FieldTree) -> str:
    pairs = ", ".join(f"'{name.removesuffix(EACH)}', {_remaining_field(struct, name, tree[name])}" for name in tree)
    return f"json_merge_patch('{{}}', json_object({pairs}))"  # the merge removes null fields


def _remaining_field(struct: str, name: str, within: FieldTree) -> str:
    path = f"{struct}.{name.removesuffix(EACH)}"
    if not within:
        return path
    if name.endswith(EACH):
        each = f"{struct}_each"
        return f"list_transform({path}, lambda {each}: {_remaining(each, within)})"
    return f"nullif({_remaining(path, within)}, '{{}}'::JSON)"

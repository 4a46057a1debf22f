"""The fields of events that contain no personal text: the one list that retention and masking follow.

`event_fields.yaml` lists the retained fields by kind of event; a field or a kind that is not listed is removed. Ids,
numbers and values of closed sets are retained. Texts, values, notes, questions and reasons are removed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

EVENT_FIELDS: Mapping[str, tuple[str, ...]] = msgspec.yaml.decode(
    Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, tuple[str, ...]]
)
"""The retained fields of the data, by kind; `a.b` is a field of an object, `a[].b` one of each object in a list."""

EACH = "[]"
"""The end of the name of a field that is a list of objects."""
FieldTree: TypeAlias = dict[str, "FieldTree"]
"""Fields by name, `a[]` being a list of objects; a field with an empty tree is retained unchanged."""


def field_tree(fields: Sequence[str]) -> FieldTree:
    """Return the tree of fields that are named by their paths."""
    tree: FieldTree = {}
    for field in fields:
        below = tree
        for name in field.split("."):
            below = below.setdefault(name, {})
    return tree

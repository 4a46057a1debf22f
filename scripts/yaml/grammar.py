"""The types of the model as a grammar: the keys of each type in a language, and the texts that stand for a mapping."""

import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from msgspec import Meta, Struct

from scripts.model import actions, languages
from scripts.model.languages import Language
from scripts.model.script import After
from scripts.yaml.given_values import plain_literals, with_placeholders
from scripts.yaml.parser import Tree

ALIASES = {"condition": "when"}
SHORTHANDS = {
    "Declaration": "var",
    "Output": "get",
    "Media": "image",
    "Until": "until",
    "Signal": "event",
    "Repair": "repair",
    "FormField": "field",
    "Arm": "arm",
    "Translation": "text",
    "Line": "content",
    "ModelTool": "tool",
    "Context": "strategy",
    "MemoryPlan": "strategy",
    "CaseMemory": "text",
    "Moment": "after",
    "Validation": "unless",
    "Exit": "said",
    "Ending": "reason",
    "TechniqueInput": "name",
}
"""For these types, a text stands for a mapping with only this key."""


class Field(Struct, frozen=True):
    """A field of a type, as it is written."""

    name: str
    key: str
    annotation: Any
    required: bool
    instead: str  # the key that replaces this obsolete key
    older: str  # the key in the older native language
    newer: str  # the key in a file with `cuebook: 1`
    plain: Callable[[Tree], Tree] | None  # reads marks in a plain value


@cache
def fields_of(kind: type[Struct], language: Language = "older") -> dict[str, Field]:
    """Return the fields of a Struct by their keys."""
    found = {}
    for each in languages.fields_in(language, kind):
        if each.name in {"at", "marks", "labels"}:
            continue
        instead = ""
        for meta in metas_of(each.type):
            instead = (meta.extra or {}).get("instead", instead)
        key = languages.key_in(language, kind, each)
        older, newer = languages.older_key(kind, each), languages.key_in("1", kind, each)
        plain: Callable[[Tree], Tree] | None = None
        if language == "1" and languages.takes_literals(each):
            plain = plain_literals
        elif language == "1" and languages.takes_placeholders(kind, each):
            plain = with_placeholders
        found[key] = Field(each.name, key, each.type, each.required, instead, older, newer, plain)
    return found


def metas_of(annotation: Any) -> Sequence[Meta]:
    """Return the constraints and marks of an annotation."""
    if get_origin(annotation) is Annotated:
        return [meta for meta in get_args(annotation)[1:] if isinstance(meta, Meta)]
    if get_origin(annotation) in {Union, types.UnionType}:
        return [meta for part in get_args(annotation) for meta in metas_of(part)]
    return []


@cache
def first_key(kind: type[Struct], language: Language) -> str:
    """Return the key that identifies this type within a union: its first required key.

    `choose` identifies its action in both languages, also where it is not the key of the variable.
    """
    fields = fields_of(kind, language)
    first = next(field for field in fields.values() if field.required)
    return first.older if first.older in fields else first.key


Continuation: TypeAlias = actions.AfterRounds | After | actions.Onward | actions.FailureExit
POLICIES: Mapping[type[Struct], type[Continuation]] = {
    actions.Policy: actions.Onward,
    actions.OnFail: actions.AfterRounds,
    actions.OnToolFailure: actions.FailureExit,
}
"""The type of `then` in each policy, by which a policy without a text or actions is written."""


def policy_words(kind: type[Continuation]) -> tuple[str, ...]:
    """Return the words for the policies of a type, except `goto`, which needs a target."""
    return tuple(word for word in get_args(fields_of(kind)["policy"].annotation) if word != "goto")


@cache
def by_first_key(members: tuple[type[Struct], ...], language: Language) -> dict[str, type[Struct]]:
    """Return the types of a union by the keys that identify them."""
    return {first_key(member, language): member for member in members if member is not actions.OwnAction}


def shorthand_of(members: Sequence[type[Struct]]) -> type[Struct] | None:
    """Return the type of a union for which a text may stand, or None."""
    return next((kind for kind in members if kind.__name__ in SHORTHANDS), None)

"""The keys that differ between the language of the first release (`cuebook: 1`) and the older native one.

The fields of the model have the older keys; `KEYS` is the only list of those that differ.
"""

from collections.abc import Collection, Mapping
from functools import cache
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from scripts.model import actions
from scripts.model.actions import ACTION_TYPES
from scripts.model.base import Assigned, Expression, Template, written_key
from scripts.model.older_keys import OlderExits, OlderSpeech
from scripts.model.variables import Output, Records

Language: TypeAlias = Literal["older", "1"]
"""What a native file is written in: `cuebook: 1`, or the native language before it."""

LANGUAGE_KEY = "cuebook"
MAIN = "main"
"""The id of the phase, and of its topic, in a script of the first release with `actions` instead of `phases`."""
_ASKING = {"output": "into", "max_rounds": "rounds"}
KEYS: Mapping[type[Struct], Mapping[str, str]] = {
    actions.AiSay: {"max_rounds": "utterances", "require_acknowledgment": "acknowledge"},
    actions.Ask: _ASKING,
    actions.AiAsk: _ASKING,
    actions.AiThink: {"output": "into"},
    actions.Choose: {"choose": "into", "question": "choose", "max_rounds": "rounds"},
    actions.ChoiceItem: {"actions": "do"},
    actions.Form: {"max_rounds": "rounds"},
    actions.Chat: {"max_rounds": "rounds"},
    actions.Call: {"input": "with", "output": "into"},
    Output: {"get": "var"},
    Records: {"tolist": "add_to"},
}
"""By type, the keys of the first release by the older key."""

OLDER_KEYS: Mapping[type[Struct], type[OlderSpeech | OlderExits]] = {
    actions.AiSay: OlderSpeech,
    actions.AiAsk: OlderExits,
    actions.Chat: OlderExits,
}
"""By action, the older keys that stand for some of its fields."""

REPLACED: Mapping[str, str] = {
    "exit_when": "exit: {when: …}",
    "exit_criteria": "exit: {said, when, understanding, no_questions, min_rounds}",
    "understanding_threshold": "understanding",
    "has_questions": "no_questions",
    "custom_conditions": "when",
}
"""What the first release has instead of older keys with another form."""

_LITERAL_KEYS = frozenset({"value", "default", "min", "max", "choices"})
_MEMORY_KEYS = frozenset({"metadata", "filters"})


def key_in(language: Language, kind: type[Struct], field: FieldInfo) -> str:
    """Return the key of a field in a file of this language."""
    key = written_key(field)
    return KEYS.get(kind, {}).get(key, key) if language == "1" else key


def fields_in(language: Language, kind: type[Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields that a file of this language may give to a type."""
    own = fields(kind)
    if language == "1" or kind not in OLDER_KEYS:
        return own
    older = [each for each in fields(OLDER_KEYS[kind]) if each.name not in {"at", "marks"}]
    replaced = OLDER_KEYS[kind]().fields
    return (*(each for each in own if each.name not in replaced), *older)


@cache
def action_keys() -> frozenset[str]:
    """Return the keys of actions, in either language, that are not names of actions: `into`, `when` …"""
    both: tuple[Language, ...] = ("older", "1")
    kinds = ACTION_TYPES.values()
    found = {key_in(language, kind, each) for language in both for kind in kinds for each in fields_in(language, kind)}
    return frozenset(found - ACTION_TYPES.keys())


def older_key(kind: type[Struct], field: FieldInfo) -> str:
    """Return the key of a field in an older file, if it is another one."""
    key = written_key(field)
    return next((older for older, new in KEYS.get(kind, {}).items() if new == key and kind is actions.AiSay), key)


def takes_literals(field: FieldInfo) -> bool:
    """Return whether a field has plain values, so that an expression marked by `=` is a mistake there."""
    has_texts = field.encode_name != "choices" or field.type == tuple[str, ...]
    is_marked = field.type == Assigned or computable(get_args(field.type))
    return field.encode_name in _LITERAL_KEYS and has_texts and not is_marked


def takes_placeholders(kind: type[Struct], field: FieldInfo) -> bool:
    """Return whether the texts of a field's values have placeholders; a text that is only one is an expression."""
    return kind in {actions.Remember, actions.Recall} and field.name in _MEMORY_KEYS


def computable(members: Collection[Any]) -> bool:
    """Return whether a value of one of these types is a literal or, if it is marked by `=`, an expression."""
    others = set(members) - {Expression, NoneType}
    return Expression in members and bool(others) and Template not in others

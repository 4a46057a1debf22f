"""Rename variables of a script in all places that read or write them."""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scripts.expressions.values import Value
from scripts.formats.placeholders import variable_reference
from scripts.model.actions import Call, OwnAction
from scripts.model.base import Expression, Template, Variable, rebuild
from scripts.model.own_actions import variables_of
from scripts.model.script import FormField, Script, Skill
from scripts.model.variable_names import NAMES_AS_KEYS, name_field
from scripts.model.variables import Declaration

_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def with_names(node: Any, new: Mapping[str, str]) -> Any:
    """Return a script, or a part of it, with some of its variables renamed."""
    match node:
        case Template():
            source = _PLACEHOLDER.sub(lambda found: _replace(found[0], new), node.source)
            return replace(node, source=source)
        case Expression():
            return replace(node, source=_replace(node.source, new))
        case Struct():
            inside = rebuild(node, lambda part: with_names(part, new))
            changed: dict[str, Any] = {}
            if name := name_field(node):
                changed[name] = new.get(getattr(node, name), getattr(node, name))
            for field, variable in variables_of(node) if isinstance(node, OwnAction) else ():
                changed[field] = Variable(new.get(variable.name, variable.name), variable.at)
            for key in NAMES_AS_KEYS.get(type(node), ()):
                changed[key] = {new.get(name, name): value for name, value in getattr(inside, key).items()}
            if isinstance(node, Declaration):
                changed["value"] = _with_fields(node.value, new)
            if isinstance(node, FormField) and not isinstance(node.default, Expression):
                changed["default"] = _with_fields(node.default, new)
            if isinstance(node, Call):
                changed["output"] = {name: new.get(source, source) for name, source in changed["output"].items()}
            if isinstance(node, Skill):
                changed["returns"] = tuple(new.get(name, name) for name in node.returns)
            if isinstance(node, Script):  # these are in files of their own
                changed |= {"globals": node.globals, "strings": node.strings, "tools": node.tools}
            return replace(inside, **changed)
        case _:
            return rebuild(node, lambda part: with_names(part, new))


def _replace(source: str, new: Mapping[str, str]) -> str:
    """Return a source with variables and fields (`item["old"]`, `{"old": 1}`) renamed exactly, not in other texts."""
    words = {variable_reference(old): word for old, word in new.items()}
    fields = {json.dumps(old, ensure_ascii=False): json.dumps(word, ensure_ascii=False) for old, word in new.items()}
    field = "|".join(map(re.escape, fields))
    whole = [*map(re.escape, words), _TEXT]
    either = re.compile(rf"(?P<field>(?<=[\w\])]\[)(?:{field})(?=\])|(?:{field})(?=\s*:))|{'|'.join(whole)}")
    return either.sub(lambda found: (fields if found["field"] else words).get(found[0], found[0]), source)


def _with_fields(value: Value, new: Mapping[str, str]) -> Value:
    """Return a value with the fields of its records renamed."""
    match value:
        case list():
            return [_with_fields(each, new) for each in value]
        case dict():
            return {new.get(name, name): _with_fields(each, new) for name, each in value.items()}
        case _:
            return value

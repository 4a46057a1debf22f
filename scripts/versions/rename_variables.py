"""Rename variables of a script in all places that read or write them."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from scripts.expressions.values import Value
from scripts.formats.placeholders import reference
from scripts.model.actions import Add, Call, Choose, Into, Loop, OwnAction, Recall, Set
from scripts.model.base import NOWHERE, Expression, Location, Template, Variable, rebuilt
from scripts.model.own_actions import variables_of
from scripts.model.script import FormField, Script, Skill
from scripts.model.variables import Assignment, Declaration, Output, Records

_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_NAMED: Mapping[type[Struct], str] = {
    Output: "get",
    Assignment: "set",
    Records: "tolist",
    Choose: "variable",
    Recall: "into",
    FormField: "name",
    Loop: "name",
}
_KEYED: Mapping[type[Struct], tuple[str, ...]] = {
    Set: ("assignments",),
    Add: ("additions",),
    Call: ("input", "output"),
    Into: ("variables",),
}


def _name_field(node: Struct) -> str:
    return "var" if isinstance(node, Declaration) else _NAMED.get(type(node), "")


def written_names(node: Any, near: Location = NOWHERE) -> Iterator[tuple[str, Location]]:
    """Return the names that a script writes with their locations, except globals, which are in files of their own."""
    match node:
        case Struct():
            at = getattr(node, "at", NOWHERE)
            near = near if at == NOWHERE else at
            if name := _name_field(node):
                yield getattr(node, name), near
            for key in _KEYED.get(type(node), ()):
                yield from ((name, near) for name in getattr(node, key))
            for field in node.__struct_fields__:
                if field not in {"globals", "strings", "at", "marks"}:
                    yield from written_names(getattr(node, field), near)
        case tuple():
            for each in node:
                yield from written_names(each, near)
        case _:
            pass


def with_names(script: Script, new: Mapping[str, str]) -> Script:
    """Return the script with some of its variables renamed."""
    return cast(Script, _with_names(script, new))


def _with_names(node: Any, new: Mapping[str, str]) -> Any:
    match node:
        case Template():
            source = _PLACEHOLDER.sub(lambda found: _replaced(found[0], new), node.source)
            return msgspec.structs.replace(node, source=source)
        case Expression():
            return msgspec.structs.replace(node, source=_replaced(node.source, new))
        case Struct():
            inside = rebuilt(node, lambda part: _with_names(part, new))
            changed: dict[str, Any] = {}
            if name := _name_field(node):
                changed[name] = new.get(getattr(node, name), getattr(node, name))
            for field, variable in variables_of(node) if isinstance(node, OwnAction) else ():
                changed[field] = Variable(new.get(variable.name, variable.name), variable.at)
            for key in _KEYED.get(type(node), ()):
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
            return msgspec.structs.replace(inside, **changed)
        case _:
            return rebuilt(node, lambda part: _with_names(part, new))


def _replaced(source: str, new: Mapping[str, str]) -> str:
    """Return a source with variables and fields (`item["old"]`, `{"old": 1}`) renamed exactly, not in other texts."""
    words = {reference(old): word for old, word in new.items()}
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

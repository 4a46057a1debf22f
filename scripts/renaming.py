"""Other names for the variables of a script, wherever they are written or read."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from scripts.actions import Call, Choose, CustomCondition, Loop, Set
from scripts.dialects.placeholders import reference
from scripts.model import FormField, Script, Skill
from scripts.nodes import NOWHERE, Expression, Location, Template
from scripts.variables import Assignment, Declaration, Output, Records

_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_NAMED: Mapping[type[Struct], str] = {
    Output: "get",
    CustomCondition: "variable",
    Assignment: "set",
    Records: "tolist",
    Choose: "variable",
    FormField: "name",
    Loop: "name",
}
_KEYED: Mapping[type[Struct], tuple[str, ...]] = {Set: ("assignments",), Call: ("input", "output")}


def _name_field(node: Struct) -> str:
    return "var" if isinstance(node, Declaration) else _NAMED.get(type(node), "")


def written_names(node: Any, near: Location = NOWHERE) -> Iterator[tuple[str, Location]]:
    """The names a script gives values to with the place of each, but for its globals, which have files of their own."""
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
    """The script with other names for some of its variables."""
    return cast(Script, _with_names(script, new))


def _with_names(node: Any, new: Mapping[str, str]) -> Any:
    words = {reference(old): word for old, word in new.items()}
    match node:
        case Template():
            source = _PLACEHOLDER.sub(lambda found: _replaced(found[0], words), node.source)
            return msgspec.structs.replace(node, source=source)
        case Expression():
            return msgspec.structs.replace(node, source=_replaced(node.source, words))
        case Struct():
            changed = {
                field: _with_names(getattr(node, field), new)
                for field in node.__struct_fields__
                if field not in {"globals", "strings", "marks", "at"}
            }
            if name := _name_field(node):
                changed[name] = new.get(getattr(node, name), getattr(node, name))
            for key in _KEYED.get(type(node), ()):
                changed[key] = {new.get(name, name): value for name, value in changed[key].items()}
            if isinstance(node, Call):
                changed["output"] = {name: new.get(source, source) for name, source in changed["output"].items()}
            if isinstance(node, Skill):
                changed["returns"] = tuple(new.get(name, name) for name in node.returns)
            return msgspec.structs.replace(node, **changed)
        case tuple():
            return tuple(_with_names(each, new) for each in node)
        case dict():
            return {key: _with_names(each, new) for key, each in node.items()}
        case _:
            return node


def _replaced(source: str, words: Mapping[str, str]) -> str:
    """A source with what stands for names replaced to the letter, but not inside of texts."""
    either = "|".join([*map(re.escape, words), _TEXT])
    return re.sub(either, lambda found: words.get(found[0], found[0]), source)

"""Every name of a variable that a script mentions anywhere: declared, set or read."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from scripts.expressions import compile_expression, compile_template
from scripts.model import Expression, FormField, Script, Template
from scripts.sandbox import ExpressionInvalid

_NAMING = ("var", "get", "set", "variable", "tolist")  # the fields of a node that hold a variable's name
_UNSEEN = frozenset({"at", "marks", "migrations", "strings"})


def names_in(script: Script) -> frozenset[str]:
    """The names of a script's variables, whatever kind of node mentions them."""
    return frozenset(_names(script))


def _names(value: Any) -> Iterator[str]:
    match value:
        case Template() | Expression():
            compiled = compile_template if isinstance(value, Template) else compile_expression
            with suppress(ExpressionInvalid):
                yield from compiled(value.source).reads
        case Struct():
            for field in value.__struct_fields__:
                part = getattr(value, field)
                if (field in _NAMING or (field == "name" and isinstance(value, FormField))) and isinstance(part, str):
                    yield part
                elif field == "returns":
                    yield from part
                elif field not in _UNSEEN:
                    if isinstance(part, Mapping):  # `set`, and the `output` of a call: by the names they fill
                        yield from part
                    yield from _names(part)
        case tuple():
            for part in value:
                yield from _names(part)
        case Mapping():
            for part in value.values():
                yield from _names(part)
        case _:
            pass

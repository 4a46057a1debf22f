"""The variables that nodes of a script name: those they read, and all they mention anywhere."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from scripts.actions import CustomCondition
from scripts.experiments import ExperimentPlan
from scripts.expressions import compile_expression, compile_template
from scripts.model import FormField, Script
from scripts.nodes import Expression, Template
from scripts.sandbox import ExpressionInvalid

_NAMING = ("var", "get", "set", "variable", "tolist")  # the fields of a node that hold a variable's name
_NAMES: Mapping[type[Struct], str] = {FormField: "name", ExperimentPlan: "id"}  # and those of particular nodes
_UNSEEN = frozenset({"at", "marks", "strings"})


def read_names(node: Any) -> Iterator[str]:
    """Every name that a node, or what it holds, reads, with repetitions. What does not compile reads nothing."""
    match node:
        case Template() | Expression():
            yield from _reads(node)
        case CustomCondition():
            yield node.variable
        case _:
            for part in _parts(node):
                yield from read_names(part)


def names_in(script: Script) -> frozenset[str]:
    """The names of a script's variables, whatever kind of node mentions them."""
    return frozenset(_names(script))


def _names(node: Any) -> Iterator[str]:
    match node:
        case Template() | Expression():
            yield from _reads(node)
        case Struct():
            for field in node.__struct_fields__:
                part = getattr(node, field)
                if (field in _NAMING or field == _NAMES.get(type(node))) and isinstance(part, str):
                    yield part
                elif field == "returns":
                    yield from part
                elif field not in _UNSEEN and field != "migrations":
                    if (
                        isinstance(part, Mapping) and field != "arms"
                    ):  # `set`, and the `output` of a call: by the names they fill
                        yield from part
                    yield from _names(part)
        case _:
            for part in _parts(node):
                yield from _names(part)


def _parts(node: Any) -> Iterator[Any]:
    """What a node, list or mapping holds."""
    match node:
        case Struct():
            yield from (getattr(node, field) for field in node.__struct_fields__ if field not in _UNSEEN)
        case tuple():
            yield from node
        case Mapping():
            yield from node.values()
        case _:
            pass


def _reads(source: Template | Expression) -> list[str]:
    try:
        compiled = compile_template if isinstance(source, Template) else compile_expression
        return sorted(compiled(source.source).reads)
    except ExpressionInvalid:  # scripts.check tells the author
        return []

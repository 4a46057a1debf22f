"""The variables that nodes of a script read or mention."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from scripts.expressions.sandbox import ExpressionInvalid
from scripts.model.actions import Recall, Remember
from scripts.model.base import Expression, Template, parts
from scripts.model.experiments import ExperimentPlan
from scripts.model.memory_plan import sources_in
from scripts.model.moments import DateValue
from scripts.model.script import FormField, Script, StringTable
from scripts.model.tools import ToolDefinition

_NAMING = ("var", "get", "set", "variable", "tolist")  # fields whose value is a variable's name
_NAMES: Mapping[type[Struct], str] = {FormField: "name", ExperimentPlan: "id"}  # such fields of particular nodes
_UNSEEN = frozenset({"at", "marks", "strings", "tools"})


def reads_below(node: Any) -> Iterator[Template | Expression]:
    """Yield every text and expression of a node and its children."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        match node:
            case Template() | Expression():
                yield node
                continue
            case DateValue(is_expression=True):
                yield node.expression
                continue
            case Remember(metadata=values) | Recall(filters=values):
                yield from sources_in(dict(values), node.at)
            case StringTable() | ToolDefinition():  # a tool reads its parameters, not variables
                continue
            case _:
                pass
        waiting += [part for part in reversed([*parts(node)]) if isinstance(part, (Struct, tuple, dict))]


def read_names(node: Any) -> Iterator[str]:
    """Yield every name that a node or its children read, with repetitions; invalid expressions yield nothing."""
    for each in reads_below(node):
        yield from _reads(each)


def names_in(script: Script) -> frozenset[str]:
    """Return the names of all variables that any node of a script mentions."""
    return frozenset(_names(script))


def _names(node: Any) -> Iterator[str]:
    match node:
        case Template() | Expression():
            yield from _reads(node)
        case DateValue(is_expression=True):
            yield from _reads(node.expression)
        case Struct():
            for field in node.__struct_fields__:
                part = getattr(node, field)
                if (field in _NAMING or field == _NAMES.get(type(node))) and isinstance(part, str):
                    yield part
                elif field == "returns":
                    yield from part
                elif field not in _UNSEEN and field != "migrations":
                    # the keys of `set` and of a call's `output` are variable names
                    if isinstance(part, Mapping) and field != "arms":
                        yield from part
                    yield from _names(part)
        case _:
            for part in parts(node):
                yield from _names(part)


def _reads(source: Template | Expression) -> list[str]:
    try:
        return sorted(source.compiled.reads)
    except ExpressionInvalid:  # scripts.checks.check reports it
        return []

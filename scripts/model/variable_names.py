"""The variables that nodes of a script read, write or mention."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from scripts.expressions.sandbox import ExpressionInvalid
from scripts.model.actions import Add, Call, Choose, Into, Loop, Recall, Remember, Set
from scripts.model.base import NOWHERE, Expression, Location, Template, parts
from scripts.model.memory_plan import sources_in
from scripts.model.moments import DateValue
from scripts.model.script import FormField, Script, StringTable
from scripts.model.tools import ToolDefinition
from scripts.model.variables import Assignment, Declaration, Output, Records

_NAMED: Mapping[type[Struct], str] = {
    Output: "get",
    Assignment: "set",
    Records: "tolist",
    Choose: "variable",
    Recall: "into",
    FormField: "name",
    Loop: "name",
}
NAMES_AS_KEYS: Mapping[type[Struct], tuple[str, ...]] = {
    Set: ("assignments",),
    Add: ("additions",),
    Call: ("input", "output"),
    Into: ("variables",),
}
"""The fields whose keys are names of variables."""


def name_field(node: Struct) -> str:
    """Return the field of a node that names the variable which it sets or declares, or an empty text."""
    return "var" if isinstance(node, Declaration) else _NAMED.get(type(node), "")


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
        waiting += [part for part in reversed([*parts(node)]) if part and isinstance(part, (Struct, tuple, dict))]


def read_names(node: Any) -> Iterator[str]:
    """Yield every name that a node or its children read, with repetitions; invalid expressions yield nothing."""
    for each in reads_below(node):
        try:
            yield from sorted(each.compiled.reads)
        except ExpressionInvalid:  # scripts.checks reports it
            continue


def written_names(node: Any, near: Location = NOWHERE) -> Iterator[tuple[str, Location]]:
    """Yield the names that a script writes with their locations, except globals, which are in files of their own."""
    match node:
        case Struct():
            at = getattr(node, "at", NOWHERE)
            near = near if at == NOWHERE else at
            if name := name_field(node):
                yield getattr(node, name), near
            for key in NAMES_AS_KEYS.get(type(node), ()):
                yield from ((name, near) for name in getattr(node, key))
            for field in node.__struct_fields__:
                if field not in {"globals", "strings", "at", "marks"}:
                    yield from written_names(getattr(node, field), near)
        case tuple() | dict():
            for each in parts(node):
                yield from written_names(each, near)


def names_in(script: Script) -> frozenset[str]:
    """Return the names of all variables that any node of a script mentions."""
    names = {name for name, _ in written_names((script, script.globals))} | set(read_names(script))
    names |= {plan.id for plan in script.experiments}
    return frozenset(names.union(*(skill.returns for skill in script.skills)))

"""The variables that the texts and expressions of a node read."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from scripts.expressions import compile_expression, compile_template
from scripts.model import CustomCondition, Expression, Template
from scripts.sandbox import ExpressionInvalid


def read_names(node: Any) -> Iterator[str]:
    """Every name that a node, or what it holds, reads, with repetitions. What does not compile reads nothing."""
    match node:
        case Template() | Expression():
            yield from _reads(node)
        case CustomCondition():
            yield node.variable
        case Struct():
            for name in node.__struct_fields__:
                if name not in {"strings", "at", "marks"}:
                    yield from read_names(getattr(node, name))
        case tuple():
            for each in node:
                yield from read_names(each)
        case dict():
            for each in node.values():
                yield from read_names(each)
        case _:
            pass


def _reads(source: Template | Expression) -> list[str]:
    try:
        compiled = compile_template if isinstance(source, Template) else compile_expression
        return sorted(compiled(source.source).reads)
    except ExpressionInvalid:  # scripts.check tells the author
        return []

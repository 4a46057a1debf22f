"""Find the variables that arithmetic uses in the syntax tree of a template or expression."""

from collections.abc import Iterable, Iterator

from jinja2 import nodes

from scripts.expressions.condition_algebra import GUARDING_FILTERS
from scripts.expressions.members import BUILTINS
from scripts.expressions.time_values import PLACES, SINCE, SPANS

_ONLY_NUMBERS = (nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow)
_ROUNDING = frozenset({"round", "abs"})  # what they are applied to is a number too
_NUMERIC = {"int", "float", "length", "count", "sum", *_ROUNDING, *(f"{name}()" for name in (*SINCE, *PLACES))}
_SPAN_CALLS = frozenset(f"{name}()" for name in SPANS)


def operands_of_differences(every: Iterable[nodes.Node]) -> Iterator[str]:
    """Yield the direct operands of differences, unless one side is a number or about time for certain."""
    for node in every:
        if isinstance(node, nodes.Sub):
            sides = node.left, node.right
            if not any(_is_number(side) or _is_time(side) for side in sides):
                yield from (name for side in sides for name in _operand(side))


def _is_time(node: nodes.Expr) -> bool:
    """Return whether an operand is a date or a duration for certain, so that the other one is no number."""
    match node:
        case nodes.Name(name=name):
            return name in {"today", "now"}
        case nodes.Filter(name=name):
            return name in _SPAN_CALLS
        case nodes.Add() | nodes.Sub():
            return _is_time(node.left) or _is_time(node.right)
        case nodes.Call(node=nodes.Getattr(node=holder)):
            return _is_time(holder)
        case _:
            return False


def is_duration(node: nodes.Node) -> bool:
    """Return whether a part of a source is a duration for certain, which can only be added to a date."""
    match node:
        case nodes.Filter(name=name):
            return name in _SPAN_CALLS
        case nodes.Add() | nodes.Sub():
            return is_duration(node.left) and is_duration(node.right)
        case nodes.Neg():
            return is_duration(node.node)
        case _:
            return False


def names_of_sums(every: Iterable[nodes.Node]) -> Iterator[frozenset[str]]:
    """Yield the names of each sum of several operands."""
    for node in every:
        if isinstance(node, nodes.Add):
            names = frozenset(name for each in _summands(node) for name in _operand(each)) - BUILTINS
            if len(names) > 1:
                yield names


def _summands(node: nodes.Expr) -> Iterator[nodes.Expr]:
    while isinstance(node, nodes.Add):
        yield node.right
        node = node.left
    yield node


def operands_of_arithmetic(every: Iterable[nodes.Node]) -> Iterator[str]:
    """Yield the direct operands of arithmetic; `a + b` of two names may also join texts and does not count."""
    for node in every:
        match node:
            case nodes.Neg(node=inner):
                yield from _operand(inner)
            case nodes.Filter(node=nodes.Expr() as inner) if node.name in _ROUNDING:
                yield from _operand(inner)
            case nodes.Filter(name="sum", node=nodes.List(items=items)):
                yield from (name for item in items for name in _operand(item))
            case nodes.Add() | nodes.Sub() if _is_number(node.left) or _is_number(node.right):
                yield from (*_operand(node.left), *_operand(node.right))
            case nodes.BinExpr() if isinstance(node, _ONLY_NUMBERS):
                yield from (*_operand(node.left), *_operand(node.right))


def _operand(node: nodes.Expr) -> Iterator[str]:
    """Yield the variable that an operand is, if it is one."""
    match node:
        case nodes.Name():
            yield node.name
        case nodes.Getitem(node=nodes.Name(name="vars"), arg=nodes.Const(value=str(name))):
            yield name
        case nodes.Filter() if node.name in GUARDING_FILTERS and node.node is not None:
            yield from _operand(node.node)


def _is_number(node: nodes.Expr) -> bool:
    match node:
        case nodes.Const(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case nodes.Add():
            return _is_number(node.left) or _is_number(node.right)
        case nodes.Sub():  # also of two dates
            return not (isinstance(node.right, nodes.Filter) and node.right.name in _SPAN_CALLS)
        case nodes.Filter():
            return node.name in _NUMERIC
        case _:
            return isinstance(node, (*_ONLY_NUMBERS, nodes.Neg))

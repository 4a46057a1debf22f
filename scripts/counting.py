"""The names that an expression counts with: where they stand, only numbers work."""

from collections.abc import Iterator

from jinja2 import nodes

from scripts.conditions import GUARDING_FILTERS
from scripts.members import BUILTINS

_ONLY_NUMBERS = (nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow)
_COUNTING_FILTERS = frozenset({"round", "abs"})


def counted_names(tree: nodes.Template) -> frozenset[str]:
    """The variables that stand directly in arithmetic; `a + b` of two names may as well join texts, and is none."""
    return frozenset(name for name in _counted(tree) if name not in BUILTINS)


def _counted(tree: nodes.Template) -> Iterator[str]:
    for node in tree.find_all((nodes.BinExpr, nodes.Neg, nodes.Filter)):
        match node:
            case nodes.Neg():
                yield from _name(node.node)
            case nodes.Filter() if node.name in _COUNTING_FILTERS and node.node is not None:
                yield from _name(node.node)
            case nodes.Add() if _is_number(node.left) or _is_number(node.right):
                yield from (*_name(node.left), *_name(node.right))
            case nodes.BinExpr() if isinstance(node, _ONLY_NUMBERS):
                yield from (*_name(node.left), *_name(node.right))
            case _:
                pass


def _name(node: nodes.Expr) -> Iterator[str]:
    """The variable that an operand is, if it is one."""
    match node:
        case nodes.Name():
            yield node.name
        case nodes.Getitem(node=nodes.Name(name="vars"), arg=nodes.Const(value=str(name))):
            yield name
        case nodes.Filter() if node.name in GUARDING_FILTERS and node.node is not None:
            yield from _name(node.node)
        case _:
            pass


def _is_number(node: nodes.Expr) -> bool:
    match node:
        case nodes.Const(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case nodes.Add():
            return _is_number(node.left) or _is_number(node.right)
        case nodes.Filter():
            return node.name in {"int", "float", "length", "count", "sum", *_COUNTING_FILTERS}
        case _:
            return isinstance(node, (*_ONLY_NUMBERS, nodes.Neg))

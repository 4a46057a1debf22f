"""Analyse conditions: their constant value, and what they imply if they are true or false."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from jinja2 import nodes
from msgspec import Struct

from scripts.expressions.values import SIGNS, Value, compare, number_in

PARTS_MAX = 20  # parts of an `and` or `or` that are analysed separately
PARTS_DEEP_MAX = 4  # nesting of such conditions
EXISTENCE_TESTS = frozenset({"defined", "undefined"})
_MIRRORED = {"lt": "gt", "lteq": "gteq", "gt": "lt", "gteq": "lteq"}
GUARDING_FILTERS = frozenset({"default", "d"})


class Unknown(Struct, frozen=True):
    """The value of an expression that depends on variables."""


UNKNOWN = Unknown()
_LEAVES = (nodes.Name, nodes.Const, nodes.TemplateData)
Literal: TypeAlias = tuple[str, bool]
"""A condition, by its spelling, and whether it is true."""


class Atom(Struct, frozen=True):
    """A condition that may be true or false, and the names that it reads.

    `against` are the two sides of ``name == "text"``, or of ``name != "text"`` if `differs` is set.
    """

    spelling: str
    names: frozenset[str]
    against: tuple[str, Value] | None = None
    differs: bool = False


def constant(node: nodes.Node) -> Value | Unknown:
    """Return the value of an expression that depends on no variable."""
    match node:
        case nodes.Const():
            value: Value = node.value
            return value
        case nodes.List() | nodes.Tuple():
            items = [constant(item) for item in node.items]
            return UNKNOWN if UNKNOWN in items else items
        case nodes.Dict():
            return {} if not node.items else UNKNOWN
        case nodes.Neg():
            number = constant(node.node)
            return -number if isinstance(number, int | float) else UNKNOWN
        case nodes.Sub():
            left, right = constant(node.left), constant(node.right)
            return left - right if isinstance(left, int | float) and isinstance(right, int | float) else UNKNOWN
        case nodes.Not():
            truth = constant(node.node)
            return UNKNOWN if isinstance(truth, Unknown) else not truth
        case nodes.And() | nodes.Or():
            return _evaluate_junction(node)
        case nodes.Compare():
            return _evaluate_comparison(node)
        case _:
            return UNKNOWN


def _evaluate_junction(node: nodes.And | nodes.Or) -> Value | Unknown:
    """Evaluate ``a and b``: known if one part decides it, or if the parts can never, or always, be true together."""
    deciding = isinstance(node, nodes.Or)
    joined = parts(node)
    values = [constant(part) for part in joined]
    if any(not isinstance(value, Unknown) and bool(value) is deciding for value in values):
        return deciding
    if UNKNOWN not in values:
        return bool(values[-1])
    sign = "ne" if deciding else "eq"
    compared = [found for part in joined[:PARTS_MAX] if (found := against_text(part, sign))]
    for name, value in compared:
        if any(name == other and value != another for other, another in compared):
            return deciding
    return UNKNOWN if deciding or _may_be_in_range(joined[:PARTS_MAX]) else False


def _may_be_in_range(conditions: Sequence[nodes.Expr]) -> bool:
    """Return whether a number fulfils all comparisons of a variable with numbers (``x > 3``), for each variable."""
    limits: dict[str, list[tuple[str, float]]] = {}
    for name, sign, number in filter(None, map(_against_number, conditions)):
        limits.setdefault(name, []).append((sign, number))
    for found in limits.values():
        low = max(((number, sign == "gt") for sign, number in found if sign in {"gt", "gteq", "eq"}), default=None)
        high = min(((number, sign != "lt") for sign, number in found if sign in {"lt", "lteq", "eq"}), default=None)
        if low is not None and high is not None:
            is_open = low[1] or not high[1]
            if low[0] > high[0] or (low[0] == high[0] and is_open):
                return False
    return True


def _against_number(node: nodes.Expr) -> tuple[str, str, float] | None:
    """Return the name, operator and number of ``name < 3``, also if the number stands first."""
    if not isinstance(node, nodes.Compare) or len(node.ops) != 1:
        return None
    left, right, sign = node.expr, node.ops[0].expr, node.ops[0].op
    if isinstance(right, nodes.Name):
        left, right, sign = right, left, _MIRRORED.get(sign, sign)
    number = constant(right)
    if not isinstance(left, nodes.Name) or not isinstance(number, int | float) or isinstance(number, bool):
        return None
    return left.name, sign, number


def parts(node: nodes.And | nodes.Or) -> list[nodes.Expr]:
    """Return the parts of ``a and b and c`` (or of the same with `or`), in order."""
    found: list[nodes.Expr] = []
    waiting: list[nodes.Expr] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, nodes.And | nodes.Or) and type(part) is type(node):
            waiting += [part.right, part.left]
        else:
            found.append(part)
    return found


def against_text(node: nodes.Node, sign: str) -> tuple[str, Value] | None:
    """Return the name and text of ``name == "text"``, in either order."""
    if not isinstance(node, nodes.Compare) or len(node.ops) != 1 or node.ops[0].op != sign:
        return None
    left, right = node.expr, node.ops[0].expr
    if isinstance(right, nodes.Name):
        left, right = right, left
    if not isinstance(left, nodes.Name) or not isinstance(right, nodes.Const):
        return None
    is_text = isinstance(right.value, str) and number_in(right.value) is None  # "1" may equal 1, and 1 "01"
    return (left.name, right.value) if is_text else None


def _evaluate_comparison(node: nodes.Compare) -> Value | Unknown:
    left = constant(node.expr)
    for operand in node.ops:
        right = constant(operand.expr)
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return UNKNOWN
        if not compare(operand.op, left, right):
            return False
        left = right
    return True


def children(node: nodes.Node) -> list[nodes.Node]:
    """Return the parts of a node in order; Jinja's `iter_child_nodes` takes several times as long."""
    found: list[nodes.Node] = []
    for name in () if isinstance(node, _LEAVES) else node.fields:
        part = getattr(node, name)
        if isinstance(part, nodes.Node):
            found.append(part)
        elif isinstance(part, list):
            found += [each for each in part if isinstance(each, nodes.Node)]
    return found


def all_nodes(tree: nodes.Node) -> list[nodes.Node]:
    """Return a node and everything inside it, in the order written."""
    found: list[nodes.Node] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += reversed(children(node))
    return found


def base(node: nodes.Node) -> nodes.Name | None:
    """Return the root name of ``name.field[0]``."""
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        node = node.node
    return node if isinstance(node, nodes.Name) else None


def all_names(node: nodes.Node) -> frozenset[str]:
    """Return the names in a node."""
    return frozenset(each.name for each in all_nodes(node) if isinstance(each, nodes.Name))


def _strict(node: nodes.Node) -> frozenset[str]:
    """Return the names that an expression needs to have a value."""
    match node:
        case nodes.Name():
            return frozenset({node.name})
        case nodes.Getitem() if (
            isinstance(node.node, nodes.Name) and node.node.name == "vars" and isinstance(node.arg, nodes.Const)
        ):
            return frozenset({str(node.arg.value)})
        case nodes.Getattr() | nodes.Getitem() | nodes.UnaryExpr() if not isinstance(node, nodes.Not):
            return _strict(node.node)
        case nodes.BinExpr() if not isinstance(node, nodes.And | nodes.Or):
            return _strict(node.left) | _strict(node.right)
        case nodes.Filter(node=nodes.Expr() as value, name=name) if name.endswith("()"):  # a function of time
            return _strict(value)
        case _:
            return frozenset()


def names_implied(node: nodes.Node | None, truth: bool) -> frozenset[str]:
    """Return the names that have a value if a condition has this result."""
    match node:
        case nodes.Not():
            return names_implied(node.node, not truth)
        case nodes.And() | nodes.Or():
            left, right = names_implied(node.left, truth), names_implied(node.right, truth)
            return left | right if isinstance(node, nodes.And) is truth else left & right
        case nodes.Test() if node.name in EXISTENCE_TESTS:
            tested = base(node.node)
            return frozenset({tested.name}) if tested is not None and (node.name == "defined") is truth else frozenset()
        case nodes.Compare() if found := _tested_for_value(node, truth):
            return found
        case nodes.Compare() if truth:
            sides = [_strict(side) for side in (node.expr, *(operand.expr for operand in node.ops))]
            return frozenset().union(*sides)
        case nodes.Filter() if truth and node.name not in GUARDING_FILTERS and node.node is not None:
            return names_implied(node.node, truth)
        case nodes.Expr() if truth:
            return _strict(node)
        case _:
            return frozenset()


def _tested_for_value(node: nodes.Compare, truth: bool) -> frozenset[str]:
    """Return the names that have a value if ``(x|default("") ~ "") != ""`` or ``x|default([])|length != 0`` is true, or
    the same with ``==`` is false: the conditions of the older formats that ask whether a value is given.
    """
    match node.expr:
        case nodes.Concat(nodes=[inner, nodes.Const(value="")]) | nodes.Filter(name="length", node=inner):
            side = inner
        case _:
            side = node.expr
    match side, node.ops:
        case (
            nodes.Filter(name="default", node=nodes.Expr() as value, args=[empty]),
            [nodes.Operand(op="ne" | "eq" as sign, expr=nodes.Const(value=right))],
        ) if (sign == "ne") is truth and constant(empty) in ("", []) and (right == "" or right == 0):
            return _strict(value)
        case _:
            return frozenset()


def literals(node: nodes.Expr, truth: bool, depth: int = 0) -> Iterator[Literal]:
    """Yield the conditions that are certain if this one has this result."""
    if isinstance(node, nodes.Not):
        yield from literals(node.node, not truth, depth)
        return
    yield spelling(node), truth
    if truth and (differs := against_text(node, "ne")) is not None:
        yield equality(*differs), False
    if isinstance(node, nodes.And if truth else nodes.Or) and depth < PARTS_DEEP_MAX:
        for part in parts(node)[:PARTS_MAX]:
            yield from literals(part, truth, depth + 1)


def atoms(node: nodes.Expr, depth: int = 0) -> Iterator[Atom]:
    """Yield the conditions that `literals` may name."""
    if isinstance(node, nodes.Not):
        yield from atoms(node.node, depth)
        return
    names = all_names(node)
    equals, differs = against_text(node, "eq"), against_text(node, "ne")
    yield Atom(spelling(node), names, equals or differs, differs is not None)
    if differs is not None:
        yield Atom(equality(*differs), names, differs)
    if isinstance(node, nodes.And | nodes.Or) and depth < PARTS_DEEP_MAX:
        for part in parts(node)[:PARTS_MAX]:
            yield from atoms(part, depth + 1)


def spelling(node: nodes.Node) -> str:
    """Return the normalised spelling of a condition, independent of blanks and parentheses."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Const():
            return repr(node.value)
        case nodes.Compare() if (found := against_text(node, "eq")) is not None:
            return equality(*found)
        case nodes.And() | nodes.Or():
            word = " and " if isinstance(node, nodes.And) else " or "
            return f"({word.join(spelling(part) for part in parts(node))})"
        case nodes.Compare():
            rest = " ".join(f"{SIGNS[operand.op]} {spelling(operand.expr)}" for operand in node.ops)
            return f"{spelling(node.expr)} {rest}"
        case _:
            return repr(node)


def equality(name: str, value: Value) -> str:
    """Return the spelling of ``name == value``."""
    return f"{name} == {value!r}"


def nulls(node: nodes.Node) -> tuple[frozenset[str], bool]:
    """Return the names without which an expression is null, and whether it may be null by itself.

    An item of a record or list, and the result of a filter, count as values.
    """
    match node:
        case nodes.Const():
            return frozenset(), node.value is None
        case nodes.Or():
            return nulls(node.right)
        case nodes.And():
            right, is_null_able = nulls(node.right)
            return _strict(node.left) | right, is_null_able
        case nodes.CondExpr():
            then, otherwise = nulls(node.expr1), nulls(node.expr2) if node.expr2 else (frozenset[str](), True)
            names = (then[0] - names_implied(node.test, True)) | (otherwise[0] - names_implied(node.test, False))
            return names, then[1] or otherwise[1]
        case _:
            return _strict(node), False

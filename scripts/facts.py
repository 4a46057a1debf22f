"""What can be known of a template or expression before it is evaluated: the names it reads, and what follows from it.

A read is *tested* where it stands in a comparison or condition, in which a name without a value counts as false by
definition, *used* where its value is wanted, and the *whole* where an expression comes to its value. Reads that a
condition guards (``x if x``, ``x is defined and …``, ``{% if x %}``, ``x | default(0)``) are left out: they never
find nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias
from typing import Literal as Typing

from jinja2 import nodes
from msgspec import Struct

from scripts.conditions import (
    EXISTENCE_TESTS,
    GUARDING_FILTERS,
    PARTS_MAX,
    UNKNOWN,
    Atom,
    Literal,
    Unknown,
    all_names,
    atoms,
    base,
    constant,
    implied,
    literals,
    nulls,
    parts,
)
from scripts.counting import counted_names
from scripts.member_faults import Fault, member_faults
from scripts.sandbox import SANDBOX
from scripts.values import Value

PLAIN_CHARS_MAX = 500
_COUNTING = frozenset({"length", "count"})


Role: TypeAlias = Typing["tested", "whole", "used"]


class Read(Struct, frozen=True):
    """A name that is looked up; `under` are the conditions that hold where it is."""

    name: str
    role: Role
    under: tuple[Literal, ...] = ()


class Comparison(Struct, frozen=True):
    """A name against a value written out; `sign` as Jinja calls it."""

    name: str
    sign: str
    value: Value


class Outcome(Struct, frozen=True):
    """What is certain once a condition has come out one way: names that have a value, and conditions."""

    names: frozenset[str] = frozenset()
    literals: tuple[Literal, ...] = ()


class Facts(Struct, frozen=True):
    """What is known of one source; `value` is that of an expression without names.

    `names` are all it looks up, `quoted` those of them in ``vars["…"]``. An expression is null where `is_null_able`,
    or where one of `null_with` is unset. `is_plain` says that nothing but evaluating it can fail.
    """

    names: frozenset[str] = frozenset()
    quoted: frozenset[str] = frozenset()
    reads: tuple[Read, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    atoms: tuple[Atom, ...] = ()
    when_true: Outcome = Outcome()
    when_false: Outcome = Outcome()
    value: Value | Unknown = UNKNOWN
    null_with: frozenset[str] = frozenset()
    is_null_able: bool = False
    is_plain: bool = False
    reads_any: bool = False  # `vars` other than by a written name
    carried: frozenset[str] = frozenset()  # of an expression: the names whose values may be in what it comes to
    faults: tuple[Fault, ...] = ()  # of the built-in names
    counted: frozenset[str] = frozenset()  # the names that it counts with


def facts_of(tree: nodes.Template, source: str, *, is_text: bool) -> Facts:
    """The facts of a parsed source."""
    reader = _Reader()
    if is_text:
        reader.statements(tree.body, _Around())
        return reader.facts(tree, is_plain=_is_plain(tree, source))
    assigned = tree.body[0]
    expression: nodes.Expr = assigned.node  # type: ignore[attr-defined]  # the one assignment that is ours
    reader.whole(expression)
    null_with, is_null_able = nulls(expression)
    return reader.facts(
        tree,
        is_plain=_is_plain(tree, source),
        when_true=Outcome(implied(expression, True), tuple(literals(expression, True))),
        when_false=Outcome(implied(expression, False), tuple(literals(expression, False))),
        value=constant(expression),
        null_with=null_with,
        is_null_able=is_null_able,
        carried=frozenset(_carried(expression)),
    )


def _carried(node: nodes.Node) -> Iterator[str]:
    """Not those that are only compared, tested or counted."""
    match node:
        case nodes.Name():
            yield node.name
        case nodes.Compare() | nodes.Not() | nodes.Test():
            return
        case nodes.Filter() if node.name in _COUNTING:
            return
        case nodes.Getitem(node=nodes.Name(name="vars"), arg=nodes.Const(value=str(name))):
            yield name
        case nodes.CondExpr():
            yield from _carried(node.expr1)
            yield from _carried(node.expr2) if node.expr2 is not None else ()
        case _:
            for part in node.iter_child_nodes():
                yield from _carried(part)


class _Around(Struct, frozen=True):
    """What holds around a part of a source."""

    names: frozenset[str] = frozenset()  # that have a value
    literals: tuple[Literal, ...] = ()
    local: frozenset[str] = frozenset()  # names of loops

    def within(self, target: nodes.Node) -> "_Around":
        names = frozenset({name.name for name in all_names(target)} | {"loop"})
        return _Around(self.names, self.literals, self.local | names)


class _Reader:
    """Walks through one source."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._quoted: set[str] = set()
        self._reads: dict[Read, None] = {}
        self._comparisons: list[Comparison] = []
        self._atoms: dict[str, Atom] = {}
        self._reads_any = False

    def facts(self, tree: nodes.Template, **known: Any) -> Facts:
        return Facts(
            names=frozenset(self._names),
            quoted=frozenset(self._quoted),
            reads=tuple(self._reads),
            comparisons=tuple(self._comparisons),
            reads_any=self._reads_any,
            atoms=tuple(self._atoms.values()),
            faults=member_faults(tree, frozenset(self._names)),
            counted=counted_names(tree),
            **known,
        )

    def statements(self, body: Iterable[nodes.Node], around: _Around) -> None:
        for node in body:
            match node:
                case nodes.Output():
                    for part in node.nodes:
                        self.use(part, around)
                case nodes.If():
                    self._if(node, around)
                case nodes.For():
                    self.use(node.iter, around)
                    inside = around.within(node.target)
                    if node.test is not None:
                        self.test(node.test, inside)
                    self.statements(node.body, inside)
                    self.statements(node.else_, around)
                case _:  # the sandbox has refused all others
                    pass

    def _if(self, node: nodes.If, around: _Around) -> None:
        for part in (node, *node.elif_):
            condition: nodes.Expr = part.test  # type: ignore[assignment]  # Jinja types it as any node
            self.test(condition, around)
            self.statements(part.body, self._where(around, condition, True))
            around = self._where(around, condition, False)
        self.statements(node.else_, around)

    def whole(self, node: nodes.Expr) -> None:
        self._learn(node)
        self._visit(node, _Around(), "whole")

    def _where(self, around: _Around, condition: nodes.Expr, truth: bool) -> _Around:
        self._learn(condition)
        certain = (*around.literals, *literals(condition, truth))
        return _Around(around.names | implied(condition, truth), certain, around.local)

    def _learn(self, condition: nodes.Expr) -> None:
        self._atoms |= {atom.spelling: atom for atom in atoms(condition)}

    def use(self, node: nodes.Node, around: _Around) -> None:
        self._visit(node, around, "used")

    def test(self, node: nodes.Node, around: _Around) -> None:
        self._visit(node, around, "tested")

    def _visit(self, node: nodes.Node, around: _Around, role: Role) -> None:
        match node:
            case nodes.Name():
                self._name(node.name, around, role)
            case nodes.Const() | nodes.TemplateData():
                pass
            case nodes.Compare():
                self._compare(node)
                for side in (node.expr, *(operand.expr for operand in node.ops)):
                    self.test(side, around)
            case nodes.And() | nodes.Or():
                *before, last = parts(node)
                for number, side in enumerate(before):
                    self.test(side, around)
                    if number < PARTS_MAX:  # what a longer chain says besides is not looked at
                        around = self._where(around, side, isinstance(node, nodes.And))
                self._visit(last, around, role)
            case nodes.Not():
                self.test(node.node, around)
            case nodes.CondExpr():
                self.test(node.test, around)
                self._visit(node.expr1, self._where(around, node.test, True), role)
                if node.expr2 is not None:
                    self._visit(node.expr2, self._where(around, node.test, False), role)
            case nodes.Filter() | nodes.Test():
                self._called(node, around, "tested" if isinstance(node, nodes.Test) else role)
            case nodes.Getitem() if isinstance(node.node, nodes.Name) and node.node.name == "vars":
                self._variable(node, around, role)
            case nodes.BinExpr() | nodes.UnaryExpr() | nodes.Getattr() | nodes.Getitem():
                for part in node.iter_child_nodes():
                    self._visit(part, around, role)
            case _:
                for part in node.iter_child_nodes():
                    self.use(part, around)

    def _called(self, node: nodes.Filter | nodes.Test, around: _Around, role: Role) -> None:
        is_guard = node.name in (GUARDING_FILTERS if isinstance(node, nodes.Filter) else EXISTENCE_TESTS)
        if node.node is not None:
            guarded = base(node.node) if is_guard else None
            inside = _Around(around.names | {guarded.name}, around.literals, around.local) if guarded else around
            self._visit(node.node, inside, role)
        for part in node.iter_child_nodes(exclude=("node",)):
            self.use(part, around)

    def _variable(self, node: nodes.Getitem, around: _Around, role: Role) -> None:
        self._names.add("vars")
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            self._quoted.add(node.arg.value)
            self._read(node.arg.value, around, role)
        else:
            self._reads_any = True
            self.use(node.arg, around)

    def _name(self, name: str, around: _Around, role: Role) -> None:
        if name not in around.local:
            self._names.add(name)
            self._reads_any = self._reads_any or name == "vars"
            self._read(name, around, role)

    def _read(self, name: str, around: _Around, role: Role) -> None:
        if name not in around.names:
            self._reads[Read(name, role, around.literals)] = None

    def _compare(self, node: nodes.Compare) -> None:
        left = node.expr
        for operand in node.ops:
            right = operand.expr
            if isinstance(left, nodes.Name):
                self._compared(left.name, operand.op, right)
            elif isinstance(right, nodes.Name) and operand.op not in {"in", "notin"}:
                self._compared(right.name, operand.op, left)
            left = right

    def _compared(self, name: str, sign: str, other: nodes.Expr) -> None:
        value = constant(other)
        if not isinstance(value, Unknown):
            self._comparisons.append(Comparison(name, sign, value))


_PLAIN = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Assign, nodes.Name, nodes.Const, nodes.Compare,
    nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.Neg, nodes.If,
    nodes.Filter, nodes.Test, nodes.Getattr, nodes.Getitem, nodes.Concat, nodes.List,
)  # fmt: skip


def _is_plain(tree: nodes.Template, source: str) -> bool:
    """Whether Jinja and Python are sure to make code of it: short, and nothing in it that either refuses late."""
    return len(source) <= PLAIN_CHARS_MAX and _all_plain(tree)


def _all_plain(node: nodes.Node) -> bool:
    if not isinstance(node, _PLAIN):
        return False
    if isinstance(node, nodes.Filter | nodes.Test):
        known = SANDBOX.filters if isinstance(node, nodes.Filter) else SANDBOX.tests
        if node.name not in known or node.node is None or node.kwargs or node.dyn_args or node.dyn_kwargs:
            return False
    return all(_all_plain(part) for part in node.iter_child_nodes())

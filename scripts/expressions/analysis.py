"""Static analysis of a template or expression: the names that it reads, and what its result implies.

A read is *tested* in a comparison or condition, where a name without a value counts as false by definition, *used* if
its value is needed, and the *whole* if its value is the result of the expression. Reads that a condition guards
(``x if x``, ``x is defined and …``, ``{% if x %}``, ``x | default(0)``) are left out, because they always find a
value.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from typing import Literal as Typing

from jinja2 import nodes
from msgspec import Struct

from scripts.expressions import condition_algebra as algebra
from scripts.expressions.arithmetic import is_duration, names_of_sums, operands_of_arithmetic, operands_of_differences
from scripts.expressions.condition_algebra import UNKNOWN, Literal, Unknown
from scripts.expressions.members import BUILTINS, DATE_PARTS, KINDS, METHODS, MemberFault, member_faults
from scripts.expressions.sandbox import SANDBOX
from scripts.expressions.time_values import PLACES
from scripts.expressions.values import Value

_COUNTING = frozenset({"length", "count"})


Role: TypeAlias = Typing["tested", "whole", "used"]


class Read(Struct, frozen=True):
    """A read of a name; `under` are the conditions that are true there."""

    name: str
    role: Role
    under: tuple[Literal, ...] = ()


class Comparison(Struct, frozen=True):
    """A comparison of a name with a literal; `sign` is Jinja's name of the operator."""

    name: str
    sign: str
    value: Value


class Outcome(Struct, frozen=True):
    """What one result of a condition implies: names that have a value, and conditions."""

    names: frozenset[str] = frozenset()
    literals: tuple[Literal, ...] = ()


class ExpressionInfo(Struct, frozen=True):
    """The analysis of a source; `value` is that of an expression without names.

    `names` are all names that it reads, `quoted` those in ``vars["…"]``. An expression may be null if `is_null_able`,
    and is null if one of `null_with` is unset.
    """

    names: frozenset[str] = frozenset()
    quoted: frozenset[str] = frozenset()
    reads: tuple[Read, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    atoms: tuple[algebra.Atom, ...] = ()
    when_true: Outcome = Outcome()
    when_false: Outcome = Outcome()
    value: Value | Unknown = UNKNOWN
    null_with: frozenset[str] = frozenset()
    is_null_able: bool = False
    reads_any: bool = False  # `vars` with a computed name
    members: tuple[tuple[str, int], ...] = ()  # the members of variables that it reads, with lines
    parts: tuple[tuple[str, str], ...] = ()  # variables with a member that is read from them: `born.year`
    keys: frozenset[str] = frozenset()  # of the records that are written out in it
    carried: frozenset[str] = frozenset()  # of an expression: the names whose values may occur in its result
    faults: tuple[MemberFault, ...] = ()  # of the built-in names
    counted: frozenset[str] = frozenset()  # the names used in arithmetic
    added: tuple[frozenset[str], ...] = ()  # the names of each sum, which may be numbers or texts
    subtracted: frozenset[str] = frozenset()  # the names whose difference it takes, which may be numbers or dates
    places: tuple[tuple[str, str, int], ...] = ()  # the functions of a place: name, place, line
    called: Mapping[str, int] = {}  # the names that it calls although they are no functions, and their first line
    methods: tuple[tuple[str, int], ...] = ()  # the methods and members that it reads although no value has them
    unavailable: tuple[tuple[str, int], ...] = ()  # messages about filters and tests that do not exist, with lines
    durations: tuple[int, ...] = ()  # the lines of its results that are durations for certain


def analyse_expression(tree: nodes.Template, every: list[nodes.Node], *, is_text: bool) -> ExpressionInfo:
    """Analyse a parsed source; `every` are all nodes of its tree."""
    reader = _Reader()
    if is_text:
        reader.statements(tree.body, _Enclosing())
        return reader.facts(tree, every)
    assigned = tree.body[0]
    expression: nodes.Expr = assigned.node  # type: ignore[attr-defined]  # the generated assignment
    reader.whole(expression)
    null_with, is_null_able = algebra.nulls(expression)
    return reader.facts(
        tree,
        every,
        when_true=Outcome(algebra.names_implied(expression, True), tuple(algebra.literals(expression, True))),
        when_false=Outcome(algebra.names_implied(expression, False), tuple(algebra.literals(expression, False))),
        value=algebra.constant(expression),
        null_with=null_with,
        is_null_able=is_null_able,
        carried=frozenset(_names_of_values(expression)),
    )


def _names_of_values(node: nodes.Node) -> Iterator[str]:
    """Exclude names that are only compared, tested or counted."""
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
            yield from _names_of_values(node.expr1)
            yield from _names_of_values(node.expr2) if node.expr2 is not None else ()
        case _:
            for part in algebra.children(node):
                yield from _names_of_values(part)


def _results(every: list[nodes.Node]) -> Iterator[nodes.Node]:
    """Yield what an expression gives, or a text shows."""
    for node in every:
        if isinstance(node, nodes.Assign):
            yield node.node
        elif isinstance(node, nodes.Output):
            yield from node.nodes


class _Enclosing(Struct, frozen=True):
    """The context of a part of a source."""

    names: frozenset[str] = frozenset()  # names that have a value
    literals: tuple[Literal, ...] = ()
    local: frozenset[str] = frozenset()  # names of loops

    def within(self, target: nodes.Node) -> "_Enclosing":
        return _Enclosing(self.names, self.literals, self.local | algebra.all_names(target) | {"loop"})


class _Reader:
    """Walks through a source."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._quoted: set[str] = set()
        self._reads: dict[Read, None] = {}
        self._comparisons: list[Comparison] = []
        self._atoms: dict[str, algebra.Atom] = {}
        self._unknown_functions: dict[str, int] = {}
        self._reads_any = False

    def facts(self, tree: nodes.Template, every: list[nodes.Node], **known: Any) -> ExpressionInfo:
        names = frozenset(self._names)
        return ExpressionInfo(
            names=names,
            quoted=frozenset(self._quoted),
            reads=tuple(self._reads),
            comparisons=tuple(self._comparisons),
            reads_any=self._reads_any,
            atoms=tuple(self._atoms.values()),
            faults=member_faults(tree.body, names, has_loop=any(isinstance(node, nodes.For) for node in every)),
            members=tuple(_members(every)),
            parts=tuple(dict.fromkeys(_parts(every))),
            keys=frozenset(_keys(every)),
            counted=frozenset(operands_of_arithmetic(every)) - BUILTINS,
            added=tuple(names_of_sums(every)),
            subtracted=frozenset(operands_of_differences(every)) - BUILTINS,
            places=tuple(_places(every)),
            called=self._unknown_functions,
            methods=tuple(dict.fromkeys(_unknown_methods(every))),
            unavailable=tuple(_unavailable(every)),
            durations=tuple(part.lineno for part in _results(every) if is_duration(part)),
            **known,
        )

    def statements(self, body: Iterable[nodes.Node], around: _Enclosing) -> None:
        for node in body:
            match node:
                case nodes.Output():
                    for part in node.nodes:
                        self._visit(part, around, "used")
                case nodes.If():
                    self._if(node, around)
                case nodes.For():  # the sandbox rejects all other statements
                    self._visit(node.iter, around, "used")
                    inside = around.within(node.target)
                    if node.test is not None:
                        self._visit(node.test, inside, "tested")
                    self.statements(node.body, inside)
                    self.statements(node.else_, around)

    def _if(self, node: nodes.If, around: _Enclosing) -> None:
        for part in (node, *node.elif_):
            condition: nodes.Expr = part.test  # type: ignore[assignment]  # Jinja declares it as any node
            self._visit(condition, around, "tested")
            self.statements(part.body, self._where(around, condition, True))
            around = self._where(around, condition, False)
        self.statements(node.else_, around)

    def whole(self, node: nodes.Expr) -> None:
        self._learn(node)
        self._visit(node, _Enclosing(), "whole")

    def _where(self, around: _Enclosing, condition: nodes.Expr, truth: bool) -> _Enclosing:
        self._learn(condition)
        certain = (*around.literals, *algebra.literals(condition, truth))
        return _Enclosing(around.names | algebra.names_implied(condition, truth), certain, around.local)

    def _learn(self, condition: nodes.Expr) -> None:
        self._atoms |= {atom.spelling: atom for atom in algebra.atoms(condition)}

    def _visit(self, node: nodes.Node, around: _Enclosing, role: Role) -> None:
        match node:
            case nodes.Name():
                self._name(node.name, around, role)
            case nodes.Const() | nodes.TemplateData():
                pass
            case nodes.Compare():
                self._compare(node)
                for side in (node.expr, *(operand.expr for operand in node.ops)):
                    self._visit(side, around, "tested")
            case nodes.And() | nodes.Or():
                *before, last = algebra.parts(node)
                for number, side in enumerate(before):
                    self._visit(side, around, "tested")
                    if number < algebra.PARTS_MAX:  # the rest of a longer chain is not analysed
                        around = self._where(around, side, isinstance(node, nodes.And))
                self._visit(last, around, role)
            case nodes.Not():
                self._visit(node.node, around, "tested")
            case nodes.CondExpr():
                self._visit(node.test, around, "tested")
                self._visit(node.expr1, self._where(around, node.test, True), role)
                if node.expr2 is not None:
                    self._visit(node.expr2, self._where(around, node.test, False), role)
            case nodes.Filter() | nodes.Test():
                self._read_call(node, around, "tested" if isinstance(node, nodes.Test) else role)
            case nodes.Call(node=nodes.Name(name=name)) if name not in BUILTINS:
                self._names.add(name)
                self._unknown_functions.setdefault(name, node.lineno)
                self._visit_parts(node, around, "used", but=node.node)
            case nodes.Getitem() if isinstance(node.node, nodes.Name) and node.node.name == "vars":
                self._variable(node, around, role)
            case nodes.BinExpr() | nodes.UnaryExpr() | nodes.Getattr() | nodes.Getitem():
                self._visit_parts(node, around, role)
            case _:
                self._visit_parts(node, around, "used")

    def _visit_parts(self, node: nodes.Node, around: _Enclosing, role: Role, but: nodes.Node | None = None) -> None:
        for part in algebra.children(node):
            if part is not but:
                self._visit(part, around, role)

    def _read_call(self, node: nodes.Filter | nodes.Test, around: _Enclosing, role: Role) -> None:
        guards = algebra.GUARDING_FILTERS if isinstance(node, nodes.Filter) else algebra.EXISTENCE_TESTS
        if node.node is not None:
            guarded = algebra.base(node.node) if node.name in guards else None
            inside = _Enclosing(around.names | {guarded.name}, around.literals, around.local) if guarded else around
            self._visit(node.node, inside, role)
        self._visit_parts(node, around, "used", but=node.node)

    def _variable(self, node: nodes.Getitem, around: _Enclosing, role: Role) -> None:
        self._names.add("vars")
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            self._quoted.add(node.arg.value)
            self._read(node.arg.value, around, role)
        else:
            self._reads_any = True
            self._visit(node.arg, around, "used")

    def _name(self, name: str, around: _Enclosing, role: Role) -> None:
        if name not in around.local:
            self._names.add(name)
            self._reads_any = self._reads_any or name == "vars"
            self._read(name, around, role)

    def _read(self, name: str, around: _Enclosing, role: Role) -> None:
        if name not in around.names:
            self._reads[Read(name, role, around.literals)] = None

    def _compare(self, node: nodes.Compare) -> None:
        left = node.expr
        for operand in node.ops:
            right = operand.expr
            if isinstance(left, nodes.Name):
                self._read_comparison(left.name, operand.op, right)
            elif isinstance(right, nodes.Name) and operand.op not in {"in", "notin"}:
                self._read_comparison(right.name, operand.op, left)
            left = right

    def _read_comparison(self, name: str, sign: str, other: nodes.Expr) -> None:
        value = algebra.constant(other)
        if not isinstance(value, Unknown):
            self._comparisons.append(Comparison(name, sign, value))


def _unavailable(every: Iterable[nodes.Node]) -> Iterator[tuple[str, int]]:
    """Yield unknown filters and tests in the words of Jinja, which compiles a text if they are in an `if`."""
    for node in every:
        if isinstance(node, nodes.Filter) and node.name not in SANDBOX.filters:
            yield f"No filter named {node.name!r}.", node.lineno
        elif isinstance(node, nodes.Test) and node.name not in SANDBOX.tests:
            yield f"No test named {node.name!r}.", node.lineno


def _unknown_methods(every: Iterable[nodes.Node]) -> Iterator[tuple[str, int]]:
    """Yield methods that no value has, and such members of differences, which are numbers or dates; those of built-in
    names are among the faults.
    """
    for node in every:
        match node:
            case nodes.Call(node=nodes.Getattr(attr=name) as method) if name not in METHODS:
                if not algebra.all_names(method) & {*KINDS, "loop"}:
                    yield name, node.lineno
            case nodes.Getattr(node=nodes.Sub(), attr=name) if name not in METHODS | DATE_PARTS:
                yield name, node.lineno


def _places(every: Iterable[nodes.Node]) -> Iterator[tuple[str, str, int]]:
    for node in every:
        match node:
            case nodes.Filter(name=name, node=nodes.Const(value=str(place))) if name[:-2] in PLACES:
                yield name[:-2], place, node.lineno


# -- records ---------------------------------------------------------------------------------------------------------


def _members(every: Iterable[nodes.Node]) -> Iterator[tuple[str, int]]:
    for node in every:
        match node:
            case nodes.Getattr(attr=name) | nodes.Getitem(arg=nodes.Const(value=str(name))):
                root = algebra.base(node)
                if root is None or root.name not in KINDS:
                    yield name, node.lineno
            case nodes.Keyword(key="attribute", value=nodes.Const(value=str(name))):
                yield name, node.lineno


def _parts(every: list[nodes.Node]) -> Iterator[tuple[str, str]]:
    local = {name for node in every if isinstance(node, nodes.For) for name in algebra.all_names(node.target)}
    for node in every:
        match node:
            case nodes.Getattr(node=nodes.Name(name=name), attr=member) if name not in local | KINDS.keys():
                yield name, member


def _keys(every: Iterable[nodes.Node]) -> Iterator[str]:
    for node in every:
        match node:
            case nodes.Pair(key=nodes.Const(value=str(name))):
                yield name

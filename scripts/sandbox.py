"""The sandbox that templates and expressions run in: every loop, result and number has a bound.

A text may use ``{{ … }}``, ``{% if %}`` and ``{% for %}``, nothing else: without a way to name an intermediate
result, what an expression can grow to is set by what it is written with, and each operator is checked besides.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from datetime import date
from functools import partial
from typing import Any

from jinja2 import Environment, Undefined, nodes, pass_context, pass_environment
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.visitor import NodeTransformer, NodeVisitor

from scripts.meaning import SIGNS, compare, text_of
from scripts.members import DATE_PARTS, LOOP_PARTS, SPEAKER_PARTS, TEXT_METHODS, Speaker
from scripts.values import shorten

OUTPUT_CHARS_MAX = 20_000
STEPS_MAX = 100_000  # what one rendering may do: loop passes by the size of their body, items, long texts
TEXT_STEP_CHARS = 100  # so many characters of a result count as one step
NUMBER_BITS_MAX = 128

MISSING = object()
"""What a look-up gives for a name that has no value."""

_FILTERS = frozenset(
    {"abs", "capitalize", "default", "d", "dictsort", "first", "float", "int", "items", "join", "last", "length"}
    | {"count", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "select"}
    | {"selectattr", "sort", "string", "title", "trim", "truncate", "unique", "upper", "wordcount"}
)
_TESTS = frozenset(
    {"defined", "undefined", "none", "number", "string", "boolean", "mapping", "sequence", "even", "odd"}
    | {"divisibleby", "lower", "upper"}
)
_COMPARING_TESTS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "lteq", "gt": "gt", "ge": "gteq", "in": "in"}


class ExpressionInvalid(ValueError):
    """A source that does not compile; `line` counts from 1 within it."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


class ExpressionFailed(ValueError):
    """A compiled source that could not be evaluated; the message is for the script's author."""


class ValuesClash(ExpressionFailed):
    """Values that an operator or filter can do nothing with: what it makes of them is no value."""


class Meter:
    """Counts the work of one rendering, and keeps what its author should hear of."""

    def __init__(self) -> None:
        self.steps = 0
        self.unset: dict[str, None] = {}
        self.mismatches: list[str] = []
        self.failures: dict[str, None] = {}

    def fail(self, what: str) -> "Unset":
        """Notes what could not be worked out, and gives the value it then has: none."""
        self.failures[what] = None
        return Unset(meter=self)

    def charge(self, steps: int) -> None:
        """Counts steps. Raises ExpressionFailed past `STEPS_MAX`."""
        self.steps += steps
        if self.steps > STEPS_MAX:
            raise ExpressionFailed(f"takes more than {STEPS_MAX:,} steps")

    def weigh(self, made: Any) -> Any:
        """A text or list that came of an operator, call or filter, charged by its length."""
        if isinstance(made, str):
            self.charge(len(made) // TEXT_STEP_CHARS)
        elif isinstance(made, list | tuple | dict):
            self.charge(len(made))
        return made

    def each(self, items: Any, body: int = 1) -> Iterator[Any]:
        """The items of a loop, each of them charged with the size of the body it is given to."""
        if isinstance(items, LoopContext) or not isinstance(items, Iterable):
            raise ExpressionFailed(f"cannot go through {kind_of(items)}: it is no list")
        for item in items:
            self.charge(body)
            yield item

    def read(self, variables: object, name: object) -> object:
        """``vars["…"]``: a variable by a name that need not be a word."""
        value = variables.get(name, MISSING) if isinstance(variables, Mapping) else MISSING
        return Unset(name=str(name), meter=self) if value is MISSING else value

    def range(self, *bounds: int) -> range:
        """The numbers of ``range``, counted before they exist."""
        if not all(isinstance(bound, int) for bound in bounds) or not 1 <= len(bounds) <= 3:
            raise ExpressionFailed("range takes one to three whole numbers")
        try:
            numbers = range(*bounds)
            too_many = len(numbers) > STEPS_MAX
        except (ValueError, OverflowError) as error:
            raise ExpressionFailed(f"range: {error}") from error
        if too_many:
            raise ExpressionFailed(f"range: takes more than {STEPS_MAX:,} steps")
        return numbers

    def compare(self, left: object, *rest: object) -> bool:
        """``a < b < c`` as pairs, all of which must hold."""
        for sign, right in zip(rest[::2], rest[1::2], strict=True):
            if not self._holds(str(sign), left, right):
                return False
            left = right
        return True

    def _holds(self, sign: str, left: object, right: object) -> bool:
        for side in (left, right):
            if isinstance(side, Unset):
                side.note()
                return False
            if isinstance(side, list | tuple | dict | range):
                self.charge(len(side))
        outcome = compare(sign, left, right)
        if outcome is None:
            self.mismatches.append(f"cannot tell whether {shorten(left)} {SIGNS[sign]} {shorten(right)}")
        return bool(outcome)

    def concat(self, *parts: object) -> str:
        """``a ~ b``."""
        texts = [self.weigh(said(part)) for part in parts]
        if sum(map(len, texts)) > OUTPUT_CHARS_MAX:
            raise ExpressionFailed(f"a text may have at most {OUTPUT_CHARS_MAX:,} characters")
        return "".join(texts)


class Unset(Undefined):
    """A name without a value: empty as a text, false as a condition, an empty list in a loop."""

    __slots__ = ("_meter",)

    def __init__(
        self, hint: str | None = None, obj: Any = None, name: str | None = None, exc: Any = None, meter: Any = None
    ) -> None:
        super().__init__(hint, obj, name)
        self._meter = meter

    def note(self) -> None:
        """Records that the name was used."""
        if self._meter is not None and self._undefined_name is not None:
            self._meter.unset[str(self._undefined_name)] = None

    def __str__(self) -> str:
        self.note()
        return ""

    def __bool__(self) -> bool:
        self.note()
        return False

    def __len__(self) -> int:
        self.note()
        return 0

    def __iter__(self) -> Iterator[Any]:
        self.note()
        return iter(())

    def __getattr__(self, name: str) -> "Unset":
        if name[:2] == "__":
            raise AttributeError(name)
        return Unset(name=self._undefined_name, meter=self._meter)

    def __getitem__(self, key: object) -> "Unset":  # type: ignore[override]
        return Unset(name=self._undefined_name, meter=self._meter)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unset)

    def __hash__(self) -> int:
        return hash(Unset)


def said(value: object) -> str:
    """A value as it stands in a text. Raises ExpressionFailed for what is no value."""
    if isinstance(value, Undefined):
        return str(value)
    if isinstance(value, LoopContext):
        raise ExpressionFailed("`loop` is nothing that can be said")
    try:
        return text_of(value)
    except TypeError as error:
        raise ExpressionFailed(str(error)) from error


class FromValue(str):
    """A stretch of a text that came from a value. Jinja passes what is to be said through `str`, and gets it back."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


def _filled(value: object) -> FromValue:
    """A value as it stands in a text, to be told from what the script wrote. Raises ExpressionFailed."""
    return FromValue(value if type(value) is str else said(value))


class Sandbox(ImmutableSandboxedEnvironment):
    """Only values, their harmless methods, and operators whose results are checked first."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})
    intercepted_unops = frozenset({"-", "+"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self._member(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, int) and isinstance(obj, str | list | tuple | range):
            return obj[argument] if -len(obj) <= argument < len(obj) else Unset(name=str(argument))
        if isinstance(argument, slice) and isinstance(obj, str | list | tuple):
            return obj[argument]
        return self._member(obj, argument)

    def _member(self, obj: Any, name: Any) -> Any:
        if isinstance(obj, Unset):
            return obj[name]
        if isinstance(obj, Mapping):
            return obj.get(name, Unset(name=str(name))) if isinstance(name, str | int) else Unset(name=str(name))
        if isinstance(obj, Speaker) and name in SPEAKER_PARTS:
            return obj.part(name)
        if self.is_safe_attribute(obj, name, None):
            return getattr(obj, name)
        raise ExpressionFailed(f"{kind_of(obj)} has nothing called {shorten(name)}")

    def is_safe_attribute(self, obj: Any, attr: Any, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in TEXT_METHODS
        if isinstance(obj, date):
            return attr in DATE_PARTS and hasattr(obj, attr)
        return isinstance(obj, LoopContext) and attr in LOOP_PARTS

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        if not callable(obj) or isinstance(obj, Undefined):
            raise ExpressionFailed(f"{shorten(getattr(obj, '_undefined_name', obj))} is no function")
        given = {name: value for name, value in kwargs.items() if name not in {"_loop_vars", "_block_vars"}}
        return _meter_of(context).weigh(obj(*args, **given))

    def call_binop(self, context: Context, sign: str, left: Any, right: Any) -> Any:
        for side in (left, right):
            if isinstance(side, Unset):
                side.note()
                return side
        meter = _meter_of(context)
        _check_growth(sign, left, right)
        try:
            return meter.weigh(super().call_binop(context, sign, left, right))
        except TypeError:
            return meter.fail(f"`{sign}` cannot be done with {kind_of(left)} and {kind_of(right)}")

    def call_unop(self, context: Context, sign: str, arg: Any) -> Any:
        try:
            return arg if isinstance(arg, Unset) else super().call_unop(context, sign, arg)
        except TypeError:
            return _meter_of(context).fail(f"`{sign}` cannot be done with {kind_of(arg)}")


def _meter_of(context: Context) -> Meter:
    meter: Meter = context.resolve("_meter").__self__
    return meter


def kind_of(obj: object) -> str:
    """What a value is, in a message."""
    kinds = {str: "a text", list: "a list", int: "a number", float: "a number", bool: "a boolean", dict: "a record"}
    return "a date" if isinstance(obj, date) else kinds.get(type(obj), "this value")


def _check_growth(sign: str, left: Any, right: Any) -> None:
    """Refuses what would build a huge text, list or number before it is built."""
    sized = [side for side in (left, right) if isinstance(side, str | list | tuple)]
    if sign == "%" and isinstance(left, str):
        raise ExpressionFailed("% formats no texts here; write {{ name }} inside the text")
    if sign == "*" and sized:
        times = next((side for side in (left, right) if isinstance(side, int)), 0)
        if len(sized[0]) * times > OUTPUT_CHARS_MAX:
            raise ExpressionFailed("the result would be too long")
    if sign == "+" and sum(map(len, sized)) > OUTPUT_CHARS_MAX:
        raise ExpressionFailed("the result would be too long")
    if isinstance(left, int) and isinstance(right, int) and sign in {"*", "**"}:
        bits = left.bit_length() * abs(right) if sign == "**" else left.bit_length() + right.bit_length()
        if bits > NUMBER_BITS_MAX:
            raise ExpressionFailed("the number would be too large")


def _metered(name: str, function: Callable[..., Any], context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
    """A filter of Jinja's whose input is charged, and whose input and result stay within bounds."""
    meter = _meter_of(context)
    if isinstance(value, Iterator):
        value = list(meter.each(value))
    elif isinstance(value, list | tuple | dict | range):
        meter.charge(len(value))
    if any(isinstance(arg, int) and abs(arg) > OUTPUT_CHARS_MAX for arg in (*args, *kwargs.values())):
        raise ExpressionFailed("a filter's number is too large")
    if function is FILTERS["join"] and isinstance(value, Sized):
        separator = args[0] if args else kwargs.get("d", "")
        if len(said(separator)) * len(value) > OUTPUT_CHARS_MAX:
            raise ExpressionFailed("the result would be too long")
    passed = getattr(function, "jinja_pass_arg", None)
    first = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}
    try:
        return meter.weigh(function(*(first[passed.name] if passed else ()), value, *args, **kwargs))
    except ValuesClash as clash:
        return meter.fail(str(clash))
    except TypeError:
        return meter.fail(f"`{name}` cannot be done with {kind_of(value)}")


def _replace(text: object, old: str, new: str) -> str:
    source = said(text)
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        raise ExpressionFailed("replace takes the text to replace and the new text")
    if len(source) + source.count(old) * len(new) > OUTPUT_CHARS_MAX:
        raise ExpressionFailed("the result would be too long")
    return source.replace(old, new)


@pass_environment
def _sum(environment: Environment, items: Any, attribute: str | None = None, start: Any = 0) -> Any:
    """Jinja's `sum`, of numbers only: adding up lists takes the square of their length."""
    numbers = list(items if attribute is None else map(make_attrgetter(environment, attribute), items))
    if not all(isinstance(number, int | float) for number in (start, *numbers)):
        is_clash = all(isinstance(number, int | float | str) for number in (start, *numbers))
        raise (ValuesClash if is_clash else ExpressionFailed)("sum adds up numbers")
    return sum(numbers, start)


def _as_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return pass_context(partial(_metered, name, function))


def _make_sandbox() -> Sandbox:
    sandbox = Sandbox(undefined=Unset, autoescape=False, optimized=False, finalize=_filled, keep_trailing_newline=True)
    sandbox.filters = {name: _as_filter(name, FILTERS[name]) for name in _FILTERS} | {
        "replace": _as_filter("replace", _replace),
        "sum": _as_filter("sum", _sum),
    }
    comparing: dict[str, Any] = {name: partial(_test, sign) for name, sign in _COMPARING_TESTS.items()}
    sandbox.tests = {name: TESTS[name] for name in _TESTS} | comparing
    sandbox.globals = {}
    return sandbox


def _test(sign: str, left: object, right: object) -> bool:
    return bool(compare(sign, left, right))


SANDBOX = _make_sandbox()


class Allowed(NodeVisitor):
    """Refuses every statement but `if` and `for`, and calls of `recall` that can only fail."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        refused = isinstance(node, nodes.Stmt) and not isinstance(node, nodes.If | nodes.For | nodes.Output)
        if refused and not (isinstance(node, nodes.Assign) and node.lineno == 0):
            name = {"Assign": "set", "AssignBlock": "set"}.get(type(node).__name__, type(node).__name__.lower())
            raise ExpressionInvalid(f"{{% {name} %}} is not available; use {{% if %}} and {{% for %}}", node.lineno)
        if isinstance(node, nodes.For) and node.recursive:
            raise ExpressionInvalid("a loop may not be recursive", node.lineno)
        if isinstance(node, nodes.Name) and (node.name.startswith("_") or node.name == "self"):
            raise ExpressionInvalid(f"no variable may be called {shorten(node.name)}", node.lineno)
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name == "recall":
            _check_recall(node)
        return super().visit(node, *args, **kwargs)


def _check_recall(call: nodes.Call) -> None:
    given = [*("query", "k", "")[: len(call.args)], *(argument.key for argument in call.kwargs)]
    if sorted(given) not in (["query"], ["k", "query"]) and call.dyn_args is None and call.dyn_kwargs is None:
        takes = "recall takes what to look for and, if wanted, how many: recall('sleep', k=3)"
        raise ExpressionInvalid(takes, call.lineno)


class Metered(NodeTransformer):
    """Routes comparisons, loops and joined texts through the meter of the rendering."""

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802  (the visitor's naming)
        self.generic_visit(node)
        rest: list[nodes.Expr] = []
        for operand in node.ops:
            rest += [nodes.Const(operand.op), operand.expr]
        return self._call("_compare", [node.expr, *rest], node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._call("_concat", node.nodes, node)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        body = 1 + sum(1 for part in node.body for _ in part.find_all(nodes.Expr))
        self.generic_visit(node)
        node.iter = self._call("_each", [node.iter, nodes.Const(body)], node)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.node, nodes.Name) and node.node.name == "vars" and not isinstance(node.arg, nodes.Slice):
            return self._call("_read", [node.node, node.arg], node)
        return node

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.expr2 is None:
            node.expr2 = nodes.Const(None, lineno=node.lineno)
        return node

    def _call(self, name: str, args: list[Any], node: nodes.Node) -> nodes.Call:
        called = nodes.Call(nodes.Name(name, "load"), args, [], None, None, lineno=node.lineno)
        called.set_lineno(node.lineno)
        called.set_environment(SANDBOX)
        return called

"""Templates and expressions: Jinja2 in a sandbox where every loop, result and number has a bound.

A text may use ``{{ … }}``, ``{% if %}`` and ``{% for %}``, nothing else: without a way to name an intermediate
result, what an expression can grow to is set by what it is written with, and each operator is checked besides.
Comparisons are the language's own (`compare`): a name without a value makes them false, and texts that spell
numbers compare with numbers as numbers.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from datetime import date
from functools import lru_cache, partial
from typing import Any, Protocol

from jinja2 import Environment, TemplateError, Undefined, nodes, pass_context, pass_environment
from jinja2.environment import Template as JinjaTemplate
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.visitor import NodeTransformer, NodeVisitor
from msgspec import Struct

from scripts.values import Value, ValueRefused, bounded, number_in, shorten

SOURCE_CHARS_MAX = 20_000
OUTPUT_CHARS_MAX = 20_000
STEPS_MAX = 100_000  # what one rendering may do: loop passes by the size of their body, items, long texts
TEXT_STEP_CHARS = 100  # so many characters of a result count as one step
NUMBER_BITS_MAX = 128
COMPILED_MAX = 10_000  # compiled sources kept

BUILTINS = frozenset({"now", "today", "round", "user", "role", "history", "vars", "range"})
"""Names the runtime gives to every template and expression; no variable may be called so."""

_WORDS = frozenset({"true", "false", "none", "True", "False", "None"})
_WORDS |= {"and", "or", "not", "in", "is", "if", "else", "self", "loop"}

_TEXT_METHODS = frozenset(
    {"upper", "lower", "strip", "title", "capitalize", "startswith", "endswith", "split", "count", "find", "isdigit"}
)
_DATE_PARTS = frozenset({"year", "month", "day", "hour", "minute", "weekday", "isoformat", "date"})
_LOOP_PARTS = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length"})
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


def is_reserved(name: str) -> bool:
    """Whether an expression means something else by this name than a variable."""
    return name in BUILTINS or is_syntax(name)


def is_syntax(name: str) -> bool:
    """Whether a name is part of the expression language, so that only ``vars["…"]`` reads a variable called so."""
    return name in _WORDS or name.startswith("_")


class ExpressionInvalid(ValueError):
    """A source that does not compile; `line` counts from 1 within it."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


class ExpressionFailed(ValueError):
    """A compiled source that could not be evaluated; the message is for the script's author."""


class Names(Protocol):
    """Where an expression finds what its names mean."""

    def value_of(self, name: str) -> object:
        """The value of a name, or `MISSING`."""


MISSING = object()


class Meter:
    """Counts the work of one rendering, and keeps what its author should hear of."""

    def __init__(self) -> None:
        self.steps = 0
        self.unset: dict[str, None] = {}
        self.mismatches: list[str] = []

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
        if not isinstance(items, Iterable):
            raise ExpressionFailed(f"cannot go through {shorten(items)}: it is no list")
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
            self.mismatches.append(f"cannot tell whether {shorten(left)} {_SIGNS[sign]} {shorten(right)}")
        return bool(outcome)

    def concat(self, *parts: object) -> str:
        """``a ~ b``."""
        texts = [self.weigh(text_of(part)) for part in parts]
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


_SIGNS = {"eq": "==", "ne": "!=", "gt": ">", "gteq": ">=", "lt": "<", "lteq": "<=", "in": "in", "notin": "not in"}
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
}


def compare(sign: str, left: object, right: object) -> bool | None:
    """One comparison of two values, by Jinja's operator name (``eq``, ``lteq`` …); None where they do not compare."""
    if sign in {"in", "notin"}:
        if not isinstance(right, str | Sequence | Mapping):
            return None
        found = _contains(right, left)
        return found if sign == "in" else not found
    left, right = _comparable(left, right)
    if sign == "eq":
        return bool(left == right)
    if sign == "ne":
        return bool(left != right)
    numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
    if numbers or (isinstance(left, str) and isinstance(right, str)):
        return _ORDER[sign](left, right)
    return None


def _contains(container: Any, item: object) -> bool:
    if isinstance(container, str):
        return text_of(item) in container
    return any(compare("eq", each, item) for each in container)


def _comparable(left: object, right: object) -> tuple[Any, Any]:
    """Both sides as numbers where both spell one, dates as ISO texts."""
    left, right = (side.isoformat() if isinstance(side, date) else side for side in (left, right))
    if isinstance(left, str) and _is_numeric(right):
        number = number_in(left)
        return (left if number is None else number), _number(right)
    if isinstance(right, str) and _is_numeric(left):
        number = number_in(right)
        return _number(left), (right if number is None else number)
    if isinstance(left, str) and isinstance(right, str) and _is_numeric(left) and _is_numeric(right):
        return number_in(left), number_in(right)
    return left, right


def _is_numeric(side: object) -> bool:
    if isinstance(side, str):
        return number_in(side) is not None
    return isinstance(side, int | float) and not isinstance(side, bool)


def _number(side: Any) -> Any:
    return number_in(side) if isinstance(side, str) else side


def text_of(value: object) -> str:
    """A value as it stands in a text: lists with commas, whole numbers without ``.0``, null as nothing."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else str(value)
        case str() | int() | Undefined():
            return str(value)
        case list() | tuple():
            return ", ".join(text_of(item) for item in value)
        case dict():
            return ", ".join(f"{key}: {text_of(item)}" for key, item in value.items())
        case date():
            return value.isoformat()
        case Iterator():
            return ", ".join(text_of(item) for item in value)
        case _:
            raise ExpressionFailed(f"{type(value).__name__} is nothing that can be said")


class _Sandbox(ImmutableSandboxedEnvironment):
    """Only values, their harmless methods, and operators whose results are checked first."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})
    intercepted_unops = frozenset({"-", "+"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self._member(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, int) and isinstance(obj, str | list | tuple):
            return obj[argument] if -len(obj) <= argument < len(obj) else Unset(name=str(argument))
        if isinstance(argument, slice) and isinstance(obj, str | list | tuple):
            return obj[argument]
        return self._member(obj, argument)

    def _member(self, obj: Any, name: Any) -> Any:
        if isinstance(obj, Unset):
            return obj[name]
        if isinstance(obj, Mapping):
            return obj.get(name, Unset(name=str(name))) if isinstance(name, str | int) else Unset(name=str(name))
        if self.is_safe_attribute(obj, name, None):
            return getattr(obj, name)
        raise ExpressionFailed(f"{_kind(obj)} has nothing called {shorten(name)}")

    def is_safe_attribute(self, obj: Any, attr: Any, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in _TEXT_METHODS
        if isinstance(obj, date):
            return attr in _DATE_PARTS and hasattr(obj, attr)
        return isinstance(obj, LoopContext) and attr in _LOOP_PARTS

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
        _check_growth(sign, left, right)
        return _meter_of(context).weigh(super().call_binop(context, sign, left, right))

    def call_unop(self, context: Context, sign: str, arg: Any) -> Any:
        return arg if isinstance(arg, Unset) else super().call_unop(context, sign, arg)


def _meter_of(context: Context) -> Meter:
    meter: Meter = context.resolve("_meter").__self__
    return meter


def _kind(obj: object) -> str:
    return {str: "a text", list: "a list", int: "a number", float: "a number", bool: "a boolean"}.get(
        type(obj), "this value"
    )


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


def _metered(function: Callable[..., Any], context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
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
        if len(text_of(separator)) * len(value) > OUTPUT_CHARS_MAX:
            raise ExpressionFailed("the result would be too long")
    passed = getattr(function, "jinja_pass_arg", None)
    first = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}
    return meter.weigh(function(*(first[passed.name] if passed else ()), value, *args, **kwargs))


def _replace(text: object, old: str, new: str) -> str:
    source = text_of(text)
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
        raise ExpressionFailed("sum adds up numbers")
    return sum(numbers, start)


def _as_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    return pass_context(partial(_metered, function))


def _make_sandbox() -> _Sandbox:
    sandbox = _Sandbox(undefined=Unset, autoescape=False, optimized=False, finalize=text_of, keep_trailing_newline=True)
    sandbox.filters = {name: _as_filter(FILTERS[name]) for name in _FILTERS} | {
        "replace": _as_filter(_replace),
        "sum": _as_filter(_sum),
    }
    comparing: dict[str, Any] = {name: partial(_test, sign) for name, sign in _COMPARING_TESTS.items()}
    sandbox.tests = {name: TESTS[name] for name in _TESTS} | comparing
    sandbox.globals = {}
    return sandbox


def _test(sign: str, left: object, right: object) -> bool:
    return bool(compare(sign, left, right))


class _Allowed(NodeVisitor):
    """Refuses every statement but `if` and `for`."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        refused = isinstance(node, nodes.Stmt) and not isinstance(node, nodes.If | nodes.For | nodes.Output)
        if refused and not (isinstance(node, nodes.Assign) and node.lineno == 0):
            name = {"Assign": "set", "AssignBlock": "set"}.get(type(node).__name__, type(node).__name__.lower())
            raise ExpressionInvalid(f"{{% {name} %}} is not available; use {{% if %}} and {{% for %}}", node.lineno)
        if isinstance(node, nodes.For) and node.recursive:
            raise ExpressionInvalid("a loop may not be recursive", node.lineno)
        if isinstance(node, nodes.Name) and (node.name.startswith("_") or node.name == "self"):
            raise ExpressionInvalid(f"no variable may be called {shorten(node.name)}", node.lineno)
        return super().visit(node, *args, **kwargs)


class _Metered(NodeTransformer):
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
        called.set_environment(_SANDBOX)
        return called


class Rendered(Struct, frozen=True):
    """What came of a template or expression, and what its author should hear of."""

    value: Value
    unset: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The value of a template."""
        return text_of(self.value)


class Compiled:
    """A template or expression ready to be evaluated.

    `names` are the names it looks up, `reads` the variables among them with those it reads as ``vars["…"]``.
    """

    def __init__(self, template: JinjaTemplate, names: frozenset[str], reads: frozenset[str], *, is_text: bool) -> None:
        self._template = template
        self.names = names
        self.reads = reads
        self._is_text = is_text

    def evaluate(self, names: Names) -> Rendered:
        """The text or value for these names. Raises ExpressionFailed."""
        meter = Meter()
        scope: dict[str, Any] = {"_meter": meter.charge, "_compare": meter.compare}
        scope |= {"_concat": meter.concat, "_each": meter.each, "_read": meter.read}
        for name in self.names:
            value = meter.range if name == "range" else names.value_of(name)
            scope[name] = Unset(name=name, meter=meter) if value is MISSING else value
        try:
            value = self._text(scope) if self._is_text else self._value(scope)
        except ExpressionFailed:
            raise
        except RecursionError as error:
            raise ExpressionFailed("nested too deeply") from error
        except _EVALUATION_ERRORS as error:
            raise ExpressionFailed(_reason(error)) from error
        return Rendered(value, tuple(meter.unset), tuple(meter.mismatches))

    def _text(self, scope: dict[str, Any]) -> str:
        parts, length = [], 0
        for part in self._template.root_render_func(self._template.new_context(scope)):
            length += len(part)
            if length > OUTPUT_CHARS_MAX:
                raise ExpressionFailed(f"the text would have more than {OUTPUT_CHARS_MAX:,} characters")
            parts.append(part)
        return "".join(parts)

    def _value(self, scope: dict[str, Any]) -> Value:
        context = self._template.new_context(scope)
        for _ in self._template.root_render_func(context):
            pass
        value = _without_unset(context.vars["result"])
        try:
            return bounded(value)
        except ValueRefused as refused:
            raise ExpressionFailed(str(refused)) from refused


# what Jinja and Python raise for operands that do not fit; `truncate` asserts its lengths
_EVALUATION_ERRORS = (
    TemplateError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    AssertionError,
)


def _reason(error: Exception) -> str:
    """What an author should hear of an error that Jinja or Python raised; their own words are for programmers."""
    match error:
        case ZeroDivisionError():
            return "division by zero"
        case OverflowError():
            return "the number would be too large"
        case TypeError() | AttributeError():
            return "these values do not go together"
        case _:
            return "it cannot be worked out with these values"


def _without_unset(value: Any) -> Any:
    """The result of an expression with null for each name in it that has no value."""
    if isinstance(value, Unset):
        value.note()
        return None
    if isinstance(value, list | tuple | range | Iterator):
        return [_without_unset(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_unset(item) for key, item in value.items()}
    return value


_SANDBOX = _make_sandbox()


@lru_cache(maxsize=COMPILED_MAX)
def compile_template(source: str) -> Compiled:
    """A text with placeholders. Raises ExpressionInvalid."""
    return _compile(source, is_text=True)


@lru_cache(maxsize=COMPILED_MAX)
def compile_expression(source: str) -> Compiled:
    """An expression. Raises ExpressionInvalid."""
    return _compile(source, is_text=False)


def _compile(source: str, *, is_text: bool) -> Compiled:
    if len(source) > SOURCE_CHARS_MAX:
        raise ExpressionInvalid(f"longer than {SOURCE_CHARS_MAX:,} characters")
    try:
        tree = _SANDBOX.parse(source) if is_text else _parse_expression(source)
        _Allowed().visit(tree)
        names = frozenset(find_undeclared_variables(tree))
        reads = (names | frozenset(_quoted_reads(tree))) - BUILTINS
        metered = _Metered().visit(tree)
        template = JinjaTemplate.from_code(_SANDBOX, _SANDBOX.compile(metered), {})
    except ExpressionInvalid:
        raise
    except TemplateError as error:
        raise ExpressionInvalid(str(error).split("\n")[0], getattr(error, "lineno", 1) or 1) from error
    except (RecursionError, MemoryError, IndentationError) as error:
        raise ExpressionInvalid("nested too deeply") from error
    except SyntaxError as error:  # Python's own, for what Jinja let pass: blocks in blocks, an argument given twice
        raise ExpressionInvalid(error.msg) from error
    except ValueError as error:  # a number of thousands of digits, or a constant part that can never be said
        raise ExpressionInvalid(shorten(str(error), 200).strip("'\"")) from error
    return Compiled(template, names, reads, is_text=is_text)


def _quoted_reads(tree: nodes.Template) -> Iterator[str]:
    """The names in ``vars["…"]``, the way to read a variable whose name is no word."""
    for item in tree.find_all(nodes.Getitem):
        is_vars = isinstance(item.node, nodes.Name) and item.node.name == "vars"
        if is_vars and isinstance(item.arg, nodes.Const) and isinstance(item.arg.value, str):
            yield item.arg.value


def _parse_expression(source: str) -> nodes.Template:
    parser = Parser(_SANDBOX, source, state="variable")
    expression = parser.parse_expression()
    if not parser.stream.eos:
        raise ExpressionInvalid(f"ends too early, before {shorten(str(parser.stream.current.value))}")
    # line 0 marks the one assignment that is ours
    body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store", lineno=0), expression, lineno=0)]
    tree = nodes.Template(body, lineno=1)
    tree.set_environment(_SANDBOX)
    return tree

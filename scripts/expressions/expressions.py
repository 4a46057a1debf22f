"""Compile templates and expressions once, and evaluate them with values for names: Jinja2 in a sandbox."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from jinja2 import TemplateError, nodes
from jinja2.environment import Template as JinjaTemplate
from jinja2.parser import Parser
from jinja2.runtime import Context
from msgspec import Struct

from scripts.expressions.analysis import ExpressionInfo, analyse_expression
from scripts.expressions.condition_algebra import all_nodes
from scripts.expressions.members import BUILTINS
from scripts.expressions.sandbox import (
    MISSING,
    OUTPUT_CHARS_MAX,
    SANDBOX,
    ExpressionFailed,
    ExpressionInvalid,
    FromValue,
    Meter,
    Unset,
    kind_of,
    to_text,
)
from scripts.expressions.syntax_trees import MeteredNodes, check_allowed, with_time_functions
from scripts.expressions.values import Value, ValueRefused, shorten, text_of, to_value

SOURCE_CHARS_MAX = 20_000
COMPILED_MAX = 100_000  # compiled sources in each cache; a script may have this many, and each check asks for all
HELD_COMPILED_MAX = 10_000  # of these, between the checks of scripts
PLAIN_CHARS_MAX = 500
PLAIN_NODES_MAX = 150
HELD_MAX = 5  # variables listed in a message

Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of characters (start, end) of a text that come from values, not from the script."""

_Piece: TypeAlias = tuple[str, str]
"""A part of a text: its characters, or the name of the variable that it stands for."""

_NO_FACTS = ExpressionInfo()
_UNFINISHED = re.compile(r"unexpected '?end of template'?(?:, expected '(?P<sign>.+)'\.)?")
_UNEXPECTED = re.compile(r"expected token '.*', got ('.*')", re.DOTALL)
_WORDS = frozenset({"true", "false", "none", "True", "False", "None"})
_WORDS |= {"and", "or", "not", "in", "is", "if", "else", "self", "loop"}

_PLAIN = frozenset({
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Assign, nodes.Name, nodes.Const, nodes.Compare,
    nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.Neg, nodes.If,
    nodes.Getattr, nodes.Getitem, nodes.Concat, nodes.List,
})  # fmt: skip


def is_reserved(name: str) -> bool:
    """Return whether this name has another meaning in expressions than a variable."""
    return name in BUILTINS or is_syntax(name)


def is_syntax(name: str) -> bool:
    """Return whether a name is part of the expression language, so that only ``vars["…"]`` reads such a variable."""
    return name in _WORDS or name.startswith("_")


class Names(Protocol):
    """Resolves the names of an expression."""

    def value_of(self, name: str) -> object:
        """Return the value of a name, or `MISSING`."""


class Evaluation(Struct, frozen=True):
    """The result of a template or expression, and its problems for the author.

    `spans` are the ranges of a text that come from values. `failures` describe the parts that could not be evaluated
    and have no value.
    """

    value: Value
    unset: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    spans: Spans = ()

    @property
    def text(self) -> str:
        """The result of a template."""
        return text_of(self.value)


class CompiledSource:
    """A parsed template or expression that can be evaluated.

    `names` are the names that it reads, `reads` the variables among them and those read as ``vars["…"]``. The code of
    a source that certainly compiles is generated on first use, because checking a script does not need it.
    """

    def __init__(
        self,
        source: str,
        facts: ExpressionInfo,
        template: JinjaTemplate | None,
        pieces: tuple[_Piece, ...] | None,
        *,
        is_text: bool,
    ) -> None:
        self.facts = facts
        self.names = facts.names
        self.reads = (facts.names | facts.quoted) - BUILTINS
        self._source = source
        self._made = template
        self._pieces = pieces
        self._is_text = is_text

    @property
    def _template(self) -> JinjaTemplate:
        if self._made is None:
            self._made = _code_of(_parse(self._source, is_text=self._is_text))
        return self._made

    def evaluate(self, names: Names, chars_max: int = OUTPUT_CHARS_MAX) -> Evaluation:
        """Evaluate to a text of at most `chars_max` characters or to a value. Raises ExpressionFailed."""
        if self._pieces is not None:
            return _fill_in(self._pieces, names, chars_max)
        meter = Meter(names.value_of)
        scope: dict[str, Any] = {"_meter": meter.charge, "_compare": meter.compare}
        scope |= {"_concat": meter.concat, "_each": meter.each, "_read": meter.read, "_weigh": meter.weigh}
        for name in self.names:
            value = meter.range if name == "range" else names.value_of(name)
            scope[name] = Unset(name=name, meter=meter) if value is MISSING else value
        spans: list[tuple[int, int]] = []
        try:
            value = self._text(scope, spans, chars_max) if self._is_text else self._value(scope)
        except ExpressionFailed:
            raise
        except RecursionError as error:
            raise ExpressionFailed("nested too deeply") from error
        except _EVALUATION_ERRORS as error:
            raise ExpressionFailed(f"{_reason(error)}{self._describe_values(scope)}") from error
        failures = tuple(f"{failure}{self._describe_values(scope)}" for failure in meter.failures)
        return Evaluation(value, tuple(meter.unset), tuple(meter.mismatches), failures, tuple(spans))

    def _describe_values(self, scope: Mapping[str, object]) -> str:
        """Describe the variables of the source by kind only, because their values may be personal."""
        names = sorted(name for name in self.reads & scope.keys() if not isinstance(scope[name], Unset))
        held = ", ".join(f"`{name}` is {kind_of(scope[name])}" for name in names[:HELD_MAX])
        return f" ({held})" if held else ""

    def _text(self, scope: dict[str, Any], spans: list[tuple[int, int]], chars_max: int) -> str:
        parts, length = [], 0
        for part in self._template.root_render_func(_context(scope)):
            begin, length = length, length + len(part)
            if length > chars_max:
                raise _too_long(chars_max)
            if isinstance(part, FromValue):
                spans.append((begin, length))
            parts.append(part)
        return "".join(parts)

    def _value(self, scope: dict[str, Any]) -> Value:
        context = _context(scope)
        for _ in self._template.root_render_func(context):
            pass
        value = _without_unset(context.vars["result"])
        try:
            return to_value(value)
        except ValueRefused as refused:
            raise ExpressionFailed(str(refused)) from refused


def _context(scope: dict[str, Any]) -> Context:
    return Context(SANDBOX, scope, None, {})  # without the copies that `new_context` makes for blocks and globals


def _too_long(chars_max: int) -> ExpressionFailed:
    return ExpressionFailed(f"the text would have more than {chars_max:,} characters")


# raised by Jinja and Python for invalid operands; `truncate` asserts its lengths
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
    """Return the message for the author about an error of Jinja or Python, whose own messages are for programmers."""
    match error:
        case ZeroDivisionError():
            return "division by zero"
        case OverflowError():
            return "the number would be too large"
        case TypeError() | AttributeError():
            return "these values cannot be combined"
        case _:
            return "it cannot be evaluated with these values"


def _without_unset(value: Any) -> Any:
    """Return the result of an expression, with null for each name without a value."""
    if isinstance(value, Unset):
        value.note()
        return None
    if isinstance(value, list | tuple | range | Iterator):
        return [_without_unset(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_unset(item) for key, item in value.items()}
    return value


@lru_cache(maxsize=COMPILED_MAX)
def compile_template(source: str) -> CompiledSource:
    """Compile a text with placeholders. Raises ExpressionInvalid."""
    return _compile(source, is_text=True)


@lru_cache(maxsize=COMPILED_MAX)
def compile_expression(source: str) -> CompiledSource:
    """Compile an expression. Raises ExpressionInvalid."""
    return _compile(source, is_text=False)


def forget_compiled() -> None:
    """Free the memory of compiled sources if a check has filled it with those of a large script."""
    for cached in (compile_template, compile_expression):
        if cached.cache_info().currsize > HELD_COMPILED_MAX:
            cached.cache_clear()


def _compile(source: str, *, is_text: bool) -> CompiledSource:
    if len(source) > SOURCE_CHARS_MAX:
        raise ExpressionInvalid(f"longer than {SOURCE_CHARS_MAX:,} characters")
    if is_text and "{" not in source and "\r" not in source:  # Jinja would only normalise ends of lines
        return CompiledSource(source, _NO_FACTS, None, ((source, ""),), is_text=True)
    try:
        tree = _parse(source, is_text=is_text)
        every = all_nodes(tree)
        check_allowed(every)
        facts = analyse_expression(tree, every, is_text=is_text)
        pieces = _pieces(tree) if is_text else None
        template = None if _certainly_compiles(every, source) else _code_of(tree)
    except ExpressionInvalid:
        raise
    except TemplateError as error:
        raise ExpressionInvalid(_syntax_message(error), getattr(error, "lineno", 1) or 1) from error
    except (RecursionError, MemoryError, IndentationError) as error:
        raise ExpressionInvalid("nested too deeply") from error
    except SyntaxError as error:  # raised by Python for what Jinja accepts: nested blocks, a repeated argument
        raise ExpressionInvalid(error.msg) from error
    except ValueError as error:  # a number of thousands of digits, or a constant that cannot be converted to text
        raise ExpressionInvalid(shorten(str(error), 200).strip("'\"")) from error
    return CompiledSource(source, facts, template, pieces, is_text=is_text)


def _certainly_compiles(every: list[nodes.Node], source: str) -> bool:
    """Return whether only its evaluation can fail: the source is short, and Jinja and Python reject nothing in it late.

    `every` are all nodes of its tree; few nodes cannot be nested deeply.
    """
    return len(source) <= PLAIN_CHARS_MAX and len(every) <= PLAIN_NODES_MAX and all(map(_is_plain, every))


def _is_plain(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.Filter | nodes.Test):
        return type(node) in _PLAIN
    known = SANDBOX.filters if isinstance(node, nodes.Filter) else SANDBOX.tests
    return node.name in known and node.node is not None and not (node.kwargs or node.dyn_args or node.dyn_kwargs)


def _syntax_message(error: TemplateError) -> str:
    """Return the message for the author about a syntax error, without the words of Jinja's parser."""
    message = str(error).split("\n")[0].partition(" Jinja was looking")[0]
    if (unfinished := _UNFINISHED.fullmatch(message)) is not None:
        return f"{unfinished['sign'] or 'something'} is missing at the end"
    unexpected = _UNEXPECTED.fullmatch(message)
    return message if unexpected is None else f"{unexpected[1]} is not possible here"


def _pieces(tree: nodes.Template) -> tuple[_Piece, ...] | None:
    """Return the pieces of a text whose placeholders are variables only, as most are; None for any other."""
    found: list[_Piece] = []
    for output in tree.body:
        for part in output.nodes if isinstance(output, nodes.Output) else (output,):
            if isinstance(part, nodes.TemplateData):
                found.append((part.data, ""))
            elif isinstance(part, nodes.Name) and part.name not in BUILTINS:
                found.append(("", part.name))
            else:
                return None
    return tuple(found)


def _fill_in(pieces: tuple[_Piece, ...], names: Names, chars_max: int) -> Evaluation:
    """Fill in the variables of a text, with the same result as by Jinja, which takes several times as long."""
    parts, length = [], 0
    unset: dict[str, None] = {}
    spans: list[tuple[int, int]] = []
    for part, name in pieces:
        begin = length
        if name:
            value = names.value_of(name)
            if value is MISSING:
                unset[name] = None
            part = "" if value is MISSING else value if type(value) is str else to_text(value)
            spans.append((begin, begin + len(part)))
        length += len(part)
        if length > chars_max:
            raise _too_long(chars_max)
        parts.append(part)
    return Evaluation("".join(parts), tuple(unset), spans=tuple(spans))


def _parse(source: str, *, is_text: bool) -> nodes.Template:
    tree = SANDBOX.parse(source) if is_text else _parse_expression(source)
    return with_time_functions(tree) if "(" in source else tree


def _code_of(tree: nodes.Template) -> JinjaTemplate:
    """Check a syntax tree; this changes the tree."""
    metered = MeteredNodes().visit(tree.set_environment(SANDBOX))
    return JinjaTemplate.from_code(SANDBOX, SANDBOX.compile(metered), {})


def _parse_expression(source: str) -> nodes.Template:
    parser = Parser(SANDBOX, source, state="variable")
    expression = parser.parse_expression()
    if not parser.stream.eos:
        raise ExpressionInvalid(f"ends too early, before {shorten(str(parser.stream.current.value))}")
    # line 0 marks the generated assignment
    body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store", lineno=0), expression, lineno=0)]
    return nodes.Template(body, lineno=1)

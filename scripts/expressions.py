"""Templates and expressions, compiled once and evaluated against names: Jinja2 in the language's own sandbox."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from jinja2 import TemplateError, nodes
from jinja2.environment import Template as JinjaTemplate
from jinja2.parser import Parser
from msgspec import Struct

from scripts.facts import Facts, facts_of
from scripts.meaning import text_of
from scripts.members import BUILTINS
from scripts.sandbox import (
    MISSING,
    OUTPUT_CHARS_MAX,
    SANDBOX,
    Allowed,
    ExpressionFailed,
    ExpressionInvalid,
    FromValue,
    Meter,
    Metered,
    Unset,
    kind_of,
)
from scripts.values import Value, ValueRefused, bounded, shorten

SOURCE_CHARS_MAX = 20_000
COMPILED_MAX = 10_000  # compiled sources kept
HELD_MAX = 5  # variables that a message names

Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Stretches of a text, from and up to a character: those that came from values, not from the script."""

_WORDS = frozenset({"true", "false", "none", "True", "False", "None"})
_WORDS |= {"and", "or", "not", "in", "is", "if", "else", "self", "loop"}


def is_reserved(name: str) -> bool:
    """Whether an expression means something else by this name than a variable."""
    return name in BUILTINS or is_syntax(name)


def is_syntax(name: str) -> bool:
    """Whether a name is part of the expression language, so that only ``vars["…"]`` reads a variable called so."""
    return name in _WORDS or name.startswith("_")


class Names(Protocol):
    """Where an expression finds what its names mean."""

    def value_of(self, name: str) -> object:
        """The value of a name, or `MISSING`."""


class Rendered(Struct, frozen=True):
    """What came of a template or expression, and what its author should hear of.

    `spans` are the stretches of a text that came from values. `failures` are what could not be worked out, and so has
    no value.
    """

    value: Value
    unset: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    spans: Spans = ()

    @property
    def text(self) -> str:
        """The value of a template."""
        return text_of(self.value)


class Compiled:
    """A template or expression ready to be evaluated.

    `names` are the names it looks up, `reads` the variables among them with those it reads as ``vars["…"]``. The code
    of what is sure to compile is made when it is first wanted: a script is checked without it.
    """

    def __init__(self, source: str, facts: Facts, template: JinjaTemplate | None, *, is_text: bool) -> None:
        self.facts = facts
        self.names = facts.names
        self.reads = (facts.names | facts.quoted) - BUILTINS
        self._source = source
        self._made = template
        self._is_text = is_text

    @property
    def _template(self) -> JinjaTemplate:
        if self._made is None:
            self._made = _code_of(_parse(self._source, is_text=self._is_text))
        return self._made

    def evaluate(self, names: Names, chars_max: int = OUTPUT_CHARS_MAX) -> Rendered:
        """The text, of so many characters at most, or value for these names. Raises ExpressionFailed."""
        meter = Meter()
        scope: dict[str, Any] = {"_meter": meter.charge, "_compare": meter.compare}
        scope |= {"_concat": meter.concat, "_each": meter.each, "_read": meter.read}
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
            raise ExpressionFailed(f"{_reason(error)}{self._held(scope)}") from error
        failures = tuple(f"{failure}{self._held(scope)}" for failure in meter.failures)
        return Rendered(value, tuple(meter.unset), tuple(meter.mismatches), failures, tuple(spans))

    def _held(self, scope: Mapping[str, object]) -> str:
        """What the variables of the source hold, by their kinds: their values may be nobody's business."""
        names = sorted(name for name in self.reads & scope.keys() if not isinstance(scope[name], Unset))
        held = ", ".join(f"`{name}` is {kind_of(scope[name])}" for name in names[:HELD_MAX])
        return f" ({held})" if held else ""

    def _text(self, scope: dict[str, Any], spans: list[tuple[int, int]], chars_max: int) -> str:
        parts, length = [], 0
        for part in self._template.root_render_func(self._template.new_context(scope)):
            begin, length = length, length + len(part)
            if length > chars_max:
                raise ExpressionFailed(f"the text would have more than {chars_max:,} characters")
            if isinstance(part, FromValue):
                spans.append((begin, length))
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
        tree = _parse(source, is_text=is_text)
        Allowed().visit(tree)
        facts = facts_of(tree, source, is_text=is_text)
        template = None if facts.is_plain else _code_of(tree)
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
    return Compiled(source, facts, template, is_text=is_text)


def _parse(source: str, *, is_text: bool) -> nodes.Template:
    return SANDBOX.parse(source) if is_text else _parse_expression(source)


def _code_of(tree: nodes.Template) -> JinjaTemplate:
    """The tree is changed by it."""
    metered = Metered().visit(tree)
    return JinjaTemplate.from_code(SANDBOX, SANDBOX.compile(metered), {})


def _parse_expression(source: str) -> nodes.Template:
    parser = Parser(SANDBOX, source, state="variable")
    expression = parser.parse_expression()
    if not parser.stream.eos:
        raise ExpressionInvalid(f"ends too early, before {shorten(str(parser.stream.current.value))}")
    # line 0 marks the one assignment that is ours
    body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store", lineno=0), expression, lineno=0)]
    tree = nodes.Template(body, lineno=1)
    tree.set_environment(SANDBOX)
    return tree

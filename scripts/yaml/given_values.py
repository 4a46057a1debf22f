"""Read values in which `=` marks an expression at any depth: `{order: =order_id, text: "For {{ name }}", copies: 2}`.

Everything else is a literal; `==` at the beginning of a text is one literal `=`. A value with expressions inside
becomes one expression that builds it.
"""

import json
import re
from collections.abc import Callable
from collections.abc import Mapping as MappingType

from msgspec.structs import replace

from scripts.expressions.values import Value, literal
from scripts.model.base import NOWHERE, Expression, Template
from scripts.model.memory_plan import source_of, with_texts
from scripts.model.tools import Given
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree

_QUOTED = re.compile(r"'[^'\"\\\n]*'")
_CONSTANTS: MappingType[str, Value] = {"none": None, "true": True, "false": False}
_JOINT = re.compile(r" ~ \((.*?)\) ~ ", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


class GivenInvalid(Exception):
    """A part that cannot be read; `expected` and `fix` are for the author."""

    def __init__(self, tree: Tree, expected: str, fix: str) -> None:
        super().__init__(expected)
        self.tree = tree
        self.expected = expected
        self.fix = fix


def read_given(tree: Tree) -> Given:
    """Return a value as a text with placeholders or as an expression. Raises GivenInvalid."""
    if isinstance(tree, Scalar) and isinstance(tree.value, str) and "{" in tree.text and not _is_marked(tree):
        return Template(_unescape(tree.text), tree.content_at)
    return read_assigned(tree)


def read_assigned(tree: Tree) -> Expression:
    """Return a value as an expression. Raises GivenInvalid."""
    if isinstance(tree, Scalar) and _is_marked(tree):
        return Expression(tree.text[1:].strip(), tree.content_at)
    return Expression(_source(tree), tree.at)


def plain_literals(tree: Tree) -> Tree:
    """Return a value without expressions, with each `==` at the beginning of a text as `=`. Raises GivenInvalid."""
    return _unmark(tree, _refuse)


def _refuse(tree: Scalar) -> Scalar:
    fix = "Set the variable with `set`, check a field with `validate`, or write `==` for a text that begins with `=`."
    raise GivenInvalid(tree, "a value, not an expression", fix)


def with_placeholders(tree: Tree) -> Tree:
    """Return a value with each expression as a text that is only its placeholder, and so has the type of its value."""
    return _unmark(tree, lambda each: replace(each, text=f"{{{{ {each.text[1:].strip()} }}}}"))


def _unmark(tree: Tree, expression: Callable[[Scalar], Scalar]) -> Tree:
    """Return a value with each `==` at the beginning of a text as `=`, and what `expression` returns for each `=`."""
    match tree:
        case Mapping():
            return Mapping(tuple((key, _unmark(value, expression)) for key, value in tree.pairs), tree.at)
        case Sequence():
            return Sequence(tuple(_unmark(item, expression) for item in tree.items), tree.at)
        case Scalar() if _is_marked(tree):
            return expression(tree)
        case Scalar() if tree.text.startswith("=="):
            return replace(tree, text=tree.text[1:])
        case _:
            return tree


def with_expressions(value: Value) -> Value:
    """Return a value with each text that is only a placeholder as an expression: the inverse of `with_placeholders`."""
    return with_texts(value, _as_expression)


def _as_expression(text: str) -> str:
    source = source_of(text, NOWHERE)
    return f"={source.source}" if isinstance(source, Expression) else _escape_text(text)


def _is_marked(tree: Scalar) -> bool:
    return isinstance(tree.value, str) and tree.text.startswith("=") and not tree.text.startswith("==")


def assigned_value(expression: Expression) -> Value:
    """Return an expression as the value to write in YAML: the inverse of `read_assigned`."""
    try:
        value = _CONSTANTS[expression.source] if expression.source in _CONSTANTS else json.loads(expression.source)
    except (ValueError, RecursionError):
        text = _placeholder_text(expression)
        return f"={expression.source}" if text is None else text
    is_same = "{{" not in expression.source and "{%" not in expression.source and literal(value) == expression.source
    return escape(value) if is_same else f"={expression.source}"


def _placeholder_text(expression: Expression) -> str | None:
    """Return the text with placeholders that is read as this expression, or None."""
    pieces = _JOINT.split(expression.source)  # quoted texts at even places, expressions at odd ones
    try:
        pieces[::2] = [json.loads(piece) for piece in pieces[::2]]
        text = "".join(f"{{{{{piece}}}}}" if place % 2 else piece for place, piece in enumerate(pieces))
        written = _escape_text(text)
        is_same = _text_source(Scalar(written, False, expression.at)) == expression.source
    except (ValueError, TypeError, GivenInvalid):
        return None
    return written if is_same and len(pieces) > 1 else None


def escape(value: Value) -> Value:
    """Return a plain value with each `=` at the beginning of a text as `==`."""
    return with_texts(value, _escape_text)


def _escape_text(text: str) -> str:
    return f"={text}" if text.startswith("=") else text


def simplest(expression: Expression) -> Expression:
    """Return an expression without space around it, a text in double quotes, so that it is written without `=`."""
    source = expression.source.strip()
    return Expression(literal(source[1:-1]) if _QUOTED.fullmatch(source) else source, expression.at)


def given_text(given: Given) -> str:
    """Return a value as it is written in YAML: the inverse of `read_given`."""
    return f"={given.source}" if isinstance(given, Expression) else _escape_text(given.source)


def _source(tree: Tree) -> str:
    match tree:
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(key.text)}: {_source(value)}" for key, value in tree.pairs) + "}"
        case Sequence():
            return "[" + ", ".join(map(_source, tree.items)) + "]"
        case Scalar() if isinstance(tree.value, str):
            return _text_source(tree)
        case Scalar():
            return literal(tree.value)


def _text_source(tree: Scalar) -> str:
    if _is_marked(tree):
        return f"({tree.text[1:].strip()})"
    text = _unescape(tree.text)
    if "{%" in text:
        fix = 'Write an expression such as `="a" if x > 1 else "b"`, or an action in each branch of an `if`.'
        raise GivenInvalid(tree, "a text without {% %}", fix)
    end = text.rfind("}}") + 2  # behind it no placeholder ends: looking there takes long if many begin
    pieces = _PLACEHOLDER.split(text[:end]) if end > 1 else [text]  # texts at even places, expressions at odd ones
    if len(pieces) == 1:
        return literal(text)
    pieces[-1] += text[end:]
    return " ~ ".join(f"({piece})" if place % 2 else literal(piece) for place, piece in enumerate(pieces))


def _unescape(text: str) -> str:
    return text[1:] if text.startswith("==") else text

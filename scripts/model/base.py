"""The base types of the script model: locations in files, nodes, texts and expressions."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from itertools import chain, count
from typing import Annotated, Any, TypeAlias, TypeVar, cast

from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, replace

from scripts.expressions.analysis import ExpressionInfo
from scripts.expressions.expressions import CompiledSource, compile_expression, compile_template
from scripts.expressions.sandbox import ExpressionInvalid

ID_CHARS_MAX = 200

T = TypeVar("T")


class Location(Struct, frozen=True, gc=False):
    """A location in a script file; line and column count from 1, and 0 means "not in a file"."""

    line: int = 0
    column: int = 0
    file: str = ""  # name of an include file; empty for the script's own file

    def below(self, lines: int) -> "Location":
        """Return the start of the line that many lines below the start of a line, otherwise this location.

        Only a text in a block starts at the start of a line; the lines of one in quotes may be written as `\\n`.
        """
        return Location(self.line + lines, 1, self.file) if self.column == 1 else self


NOWHERE = Location()


class Node(Struct, frozen=True, kw_only=True):
    """A node of a file: `at` is the start of the node, `marks` the start of each key's value."""

    at: Location = NOWHERE
    marks: Mapping[str, Location] = {}

    def mark(self, key: str) -> Location:
        """Return the location of a key's value, or of the node if the key is not written."""
        return self.marks.get(key, self.at)


def written_key(field: FieldInfo) -> str:
    """Return the key of a field in a script. `at` of a moment is a time, not the location of its node."""
    return "at" if field.name == "clock" else field.encode_name


class _Source(Struct, frozen=True, gc=False):
    """A source in Jinja2's language."""

    source: str
    at: Location = NOWHERE

    def line_at(self, line: int) -> Location:
        """Return the location of a line of the source, counted from 1."""
        return self.at.below(line - 1)

    @property
    def compiled(self) -> CompiledSource:
        """Return the source, parsed. Raises ExpressionInvalid."""
        raise NotImplementedError

    @property
    def facts(self) -> ExpressionInfo:
        """The analysis of the source; of an invalid one, which is reported where it is checked, an empty one."""
        try:
            return self.compiled.facts
        except ExpressionInvalid:
            return ExpressionInfo()


class Template(_Source, frozen=True, gc=False):
    """A text with Jinja2 placeholders."""

    @property
    def compiled(self) -> CompiledSource:
        """Return the text with its placeholders parsed. Raises ExpressionInvalid."""
        return compile_template(self.source)


class Expression(_Source, frozen=True, gc=False):
    """A Jinja2 expression."""

    @property
    def compiled(self) -> CompiledSource:
        """Return the expression, parsed. Raises ExpressionInvalid."""
        return compile_expression(self.source)


ASSIGNED = Meta(extra={"assigned": True})
Assigned: TypeAlias = Annotated[Expression, ASSIGNED]
"""An expression that is a value; in a file with `cuebook: 1` it begins with `=`, and everything else is a literal."""


WHOLE = Meta(extra={"whole": True})
Results: TypeAlias = Annotated[Mapping[str, str], WHOLE]
"""Variables that store results, each with the name of its result; empty for all results as one record, which a file
with `cuebook: 1` writes as the variable alone.
"""


class Variable(Struct, frozen=True, gc=False):
    """A variable that an action of a package sets; the annotation of such a field."""

    name: str
    at: Location = NOWHERE


class Reference(Struct, frozen=True, gc=False):
    """A reference to the id of another node."""

    id: str
    at: Location = NOWHERE


def unused_name(name: str, used_names: Collection[str]) -> str:
    """Return a name; one that is used already, with a number from 2 on."""
    numbered = (f"{name}_{number}" for number in count(2))
    return next(each for each in chain((name,), numbered) if each not in used_names)


def parts(node: Any) -> Collection[Any]:
    """Return the values directly inside a node, list or mapping, except locations."""
    match node:
        case Struct():
            return [getattr(node, name) for name in _names_of_parts(type(node))]
        case tuple():
            return node
        case dict():
            return node.values()
        case _:
            return ()


def rebuild(node: Any, change: Callable[[Any], Any]) -> Any:
    """Return a node, list or mapping with each value directly inside it replaced, except locations."""
    match node:
        case Struct():
            return replace(node, **{name: change(getattr(node, name)) for name in _names_of_parts(type(node))})
        case tuple():
            return tuple(map(change, node))
        case dict():
            return {key: change(each) for key, each in node.items()}
        case _:
            return node


def without_places(node: T) -> T:
    """Return a copy without locations, to compare two scripts."""
    bare: Any = rebuild(node, without_places)
    if isinstance(bare, Node):
        bare = replace(bare, at=NOWHERE, marks={})
    elif isinstance(bare, Template | Expression | Reference | Variable):
        bare = replace(bare, at=NOWHERE)
    return cast(T, bare)


@cache
def _names_of_parts(kind: type[Struct]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in {"at", "marks"})

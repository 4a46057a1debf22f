"""The variables of a script: declarations, values extracted from the conversation, and computed values."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar

from msgspec import field

from scripts.expressions.values import TIMES, DeclaredType, Value, ValueRefused, ValueType, coerce, infer_type
from scripts.model.base import Assigned, Expression, Node, Template

Limit: TypeAlias = int | float | str | None
V = TypeVar("V")


class Declaration(Node, frozen=True, kw_only=True, dict=True):
    """A declaration of a variable in a scope."""

    var: str
    define: str = ""
    value: Value = None
    type: DeclaredType | None = None
    choices: tuple[str, ...] = ()
    pii: bool = False
    auto: bool = False  # updated from every message of the user, whatever the question
    labels: Mapping[str, str] = {}  # of the choices by value, where they differ

    @cached_property
    def kind(self) -> DeclaredType | None:
        """The type; `choices` without a type imply the type choice."""
        return "choice" if self.choices and self.type is None else self.type


def by_name(declared: Iterable[Declaration]) -> dict[str, Declaration]:
    """Return declarations by the names of their variables."""
    return {each.var: each for each in declared}


class Validation(Node, frozen=True, kw_only=True):
    """A condition that a value must hold, and what the session says if it does not; by default `invalid`."""

    unless: Expression
    say: Template | None = None


class Output(Node, frozen=True, kw_only=True, dict=True):
    """A value that an action extracts from the conversation."""

    get: str
    define: str = ""
    type: DeclaredType | None = None
    choice_list: tuple[str, ...] | Expression = field(name="choices", default=())
    pattern: str | None = None
    min: Limit | Expression = None
    max: Limit | Expression = None
    required: bool | None = None
    default: Value | Expression = None
    validate: tuple[Validation, ...] = ()
    invalid: Template | None = None
    fallback: Literal["raw"] | None = None
    labels: Mapping[str, str] = {}  # of the choices by value, where they differ

    @cached_property
    def kind(self) -> DeclaredType | None:
        """The type; `choices` without a type imply the type choice."""
        return "choice" if self.choice_list and self.type is None else self.type

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The choices, as far as they are literals; in the runtime, all are."""
        return constant(self.choice_list) or ()

    @property
    def limits(self) -> tuple[Limit, Limit]:
        """The smallest and the largest value, as far as they are literals; in the runtime, all are."""
        return constant(self.min), constant(self.max)

    @property
    def limited_type(self) -> DeclaredType:
        """The type of its limits: a date or time, else a number, for the value or the length of a text or list."""
        return self.type if self.type is not None and self.type in TIMES else "number"

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """The limits, the default and the choices that are expressions."""
        values = (self.min, self.max, self.default, self.choice_list)
        return tuple(each for each in values if isinstance(each, Expression))

    @property
    def variable(self) -> str:
        """The variable that the item sets."""
        return self.get

    @property
    def questions(self) -> "tuple[Output, ...]":
        """The values of the item that come from the conversation."""
        return (self,)


def constant(value: V | Expression) -> V | None:
    """Return a limit or default that is a literal, as all are in the runtime; None for an expression."""
    return None if isinstance(value, Expression) else value


def taken_type(value: Value, output: Output | None) -> ValueType:
    """Return the type of a value that an output stored in an undeclared variable.

    It is the output's type if the value matches it; a value stored by `fallback: raw` is text unless it is a choice.
    """
    if value is None or output is None or output.kind is None or (output.kind == "choice" and not output.choices):
        return infer_type(value)
    try:
        return output.kind if coerce(value, output.kind, output.choices) == value else infer_type(value)
    except ValueRefused:
        return infer_type(value)


class Assignment(Node, frozen=True, kw_only=True):
    """A value that an action computes after it has taken its values from the answer."""

    set: str
    value: Assigned
    when: Expression | None = None

    @property
    def variable(self) -> str:
        """The variable that the item sets."""
        return self.set

    @property
    def questions(self) -> tuple[Output, ...]:
        """The values of the item that come from the conversation."""
        return ()


class Records(Node, frozen=True, kw_only=True):
    """Fields of a record; each time they are filled, the record is appended to a list.

    A model may find several records in one reply. A record whose `key` field equals that of an earlier one updates it.
    """

    tolist: str
    fields: tuple[Output, ...]
    key: str = ""
    define: str = ""
    required: bool | None = None

    @property
    def variable(self) -> str:
        """The variable that the item sets."""
        return self.tolist

    @property
    def questions(self) -> tuple[Output, ...]:
        """The values of the item that come from the conversation."""
        return self.fields


OutputItem: TypeAlias = Output | Assignment | Records

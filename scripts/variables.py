"""What a script says of its variables: how they are declared, taken from what is said, and computed."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from scripts.nodes import Expression, Node, Template
from scripts.values import DeclaredType, Value, ValueRefused, ValueType, coerce, infer_type


class Declaration(Node, frozen=True, kw_only=True):
    """A variable that a scope owns."""

    var: str
    define: str = ""
    value: Value = None
    type: DeclaredType | None = None
    choices: tuple[str, ...] = ()
    pii: bool = False
    auto: bool = False  # kept up to date from what the user says, whatever is being asked

    @property
    def kind(self) -> DeclaredType | None:
        """Its type; choices alone make it a choice."""
        return "choice" if self.choices and self.type is None else self.type


class Output(Node, frozen=True, kw_only=True):
    """A value that an action takes from the conversation."""

    get: str
    define: str = ""
    type: DeclaredType | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    min: int | float | str | None = None
    max: int | float | str | None = None
    required: bool | None = None
    default: Value = None
    validate: Expression | None = None
    invalid: Template | None = None
    fallback: Literal["raw"] | None = None
    labels: Mapping[str, str] = {}  # what the user reads for a choice, by its value, in a translated script

    @property
    def kind(self) -> DeclaredType | None:
        """Its type; choices alone make it a choice."""
        return "choice" if self.choices and self.type is None else self.type


def taken_type(value: Value, output: Output | None) -> ValueType:
    """Return the type of a value that an output took for a variable nobody declared.

    It is the output's type where the value fits it; what `fallback: raw` keeps is text unless it is one of the choices.
    """
    if value is None or output is None or output.kind is None or (output.kind == "choice" and not output.choices):
        return infer_type(value)
    try:
        return output.kind if coerce(value, output.kind, output.choices) == value else infer_type(value)
    except ValueRefused:
        return infer_type(value)


class Assignment(Node, frozen=True, kw_only=True):
    """A value that an action computes once its own outputs are taken."""

    set: str
    value: Expression
    when: Expression | None = None


class Records(Node, frozen=True, kw_only=True):
    """Fields that belong together: each time they are taken, a list gets one record more.

    A model may find several records in one reply.
    """

    tolist: str
    fields: tuple[Output, ...]
    define: str = ""
    required: bool | None = None


OutputItem: TypeAlias = Output | Assignment | Records

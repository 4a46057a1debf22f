"""When an action that leads a conversation ends: its exits, and the keys that older files have for them."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from scripts.expressions.expressions import is_reserved
from scripts.expressions.values import Value, literal
from scripts.model.base import Expression, Location, Node, Template

ROUNDS_MAX = 10
Rounds: TypeAlias = Annotated[int, Meta(ge=0, le=ROUNDS_MAX)]
Percent: TypeAlias = Annotated[int, Meta(ge=0, le=100)]


class Exit(Node, frozen=True, kw_only=True):
    """Criteria of which all must be met for an action to end.

    `said` is for the model to judge; `understanding` and `no_questions` are about what the model says of the user.
    """

    said: Template | None = None
    when: Expression | None = None
    understanding: Percent | None = None
    no_questions: bool | None = None
    min_rounds: Rounds = 0

    @property
    def has_criteria(self) -> bool:
        """Whether it can be met; a minimum of rounds alone ends nothing."""
        return self.said is not None or self.when is not None or self.is_judged

    @property
    def is_judged(self) -> bool:
        """Whether the model must say how much the user understands."""
        return self.understanding is not None or self.no_questions is not None

    @property
    def has_only_words(self) -> bool:
        """Whether nothing but the model's judgement of `said` counts."""
        return self.said is not None and self.when is None and not self.is_judged and not self.min_rounds

    @property
    def has_only_condition(self) -> bool:
        """Whether nothing but `when` counts."""
        return self.when is not None and self.said is None and not self.is_judged and not self.min_rounds


class CustomCondition(Node, frozen=True, kw_only=True):
    """A comparison of a variable in older exit criteria."""

    variable: str
    operator: Literal["==", "!=", ">", "<", ">=", "<=", "contains"]
    value: Value

    @property
    def source(self) -> str:
        """The expression; without a value of the variable it is false."""
        is_name = self.variable.isidentifier() and not is_reserved(self.variable)
        name = self.variable if is_name else f"vars[{literal(self.variable)}]"
        value = literal(self.value)
        comparison = f"{value} in {name}" if self.operator == "contains" else f"{name} {self.operator} {value}"
        return f"{name} is defined and {comparison}"


class ExitCriteria(Node, frozen=True, kw_only=True):
    """The older criteria of which all must be met, beside `exit` and `exit_when`."""

    understanding_threshold: Percent | None = None
    has_questions: bool | None = None
    min_rounds: Rounds = 0
    custom_conditions: tuple[CustomCondition, ...] = ()


class OlderCriteria(Node, frozen=True, kw_only=True):
    """The older key of `ai_say` for its exit."""

    exit_criteria: ExitCriteria | None = None


class OlderExits(OlderCriteria, frozen=True, kw_only=True):
    """The older keys of other actions for their exits, of which one is enough."""

    exit: Template | None = None
    exit_when: Expression | None = None


def exits_of(
    *,
    exit: Template | None = None,
    exit_when: Expression | None = None,
    exit_criteria: ExitCriteria | None = None,
) -> tuple[Exit, ...]:
    """Return the exits that older keys stand for, in the order in which they are tried."""
    found = []
    if exit_when is not None:
        found.append(Exit(when=exit_when, at=exit_when.at))
    if exit is not None:
        found.append(Exit(said=exit, at=exit.at))
    if exit_criteria is not None and (criteria := _exit_of(exit_criteria)).has_criteria:
        found.append(criteria)
    return tuple(found)


def _exit_of(criteria: ExitCriteria) -> Exit:
    conditions = criteria.custom_conditions
    at: Location = conditions[0].at if conditions else criteria.at
    source = " and ".join(each.source for each in conditions)
    return Exit(
        when=Expression(source, at) if conditions else None,
        understanding=criteria.understanding_threshold,
        no_questions=None if criteria.has_questions is None else not criteria.has_questions,
        min_rounds=criteria.min_rounds,
        at=criteria.at,
    )

"""Older keys of actions that stand for others: they are read into the same model as the keys of the first release."""

from typing import Any, Literal

from scripts.expressions.expressions import is_reserved
from scripts.expressions.values import Value, literal
from scripts.model.actions import Acknowledgement, Exit, Percent, Rounds
from scripts.model.base import Expression, Location, Node, Template


class CustomCondition(Node, frozen=True, kw_only=True):
    """A comparison of a variable in older exit criteria."""

    variable: str
    operator: Literal["==", "!=", ">", "<", ">=", "<=", "contains", "lacks", "in", "not in"]
    value: Value

    @property
    def source(self) -> str:
        """The expression; without a value of the variable it is false, except that it is the empty text."""
        is_name = self.variable.isidentifier() and not is_reserved(self.variable)
        name = self.variable if is_name else f"vars[{literal(self.variable)}]"
        value = literal(self.value)
        if self.value in (None, "") and self.operator in {"==", "!="}:
            return f'({name}|default("") ~ "") {self.operator} ""'
        within = {"contains": "in", "lacks": "not in"}.get(self.operator)
        comparison = f"{value} {within} {name}" if within else f"{name} {self.operator} {value}"
        return f"{name} is defined and {comparison}"


class ExitCriteria(Node, frozen=True, kw_only=True):
    """The older criteria of which all must be met, beside `exit` and `exit_when`."""

    understanding_threshold: Percent | None = None
    has_questions: bool | None = None
    min_rounds: Rounds = 0
    custom_conditions: tuple[CustomCondition, ...] = ()


class OlderSpeech(Node, frozen=True, kw_only=True):
    """The older keys of `ai_say` for its messages, its waits and its exit."""

    max_rounds: Rounds | None = None
    require_acknowledgment: bool | None = None
    exit_criteria: ExitCriteria | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that they stand for."""
        exits = exits_of(exit_criteria=self.exit_criteria)
        return speech_of(self.max_rounds, self.require_acknowledgment) | {"exits": exits}


class OlderExits(Node, frozen=True, kw_only=True):
    """The older keys of other actions for their exits, of which one is enough."""

    exit: Template | None = None
    exit_when: Expression | None = None
    exit_criteria: ExitCriteria | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that they stand for."""
        exits = exits_of(exit=self.exit, exit_when=self.exit_when, exit_criteria=self.exit_criteria)
        return {"exits": exits}


def speech_of(max_rounds: int | None, require_acknowledgment: bool | None) -> dict[str, Any]:
    """Return the fields of `ai_say` for its number of messages and whether it waits after a single one.

    One message with `max_rounds: 1` waits, unless no acknowledgment is required.
    """
    utterances = max_rounds or 1
    waits = max_rounds == 1 if require_acknowledgment is None else require_acknowledgment
    return {"utterances": utterances, "acknowledge": Acknowledgement() if waits and utterances == 1 else None}


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

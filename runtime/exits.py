"""Whether an action that leads a conversation is done: one decision, in one order (language.md, section 5)."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from runtime.ports import ModelReply
from runtime.scopes import Scopes
from scripts.actions import CustomCondition, ExitCriteria, PolicyKey
from scripts.meaning import compare
from scripts.values import Value

ExitSource: TypeAlias = Literal["exit_when", "model", "exit_criteria", "on_blocked", "on_off_topic", "max_rounds", ""]

_SIGNS = {"==": "eq", "!=": "ne", ">": "gt", "<": "lt", ">=": "gteq", "<=": "lteq"}


class ExitDecision(Struct, frozen=True):
    """The verdict, what decided it, and why."""

    exit: bool
    source: ExitSource = ""
    reason: str = ""


def decide_exit(
    *,
    round_number: int,
    rounds_max: int,
    reply: ModelReply,
    exit_when: bool,
    criteria: ExitCriteria | None,
    scopes: Scopes,
    taken: Mapping[str, Value],
    given_up: PolicyKey | Literal[""] = "",
) -> ExitDecision:
    """The exit decision after a round: `exit_when`, the model, the criteria, a policy that gives up, then the rounds.

    `taken` are the action's own values so far, which are written only once it is done. `given_up` is the policy that
    ends the action if nothing else does.
    """
    if exit_when:
        return ExitDecision(True, "exit_when", "the condition holds")
    if says_done(reply):
        return ExitDecision(True, "model", reply.exit_reason or "the task is done")
    unmet = _unmet(criteria, round_number, reply, scopes, taken) if criteria is not None else "no criteria"
    if not unmet:
        return ExitDecision(True, "exit_criteria", "all criteria are met")
    if given_up:
        return ExitDecision(True, given_up, reply.exit_reason or f"the reply is {reply.progress}")
    if round_number >= rounds_max:
        return ExitDecision(True, "max_rounds", f"round {round_number} of {rounds_max}")
    return ExitDecision(False, "", unmet)


def says_done(reply: ModelReply) -> bool:
    """Whether the model says that the action is done: outright, or by how far it is."""
    return reply.exit if reply.exit is not None else reply.progress == "completed"


def _unmet(
    criteria: ExitCriteria, round_number: int, reply: ModelReply, scopes: Scopes, taken: Mapping[str, Value]
) -> str:
    """The first criterion that is not met, or an empty text."""
    if round_number < criteria.min_rounds:
        return f"round {round_number} of at least {criteria.min_rounds}"
    threshold = criteria.understanding_threshold
    if threshold is not None and (reply.understanding is None or reply.understanding < threshold):
        return f"understanding {reply.understanding or 0} below {threshold}"
    if criteria.has_questions is not None and reply.has_questions is not criteria.has_questions:
        return "has no questions" if criteria.has_questions else "still has questions"
    for condition in criteria.custom_conditions:
        if not _holds(condition, scopes, taken):
            return f"{condition.variable} {condition.operator} {condition.value} does not hold"
    if threshold is None and criteria.has_questions is None and not criteria.custom_conditions:
        return "only a minimum of rounds is given"
    return ""


def _holds(condition: CustomCondition, scopes: Scopes, taken: Mapping[str, Value]) -> bool:
    found = scopes.find(condition.variable)
    value = taken.get(condition.variable, None if found is None else found[1])
    if value is None:
        return False
    if condition.operator == "contains":
        return bool(compare("in", condition.value, value))
    return bool(compare(_SIGNS[condition.operator], value, condition.value))

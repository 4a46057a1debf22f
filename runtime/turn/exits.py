"""Evaluation of a reply to an action that leads a conversation: whether the action is done, or must be given up.

`decide_exit` applies the criteria in one order (language.md, section 5). A reply that is `blocked` (the user cannot or
will not answer) or `off_topic` counts as a round like any other, so that a conversation is bounded whatever the model
answers. The script's policy for such replies applies after enough of them in a row: before the rounds are used up,
after everything else that ends the action.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from runtime.state.events import Judged
from runtime.state.ports import Advance, ModelReply
from runtime.state.scopes import Scopes
from runtime.turn.context import TurnContext
from scripts.expressions.values import Value, compare
from scripts.model.actions import AiAsk, Chat, CustomCondition, ExitCriteria, Policy, PolicyKey, policies, rounds_of

ExitSource: TypeAlias = Literal["exit_when", "model", "exit_criteria", "on_blocked", "on_off_topic", "max_rounds", ""]

_SIGNS = {"==": "eq", "!=": "ne", ">": "gt", "<": "lt", ">=": "gteq", "<=": "lteq"}


class ExitDecision(Struct, frozen=True):
    """The decision, its source and its reason."""

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
    values: Mapping[str, Value],
    given_up: PolicyKey | Literal[""] = "",
) -> ExitDecision:
    """Return the exit decision of a round: `exit_when`, the model, the criteria, a policy that gives up, the rounds.

    `values` are the action's own values so far, which are written only once it is done. `given_up` is the policy that
    ends the action if nothing else does.
    """
    if exit_when:
        return ExitDecision(True, "exit_when", "the condition holds")
    if says_done(reply):
        return ExitDecision(True, "model", reply.exit_reason or "the task is done")
    unmet = _unmet(criteria, round_number, reply, scopes, values) if criteria is not None else "no criteria"
    if not unmet:
        return ExitDecision(True, "exit_criteria", "all criteria are met")
    if given_up:
        return ExitDecision(True, given_up, reply.exit_reason or f"the reply is {reply.progress}")
    if round_number >= rounds_max:
        return ExitDecision(True, "max_rounds", f"round {round_number} of {rounds_max}")
    return ExitDecision(False, "", unmet)


def says_done(reply: ModelReply) -> bool:
    """Return whether the model says that the action is done, explicitly or by its progress."""
    return reply.exit if reply.exit is not None else reply.progress == "completed"


def _unmet(
    criteria: ExitCriteria, round_number: int, reply: ModelReply, scopes: Scopes, values: Mapping[str, Value]
) -> str:
    """Return the first criterion that is not met, or an empty string."""
    if round_number < criteria.min_rounds:
        return f"round {round_number} of at least {criteria.min_rounds}"
    threshold = criteria.understanding_threshold
    if threshold is not None and (reply.understanding is None or reply.understanding < threshold):
        return f"understanding {reply.understanding or 0} below {threshold}"
    if criteria.has_questions is not None and reply.has_questions is not criteria.has_questions:
        return "has no questions" if criteria.has_questions else "still has questions"
    for condition in criteria.custom_conditions:
        if not _holds(condition, scopes, values):
            return f"{condition.variable} {condition.operator} {condition.value} does not hold"
    if threshold is None and criteria.has_questions is None and not criteria.custom_conditions:
        return "only a minimum of rounds is given"
    return ""


def _holds(condition: CustomCondition, scopes: Scopes, values: Mapping[str, Value]) -> bool:
    found = scopes.find(condition.variable)
    value = values.get(condition.variable, None if found is None else found[1])
    if value is None:
        return False
    if condition.operator == "contains":
        return bool(compare("in", condition.value, value))
    return bool(compare(_SIGNS[condition.operator], value, condition.value))


# -- judgement of a reply ---------------------------------------------------------------------------------------------


_KEYS: Mapping[Advance, PolicyKey] = {"blocked": "on_blocked", "off_topic": "on_off_topic"}


class Judgement(Struct, frozen=True):
    """Whether the action is done, and the policy that applies to the reply, if any."""

    decision: ExitDecision
    policy: Policy | None = None

    @property
    def is_given_up(self) -> bool:
        """Return whether the policy ends the action."""
        return self.decision.source in _KEYS.values()


def judge(run: TurnContext, action: AiAsk | Chat, reply: ModelReply, values: Mapping[str, Value]) -> Judgement:
    """Count the latest reply and return its judgement. `values` are the action's own values so far."""
    key = _KEYS.get(reply.progress) if reply.progress is not None else None
    run.progress.astray = {key: run.progress.astray.get(key, 0) + 1} if key is not None else {}
    policy = policies(action).get(key) if key is not None else None
    if key is not None and policy is not None and run.progress.astray[key] < policy.after:
        policy = None
    decision = decide_exit(
        round_number=run.progress.round,
        rounds_max=rounds_of(action),
        reply=reply,
        exit_when=action.exit_when is not None and run.holds(action.exit_when, values),
        criteria=action.exit_criteria,
        scopes=run.scopes,
        values=values,
        given_up=key if key is not None and policy is not None and policy.then.policy != "continue" else "",
    )
    is_done = decision.exit and decision.source != key
    return Judgement(decision, None if is_done else policy)


def record(run: TurnContext, action: AiAsk | Chat, reply: ModelReply, judgement: Judgement) -> None:
    """Record the judgement of a round; if the model does not report its progress, the decision determines it."""
    decision = judgement.decision
    is_done = decision.source in {"exit_when", "model", "exit_criteria"}
    run.record(
        Judged(
            action_id=action.id,
            round=run.progress.round,
            progress=reply.progress or ("completed" if is_done else "continue_needed"),
            understanding=reply.understanding,
            has_questions=reply.has_questions,
            exit=decision.exit,
            reason=decision.reason,
        )
    )

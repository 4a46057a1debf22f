"""Evaluation of a reply to an action that leads a conversation: whether the action is done, or must be given up.

`decide_exit` applies the criteria in one order (language.md, section 5). A reply that is `blocked` (the user cannot or
will not answer) or `off_topic` counts as a round like any other, so that a conversation is bounded whatever the model
answers. The script's policy for such replies applies after enough of them in a row: before the rounds are used up,
after everything else that ends the action.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from runtime.state.events import Judged
from runtime.state.ports import Advance, ModelReply
from runtime.turn.context import TurnContext
from scripts.expressions.values import Value
from scripts.model.actions import AiAsk, Chat, Exit, Leading, Policy, PolicyKey, policies, rounds_of
from scripts.model.base import Expression, Template

NOT_DONE = "the model does not say that it is done"
ExitSource: TypeAlias = Literal["exit_when", "model", "exit_criteria", "on_blocked", "on_off_topic", "max_rounds", ""]


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
    exits: Iterable[Exit],
    holds: Callable[[Expression], bool],
    given_up: PolicyKey | Literal[""] = "",
) -> ExitDecision:
    """Return the exit decision of a round: a condition, the model, other exits, a policy that gives up, the rounds.

    `holds` evaluates a condition. `given_up` is the policy that ends the action if nothing else does.
    """
    exits = tuple(exits)
    if any(each.when is not None and each.has_only_condition and holds(each.when) for each in exits):
        return ExitDecision(True, "exit_when", "the condition holds")
    worded = [each for each in exits if each.said is not None]
    first_round = min((each.min_rounds for each in exits if not each.has_only_condition), default=0)
    is_open = not worded and round_number >= first_round
    if says_done(reply) and (is_open or any(each.has_only_words for each in worded)):
        return ExitDecision(True, "model", reply.exit_reason or "the task is done")
    unmet = reply.exit_reason or NOT_DONE
    for each in exits:
        if not each.has_only_condition and not each.has_only_words:
            unmet = _unmet(each, round_number, reply, holds)
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


def words_of(action: Leading) -> Template | None:
    """Return what the model is to judge for the action to end."""
    return next((each.said for each in action.exits if each.said is not None), None)


def ends_by_condition(action: Leading) -> bool:
    """Return whether conditions of the script alone end an action, and nothing that a model must judge."""
    return any(each.when is not None for each in action.exits) and not any(
        each.said is not None or each.is_judged for each in action.exits
    )


def _unmet(exit: Exit, round_number: int, reply: ModelReply, holds: Callable[[Expression], bool]) -> str:
    """Return the first criterion that is not met, or an empty string."""
    if round_number < exit.min_rounds:
        return f"round {round_number} of at least {exit.min_rounds}"
    if exit.understanding is not None and (reply.understanding or 0) < exit.understanding:
        return f"understanding {reply.understanding or 0} below {exit.understanding}"
    if exit.no_questions is not None and reply.has_questions is not (not exit.no_questions):
        return "still has questions" if exit.no_questions else "has no questions"
    if exit.said is not None and not says_done(reply):
        return NOT_DONE
    if exit.when is not None and not holds(exit.when):
        return f"{exit.when.source} does not hold"
    return ""


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
        exits=action.exits,
        holds=lambda condition: run.holds(condition, values),
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

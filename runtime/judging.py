"""What a reply comes to for an action that leads a conversation: whether it is done, or must be given up.

A reply that is `blocked` (the user cannot or will not answer) or `off_topic` counts as a round like any other, so that
a conversation is bounded whatever the model makes of it. What the script has for such replies acts once there were
enough of them in a row: before the rounds are used up, after everything else that ends the action.
"""

from collections.abc import Mapping

from msgspec import Struct

from runtime.events import Judged
from runtime.exits import ExitDecision, decide_exit
from runtime.ports import Advance, ModelReply
from runtime.run import Run
from scripts.actions import AiAsk, Chat, Policy, PolicyKey, policies, rounds_of
from scripts.values import Value

_KEYS: Mapping[Advance, PolicyKey] = {"blocked": "on_blocked", "off_topic": "on_off_topic"}


class Judgement(Struct, frozen=True):
    """Whether the action is done, and the policy that acts on the reply, if one does."""

    decision: ExitDecision
    policy: Policy | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether the policy ends the action."""
        return self.decision.source in _KEYS.values()


def judge(run: Run, action: AiAsk | Chat, reply: ModelReply, taken: Mapping[str, Value]) -> Judgement:
    """What the latest reply comes to; it is counted. `taken` are the action's own values so far."""
    key = _KEYS.get(reply.progress) if reply.progress is not None else None
    run.progress.astray = {key: run.progress.astray.get(key, 0) + 1} if key is not None else {}
    policy = policies(action).get(key) if key is not None else None
    if key is not None and policy is not None and run.progress.astray[key] < policy.after:
        policy = None
    decision = decide_exit(
        round_number=run.progress.round,
        rounds_max=rounds_of(action),
        reply=reply,
        exit_when=action.exit_when is not None and run.holds(action.exit_when, taken),
        criteria=action.exit_criteria,
        scopes=run.scopes,
        taken=taken,
        given_up=key if key is not None and policy is not None and policy.then.policy != "continue" else "",
    )
    is_done = decision.exit and decision.source != key
    return Judgement(decision, None if is_done else policy)


def record(run: Run, action: AiAsk | Chat, reply: ModelReply, judgement: Judgement) -> None:
    """Notes what a round came to; a model that does not say how far it is leaves that to the decision."""
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

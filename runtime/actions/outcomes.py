"""Outcomes: what an action returns to the engine, and the exit policies of questions and interrupts that choose one."""

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from msgspec import Struct

from runtime.state.events import EndedBy
from runtime.state.state import Choice, Source, Wait
from runtime.turn.context import TurnContext
from scripts.expressions.values import Value
from scripts.model.actions import ON_FAIL, AfterRounds, Asking, Chat, Expiry, FailureExit, Onward
from scripts.model.script import After


class Done(Struct, frozen=True):
    """Continue with the next action."""


class Waits(Struct, frozen=True):
    """End the turn; the user's answer resumes this action."""

    wait: Wait


class Enter(Struct, frozen=True):
    """Run an arm of this action, once or for each item."""

    arm: str
    items: list[Value] | None = None
    item_name: str = ""


class CallSkill(Struct, frozen=True):
    """Run a skill with these variables set (name, value, source), for the current item if there are items."""

    skill: str
    variables: tuple[tuple[str, Value, Source], ...]
    items: list[Value] | None = None
    item_name: str = ""


class Jump(Struct, frozen=True):
    """Continue at the beginning of another topic."""

    phase: str
    topic: str


class Leave(Struct, frozen=True):
    """Leave the skill that the action belongs to, which then returns nothing, or else the topic."""


class Finish(Struct, frozen=True):
    """End the conversation."""

    reason: str
    by: EndedBy
    action_id: str = ""
    outcome: str = ""


class Answer(Struct, frozen=True):
    """Let a topic answer a message while the session sleeps; then the wait goes on."""

    interrupt: str


class Expired(Struct, frozen=True):
    """Let a question expire instead of putting it, because its date is past."""

    question: Asking | Chat
    expiry: Expiry


Outcome: TypeAlias = Done | Waits | Enter | CallSkill | Jump | Leave | Finish | Answer | Expired
DONE = Done()


def offering(choices: Iterable[Choice]) -> Waits:
    """Return a wait for one of several answers."""
    return Waits(Wait("choice", tuple(choices)))


# -- exit policies ----------------------------------------------------------------------------------------------------


USER_ENDED = "the user ended it"
NO_VALID_ANSWER, NO_ANSWER, EXPIRED = "no valid answer to {}", "no answer to {}", "no answer to {} in time"


def reasons_of(action_id: str) -> tuple[str, ...]:
    """Return the end reasons that the runtime gives when the policy of an action ends the conversation."""
    return tuple(reason.format(action_id) for reason in (NO_VALID_ANSWER, NO_ANSWER, EXPIRED))


def after_failure(run: TurnContext, action: Asking) -> Outcome:
    """Say the text of `on_fail`, and return the outcome that it selects."""
    on_fail = action.on_fail
    if on_fail.say is not None:
        run.say(run.text(on_fail.say))
    return Enter(ON_FAIL) if on_fail.actions else leave_question(run, action)


def leave_question(run: TurnContext, action: Asking) -> Outcome:
    """Return the outcome of a question without a valid answer, after the actions of its `on_fail`."""
    return onward(run, action.on_fail.then, Finish(NO_VALID_ANSWER.format(action.id), "rounds", action.id))


def give_up(run: TurnContext, action_id: str, then: Onward) -> Outcome:
    """Return the outcome of a policy for replies that give no answer."""
    return onward(run, then, Finish(NO_ANSWER.format(action_id), "rounds", action_id))


def onward(run: TurnContext, then: AfterRounds | Onward | FailureExit, end: Finish) -> Outcome:
    """Return where a policy lets the conversation continue: at its `end`, elsewhere, or with the next action."""
    if then.policy == "end":
        return end
    return Jump(*run.target(then.target)) if then.policy == "goto" else DONE


def outcome_after(run: TurnContext, then: After) -> Outcome:
    """Return the outcome for an action that was interrupted; the caller handles `resume`."""
    match then.policy:
        case "restart_topic":
            return Jump(run.state.phase, run.state.topic)
        case "leave_topic":
            return Leave()
        case "goto":
            return Jump(*run.target(then.target))
        case "end":
            return Finish(USER_ENDED, "user", run.action_id)
        case "skip" | "resume":
            return DONE
        case _:
            assert_never(then.policy)

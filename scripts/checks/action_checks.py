"""Check what only actions of one type have, as far as it does not depend on where the action is."""

from collections.abc import Iterator

from scripts.checks import time_checks
from scripts.checks.filter_checks import filter_faults
from scripts.checks.identifier_checks import label_faults
from scripts.expressions.suggestions import SURE, likeness
from scripts.model import actions
from scripts.model.actions import HAND_OVER, ROUNDS_DEFAULT, ROUNDS_MAX, Action, policies, rounds_of
from scripts.model.base import Location
from scripts.model.context_strategies import faults_of
from scripts.model.diagnostics import Fault
from scripts.model.experiments import block_faults
from scripts.model.memory_plan import MemoryPlan
from scripts.model.script import Script


def action_faults(action: Action, script: Script) -> Iterator[Fault]:
    """Check the rounds, exits, moments, texts, names and data of an action."""
    yield from label_faults(action.milestone, action, "milestone")
    yield from time_checks.action_faults(action)
    yield from _text_faults(action)
    yield from _exit_faults(action)
    yield from _round_faults(action, is_native=script.form == "native")
    match action:
        case actions.Show() if action.media.image is None and action.media.url is None:
            yield Fault("REQUIRED_FIELD_MISSING", "`show` needs `image` or `url`", action.media.at)
        case actions.Experiment():
            yield from block_faults(action, script.experiments)
        case actions.Emit():
            yield from _event_faults(action.signal)
        case actions.End() if action.ending is not None:
            yield from label_faults(action.ending.outcome, action.ending, "outcome")
        case actions.Remember() | actions.Recall():
            yield from _memory_faults(action, script.memory)
        case actions.Chat() if action.context is not None:
            yield from faults_of(action.context)


def _text_faults(action: Action) -> Iterator[Fault]:
    """Check that what is said, asked or given to the model is not empty."""
    match action:
        case actions.Say() if not any(text.source.strip() for text in action.texts):
            yield Fault("EMPTY_TEXT", "the text is empty", action.mark("say"))
        case actions.Ask(question=text) | actions.AiAsk(task=text) | actions.AiSay(task=text):
            if not text.source.strip():
                yield Fault("EMPTY_TEXT", "the text is empty", text.at)


def _exit_faults(action: Action) -> Iterator[Fault]:
    """Check that the model has one thing to judge, because it answers whether it is done only once."""
    worded = [each for each in action.exits if each.said is not None] if isinstance(action, actions.Leading) else []
    if len(worded) > 1:
        fix = "Write both in one `said`: the model gives one judgement."
        yield Fault("KEY_CONFLICT", "`said` occurs in two exits", worded[1].mark("said"), fix)


def _round_faults(action: Action, *, is_native: bool) -> Iterator[Fault]:
    """Check that there are rounds, and enough of them for the exits and policies."""
    if isinstance(action, actions.AiSay):
        yield from _utterance_faults(action)
    if isinstance(action, actions.Asking) and not action.max_rounds and is_native:
        message = f"0 rounds count as the default, {ROUNDS_DEFAULT}"
        fix = f"Write a number from 1 to {ROUNDS_MAX}, or remove it."
        yield Fault("CONSTRAINT_VIOLATION", message, action.mark("max_rounds"), fix, "warning")
    if not isinstance(action, actions.AiAsk | actions.Chat):
        return
    rounds = rounds_of(action)
    for each in (each for each in action.exits if each.min_rounds > rounds):
        message = f"`min_rounds` is {each.min_rounds}, but there are at most {rounds} rounds"
        yield Fault("POLICY_TOO_LATE", message, each.mark("min_rounds"))
    for key, policy in policies(action).items():
        if policy.after > rounds:
            message = f"`{key}` needs {policy.after} replies, but there are at most {rounds}"
            yield Fault("POLICY_TOO_LATE", message, policy.mark("after"))


def _utterance_faults(action: actions.AiSay) -> Iterator[Fault]:
    """Check that the exits can be met: they are tried at the reply to each message but the last."""
    replies = action.utterances - 1
    if action.exits and not replies:
        fix = "Write `utterances: 3` beside it (`max_rounds: 3` in a file without `cuebook: 1`)."
        yield Fault("POLICY_TOO_LATE", "an exit has no effect on a single message", action.exits[0].at, fix)
        return
    for each in action.exits:
        if each.min_rounds > replies:
            message = f"`min_rounds` is {each.min_rounds}, but there are at most {replies} replies between the messages"
            fix = "Lower `min_rounds`, or raise `utterances`."
            yield Fault("POLICY_TOO_LATE", message, each.mark("min_rounds"), fix)


def _event_faults(signal: actions.Signal) -> Iterator[Fault]:
    yield from label_faults(signal.event, signal, "event")
    if signal.event != HAND_OVER and likeness(signal.event.casefold(), HAND_OVER) >= SURE:
        message = f"`{signal.event}` only informs the application; `{HAND_OVER}` asks for a person"
        yield Fault("HAND_OVER_MISSPELT", message, signal.mark("event"))


def memory_off(at: Location) -> Fault:
    """Return the fault of using the memory of a script that has none."""
    return Fault("MEMORY_OFF", "the script's `memory` is `off`", at)


def _memory_faults(action: actions.Remember | actions.Recall, plan: MemoryPlan) -> Iterator[Fault]:
    if plan.is_off:
        yield memory_off(action.at)
    elif isinstance(action, actions.Remember) and plan.remember == "nothing":
        fix = "Remove `remember: nothing` from `memory`, or remove the `remember` actions."
        yield Fault("MEMORY_OFF", "the script's `memory` has `remember: nothing`", action.at, fix)
    text = action.text if isinstance(action, actions.Remember) else action.query
    if not text.source.strip():
        yield Fault("EMPTY_TEXT", "the text is empty", text.at)
    if isinstance(action, actions.Recall):
        yield from filter_faults(action.filters, action.mark("filters"))

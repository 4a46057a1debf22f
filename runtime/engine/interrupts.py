"""Selection of the interrupt that a user message triggers.

Keywords and detectors need no model. For all interrupts that wait for an intent, one model call decides.
"""

from collections.abc import Collection

from runtime.turn.context import TurnContext
from runtime.turn.model_requests import complete
from scripts.detectors.words import bare, find_mentioned, is_short
from scripts.expressions.expressions import Evaluation
from scripts.model.actions import Action
from scripts.model.script import Interrupt


async def interrupt_of(run: TurnContext, action: Action, said: str, detected: Collection[str]) -> Interrupt | None:
    """Return the applying interrupt of the highest priority, the first of equals; interrupts do not nest.

    `action` is the one that waits, `detected` are the detectors that fired on the message.
    """
    state = run.state
    if not (action.interruptible and run.program.topics[state.phase, state.topic].interruptible):
        said = ""  # only detectors interrupt here
    if state.interrupted or not (said.strip() or detected):
        return None
    applying = [each for each in run.program.script.interrupts if run.holds(each.when)]
    by_words = [each for each in applying if _is_triggered(each, said, detected)]
    best = max((each.priority for each in by_words), default=None)
    by_intent = [
        each for each in applying if said.strip() and each.on.intent and (best is None or each.priority > best)
    ]
    if by_intent:
        by_words += await _by_intent(run, action, said, by_intent)
    return max(by_words, key=lambda each: each.priority, default=None)


def _is_triggered(interrupt: Interrupt, said: str, detected: Collection[str]) -> bool:
    trigger = interrupt.on
    if trigger.detector in detected:
        return True
    if trigger.match == "whole":
        return bare(said) in {bare(word) for word in trigger.keywords if word.strip()}
    return bool(find_mentioned(said, trigger.keywords)) and (trigger.match == "anywhere" or is_short(said))


async def _by_intent(run: TurnContext, action: Action, said: str, candidates: list[Interrupt]) -> list[Interrupt]:
    intents = {each.id: each.on.intent for each in candidates}
    answered = await complete(run, "route", action, Evaluation(""), reply=said, intents=intents)
    return [each for each in candidates if each.id == answered.intent]

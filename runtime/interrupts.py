"""Which interrupt, if any, a user's message brings up.

By words and detectors without any model; what a message means beyond its words, one call of the model decides for all
interrupts that wait for an intent.
"""

from collections.abc import Collection

from runtime.run import Run, Wording
from scripts.actions import Action
from scripts.model import Interrupt
from scripts.words import mentioned


async def brought_up(run: Run, action: Action, said: str, detected: Collection[str]) -> Interrupt | None:
    """The interrupt of the highest priority that applies, of equals the first; none comes up within another.

    `action` is the one that waits, `detected` are the detectors that the message set off.
    """
    if run.state.interrupted or not (said.strip() or detected):
        return None
    applying = [each for each in run.program.script.interrupts if each.when is None or run.holds(each.when)]
    by_words = [each for each in applying if _heard(each, said, detected)]
    best = max((each.priority for each in by_words), default=None)
    meant = [each for each in applying if said.strip() and each.on.intent and (best is None or each.priority > best)]
    if meant:
        by_words += await _meant(run, action, said, meant)
    return max(by_words, key=lambda each: each.priority, default=None)


def _heard(interrupt: Interrupt, said: str, detected: Collection[str]) -> bool:
    return interrupt.on.detector in detected or bool(mentioned(said, interrupt.on.keywords))


async def _meant(run: Run, action: Action, said: str, candidates: list[Interrupt]) -> list[Interrupt]:
    intents = {each.id: each.on.intent for each in candidates}
    answered = await run.complete("route", action, Wording(), reply=said, intents=intents)
    return [each for each in candidates if each.id == answered.intent]

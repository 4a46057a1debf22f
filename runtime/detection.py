"""Detectors at work: what they see in what is said, and what they do about it.

Words and measures need no model; what is left, one call of the model tells for all detectors that look for something
beyond them. Nothing that goes wrong in a detector costs the turn.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, structs

from runtime.asides import Aside, perform
from runtime.budgets import BudgetExceeded
from runtime.deadlines import until
from runtime.events import Detected, Message
from runtime.outcomes import Finish
from runtime.ports import ModelFailed, Verdict, Watched
from runtime.run import ActionFailed, LimitExceeded, Run
from runtime.state import Cell, Watch
from scripts.detectors.estimate import Measured
from scripts.detectors.judge import Found, Heard, estimates, is_enough, judge
from scripts.model import Detector
from scripts.values import Value

MODEL_S = 20.0  # a model that takes longer counts as one that failed
NAME = "detected"  # what a detector's actions read


class Reaction(Struct, frozen=True):
    """What detectors did about a message.

    `seen` is what each saw, by its id; `finish` ends the conversation; `withheld` has something else been said for.
    """

    seen: dict[str, dict[str, Value]] = {}
    finish: Finish | None = None
    withheld: bool = False


async def of_user(run: Run) -> Reaction:
    """Lets the detectors look at the message just heard; what they say stands in the turn."""
    said = run.history()[-1]
    found = await _look(run, said, "user")
    reaction = Reaction({detector.id: _record(detector, each, said) for detector, each in found})
    finish: Finish | None = None
    for detector, each in found:
        finish = finish or _act(run, detector, each, said)
    texts = [text for detector, _ in found if (text := _replacement(run, detector, reaction)) is not None]
    for text in texts[:1]:
        run.say(text)
    return structs.replace(reaction, finish=finish, withheld=bool(texts))


class Gate:
    """What the session says in one turn, on its way to the user: the detectors look at it first."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._passed = run.state.message_seq  # the number of the last message that was looked at
        self._acted: set[str] = set()

    @property
    def is_watching(self) -> bool:
        """Whether any detector looks at what the session says."""
        return self._run.program.watches_assistant

    async def look(self) -> Finish | None:
        """Lets the detectors look at what was said since it last looked, before anything else sees it.

        What they say themselves comes right after the message, and is not looked at again.
        """
        run = self._run
        if not self.is_watching:
            return None
        finish: Finish | None = None
        said = [each.body for each in run.events if isinstance(each.body, Message) and each.body.role == "assistant"]
        for message in [each for each in said if each.number > self._passed]:
            finish = await self._at(message) or finish
        self._passed = run.state.message_seq
        return finish

    async def _at(self, said: Message) -> Finish | None:
        run = self._run
        found = await _look(run, said, "assistant", self._acted)
        reaction = Reaction({detector.id: _record(detector, each, said) for detector, each in found})
        texts = [text for detector, _ in found if (text := _replacement(run, detector, reaction)) is not None]
        for text in texts[:1]:
            said = run.withhold(said, text)  # from here on nobody sees what it was, not even the detectors
            found = [(detector, structs.replace(each, words=())) for detector, each in found]
        finish: Finish | None = None
        for detector, each in found:
            if detector.id not in self._acted:
                finish = finish or _act(run, detector, each, said)
            self._acted.add(detector.id)
        return finish


# -- seeing -----------------------------------------------------------------------------------------------------------


async def _look(
    run: Run, said: Message, role: Literal["user", "assistant"], acted: set[str] | None = None
) -> list[tuple[Detector, Found]]:
    """The detectors that are to act on a message, with what they see in it; those that `acted` have no cooldown."""
    watching = [
        each
        for each in run.program.script.detectors
        if (each.watches_user if role == "user" else each.watches_assistant)
        and said.content.strip()
        and (each.when is None or run.holds(each.when))
    ]
    if not watching:
        return []
    messages = [
        Heard(each.role, each.content)
        for each in run.history()
        if each.number <= said.number and (each.role == "user" or each.role == "assistant")
    ]
    found = {each.id: judge(each, run.program.vocabularies[each.id], messages) for each in watching}
    at_rest = {each.id for each in watching if _rests(run, each) and each.id not in (acted or ())}
    unclear = [
        each
        for each in watching
        if found[each.id] is None
        and each.id not in at_rest
        and _has_words_for_a_model(each)
        and is_enough(each, messages)
    ]
    found |= await _asked(run, said, unclear, messages)
    seen = [(each, what) for each in watching if (what := found[each.id]) is not None]
    return [(each, what) for each, what in seen if what.always or each.id not in at_rest]


def _rests(run: Run, detector: Detector) -> bool:
    acted = run.state.watches.get(detector.id, Watch()).acted
    return acted >= 0 and 0 < detector.cooldown >= run.state.turn - acted


def _has_words_for_a_model(detector: Detector) -> bool:
    return bool(detector.define) or any(not each.courses for each in detector.patterns)


async def _asked(
    run: Run, said: Message, detectors: list[Detector], messages: Sequence[Heard]
) -> dict[str, Found | None]:
    """What the model sees for some detectors, by their ids."""
    if not detectors:
        return {}
    try:
        async with until(asyncio.get_running_loop().time() + MODEL_S):
            answered = (await run.detect(said, {each.id: _watched(each) for each in detectors})).detected
        verdicts = {each.id: _sound(answered.get(each.id, Verdict(0.0))) for each in detectors}
    except (ModelFailed, LimitExceeded, BudgetExceeded, TimeoutError) as error:
        run.warn("detectors_failed", str(error) or f"the model took longer than {MODEL_S:g} s")
        verdicts = {each.id: _previous(run, each) for each in detectors}
    found: dict[str, Found | None] = {}
    for each in detectors:
        verdict = verdicts[each.id]
        watch = run.state.watches.get(each.id, Watch())
        if each.on_failure == "use_previous":
            run.state.watches[each.id] = structs.replace(watch, score=verdict.score, label=verdict.label)
        taken = estimates(each, run.program.vocabularies[each.id], messages)
        found[each.id] = _by_model(each, verdict, taken)
    return found


def _watched(detector: Detector) -> Watched:
    patterns = [f"{each.id}: {each.define}" for each in detector.patterns if each.define]
    labels = [*(rule.label for rule in detector.rules), *(each.id for each in detector.patterns)]
    define = "\n".join([detector.define, *(line for line in patterns if line not in detector.define)]).strip()
    return Watched(define, tuple(dict.fromkeys(label for label in labels if label)))


def _sound(verdict: Verdict) -> Verdict:
    """A verdict within its bounds, whatever the model said."""
    score = verdict.score if math.isfinite(verdict.score) else 0.0
    return Verdict(min(max(score, 0.0), 1.0), verdict.label[:200])


def _previous(run: Run, detector: Detector) -> Verdict:
    watch = run.state.watches.get(detector.id, Watch())
    return Verdict(watch.score, watch.label) if detector.on_failure == "use_previous" else Verdict(0.0)


def _by_model(detector: Detector, verdict: Verdict, taken: tuple[Measured, ...]) -> Found | None:
    if verdict.score <= 0 or verdict.score < detector.threshold:
        return None
    label = verdict.label or detector.id
    rule = max((each for each in detector.rules if each.label == label), key=lambda each: each.gravity, default=None)
    pattern = next((each for each in detector.patterns if each.id == label), None)
    known = rule.gravity if rule is not None else pattern.severity if pattern is not None else None
    return Found(
        label=label,
        score=verdict.score,
        severity=known if known is not None else verdict.score,
        by="model",
        note=pattern.note if pattern is not None else "",
        measured=taken,
    )


# -- acting -----------------------------------------------------------------------------------------------------------


def _record(detector: Detector, found: Found, said: Message) -> dict[str, Value]:
    """`detected`, as expressions see it."""
    values = [dict(each.values) for each in found.measured]
    label = (found.measured[-1].label if found.measured else "") or (found.label if found.by != "measure" else "")
    now: dict[str, Value] = {**({"label": label} if label else {}), **(values[-1] if values else {})}
    before: dict[str, Value] = {**next((each for each in reversed(values[:-1]) if each), {})}
    return {
        "detector": detector.id,
        "label": found.label,
        "score": found.score,
        "severity": found.severity,
        "by": found.by,
        "words": list(found.words),
        "note": found.note,
        "message": said.content,
        "now": now,
        "before": before,
        "measured": [{**each} for each in values],
    }


def _act(run: Run, detector: Detector, found: Found, said: Message) -> Finish | None:
    """Records what a detector saw, and does what it has to do; how the conversation ends, if it is to end."""
    run.record(
        Detected(detector.id, found.label, found.score, found.severity, found.by, said.number, found.words, found.note)
    )
    watch = run.state.watches.get(detector.id, Watch())
    run.state.watches[detector.id] = structs.replace(watch, acted=run.state.turn)
    with _sight_of(run, detector, _record(detector, found, said)):
        return perform(run, detector.actions)


def _sight_of(run: Run, detector: Detector, record: dict[str, Value]) -> Aside:
    """What a detector's actions and words see besides the session and the globals: `detected`."""
    return Aside(run, detector.id, {NAME: Cell(record, "record", run.now(), "script")})


def _replacement(run: Run, detector: Detector, reaction: Reaction) -> str | None:
    """What a detector has to say instead, or None."""
    if detector.replace is None:
        return None
    with _sight_of(run, detector, reaction.seen[detector.id]):
        try:
            return run.text(detector.replace)
        except ActionFailed as error:
            run.warn("detector_failed", str(error))
            return ""

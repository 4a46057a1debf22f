"""Detectors: what they find in each message, and what they do about it.

Words and measures need no model. For all detectors that need more than those, one model call gives the verdicts. An
error in a detector never fails the turn.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from runtime.actions.outcomes import Finish
from runtime.answers.reply_values import without_labels
from runtime.engine.inline_actions import InlineActions, perform
from runtime.state.deadlines import until
from runtime.state.events import Detected, Message
from runtime.state.ports import DetectorQuestion, MemoryFailed, ModelFailed, Verdict
from runtime.state.state import Cell, Watch
from runtime.turn.calls import BudgetExceeded
from runtime.turn.context import ActionFailed, LimitExceeded, TurnContext
from runtime.turn.model_requests import detect
from scripts.detectors.estimate import Estimate
from scripts.detectors.judge import (
    DetectorFinding,
    WindowMessage,
    estimates,
    has_words_for_a_model,
    is_enough,
    judge,
    watches,
)
from scripts.expressions.values import Value, text_of
from scripts.model.script import Detector

MODEL_S = 20.0  # a model call that takes longer counts as failed
NAME = "detected"  # the variable that a detector's actions read


_Found: TypeAlias = list[tuple[Detector, DetectorFinding]]


class Reaction(Struct, frozen=True):
    """The result of the detectors for one message.

    `seen` holds the findings by detector id; `finish` ends the conversation; `withheld` is true if a detector replaced
    the message by another text.
    """

    seen: dict[str, dict[str, Value]] = {}
    finish: Finish | None = None
    withheld: bool = False


NO_REACTION = Reaction()


async def of_user(run: TurnContext) -> Reaction:
    """Run the detectors on the newest user message; the messages they add belong to the turn."""
    said = run.history()[-1]
    found = await _look(run, said, "user")
    seen = _records_of(found, said)
    finish: Finish | None = None
    for detector, each in found:
        ended = _act(run, detector, each, said)
        finish = finish or ended
    text = _replacement(run, found, seen)
    if text is not None:
        run.say(text)
    return Reaction(seen, finish, withheld=text is not None)


class Detection:
    """Detection on the session's own messages of one turn, before they reach the user."""

    def __init__(self, run: TurnContext) -> None:
        self._run = run
        self._passed = run.state.message_seq  # the number of the last message that was checked
        self._acted: set[str] = set()

    def skip(self) -> None:
        """Leave out the messages so far: those that detectors have said about the user's message."""
        self._passed = self._run.state.message_seq

    async def look(self) -> Finish | None:
        """Run the detectors on the messages said since the last call, before anything else reads them.

        The detectors' own messages directly follow the message and are not checked.
        """
        run = self._run
        finish: Finish | None = None
        said = [each.body for each in run.events if isinstance(each.body, Message) and each.body.role == "assistant"]
        for message in [each for each in said if each.number > self._passed]:
            finish = await self._at(message) or finish
        self._passed = run.state.message_seq
        return finish

    async def _at(self, said: Message) -> Finish | None:
        run = self._run
        found = await _look(run, said, "assistant", self._acted)
        text = _replacement(run, found, _records_of(found, said))
        if text is not None:
            said = run.withhold(said, text)  # from here on the original is hidden, also from detectors
            found = [(detector, structs.replace(each, words=())) for detector, each in found]
        finish: Finish | None = None
        for detector, each in found:
            if detector.id not in self._acted:
                ended = _act(run, detector, each, said)
                finish = finish or ended
            self._acted.add(detector.id)
        return finish


# -- judgements -------------------------------------------------------------------------------------------------------


async def _look(
    run: TurnContext, said: Message, role: Literal["user", "assistant"], acted: set[str] | None = None
) -> _Found:
    """Return the detectors to act on a message, with their findings; those in `acted` have no cooldown."""
    watching = [
        each
        for each in run.program.script.detectors
        if watches(each, role) and said.content.strip() and run.holds(each.when)
    ]
    if not watching:
        return []
    messages = [
        WindowMessage(each.role, _words_of(run, each))
        for each in run.history()
        if each.number <= said.number and (each.role == "user" or each.role == "assistant")
    ]
    found = {each.id: judge(each, run.program.vocabularies[each.id], messages) for each in watching}
    in_cooldown = {each.id for each in watching if _in_cooldown(run, each) and each.id not in (acted or ())}
    unclear = [
        each
        for each in watching
        if found[each.id] is None
        and each.id not in in_cooldown
        and has_words_for_a_model(each)
        and is_enough(each, messages)
    ]
    found |= await _model_findings(run, said, unclear, messages)
    seen = [(each, what) for each in watching if (what := found[each.id]) is not None]
    return [(each, what) for each, what in seen if what.always or each.id not in in_cooldown]


def _words_of(run: TurnContext, message: Message) -> str:
    """Return what a message says; of a filled form without the labels, because they are the script's words."""
    if message.role != "user":
        return message.content
    if isinstance(values := message.metadata.get("form"), dict):
        return "\n".join(_texts(values))
    return without_labels(message.content, run.program.form_labels.get(message.action_id, ()), run.state.locale)


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
    else:
        yield text_of(value)


def _in_cooldown(run: TurnContext, detector: Detector) -> bool:
    acted = run.state.watches.get(detector.id, Watch()).acted
    return detector.cooldown > 0 and 0 <= acted <= run.state.heard <= acted + detector.cooldown


async def _model_findings(
    run: TurnContext, said: Message, detectors: list[Detector], messages: Sequence[WindowMessage]
) -> dict[str, DetectorFinding | None]:
    """Return the model's findings for some detectors, by detector id."""
    if not detectors:
        return {}
    try:
        async with until(asyncio.get_running_loop().time() + MODEL_S):
            answered = (await detect(run, said, {each.id: _question_for(each) for each in detectors})).detected
        verdicts = {each.id: _clamp(answered.get(each.id, Verdict(0.0))) for each in detectors}
    except (ModelFailed, LimitExceeded, BudgetExceeded, TimeoutError) as error:
        run.warn("detectors_failed", str(error) or f"the model took longer than {MODEL_S:g} s")
        verdicts = {each.id: _previous(run, each) for each in detectors}
    found: dict[str, DetectorFinding | None] = {}
    for each in detectors:
        verdict = verdicts[each.id]
        watch = run.state.watches.get(each.id, Watch())
        if each.on_failure == "use_previous":
            run.state.watches[each.id] = structs.replace(watch, score=verdict.score, label=verdict.label)
        measured = estimates(each, run.program.vocabularies[each.id], messages)
        found[each.id] = _by_model(each, verdict, measured)
    return found


def _question_for(detector: Detector) -> DetectorQuestion:
    patterns = [f"{each.id}: {each.define}" for each in detector.patterns if each.define]
    labels = [*(rule.label for rule in detector.rules), *(each.id for each in detector.patterns)]
    define = "\n".join([detector.define, *(line for line in patterns if line not in detector.define)]).strip()
    return DetectorQuestion(define, tuple(dict.fromkeys(label for label in labels if label)))


def _clamp(verdict: Verdict) -> Verdict:
    """Return a verdict clamped to its bounds: a finite score from 0 to 1, and a label of at most 200 characters."""
    score = verdict.score if math.isfinite(verdict.score) else 0.0
    return Verdict(min(max(score, 0.0), 1.0), verdict.label[:200])


def _previous(run: TurnContext, detector: Detector) -> Verdict:
    watch = run.state.watches.get(detector.id, Watch())
    return Verdict(watch.score, watch.label) if detector.on_failure == "use_previous" else Verdict(0.0)


def _by_model(detector: Detector, verdict: Verdict, measured: tuple[Estimate, ...]) -> DetectorFinding | None:
    if verdict.score <= 0 or verdict.score < detector.threshold:
        return None
    label = verdict.label or detector.id
    rule = max((each for each in detector.rules if each.label == label), key=lambda each: each.gravity, default=None)
    pattern = next((each for each in detector.patterns if each.id == label), None)
    known = rule.gravity if rule is not None else pattern.severity if pattern is not None else None
    return DetectorFinding(
        label=label,
        score=verdict.score,
        severity=known if known is not None else verdict.score,
        by="model",
        note=pattern.note if pattern is not None else "",
        measured=measured,
    )


# -- acting -----------------------------------------------------------------------------------------------------------


def _records_of(found: _Found, said: Message) -> dict[str, dict[str, Value]]:
    return {detector.id: _record(detector, each, said) for detector, each in found}


def _record(detector: Detector, found: DetectorFinding, said: Message) -> dict[str, Value]:
    """Return the value of `detected`, as expressions read it."""
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


def _act(run: TurnContext, detector: Detector, found: DetectorFinding, said: Message) -> Finish | None:
    """Record a finding and run the detector's actions; return how the conversation ends, if it is to end."""
    run.record(
        Detected(detector.id, found.label, found.score, found.severity, found.by, said.number, found.words, found.note)
    )
    watch = run.state.watches.get(detector.id, Watch())
    run.state.watches[detector.id] = structs.replace(watch, acted=run.state.heard)
    with _scope_of(run, detector, _record(detector, found, said)):
        return perform(run, detector.actions)


def _scope_of(run: TurnContext, detector: Detector, record: dict[str, Value]) -> InlineActions:
    """Return the scope of a detector's actions and texts: `detected`, besides phase, session and global variables."""
    return InlineActions(run, detector.id, {NAME: Cell(record, "record", run.now(), "script")})


def _replacement(run: TurnContext, found: _Found, seen: Mapping[str, dict[str, Value]]) -> str | None:
    """Return the text that replaces the message, that of the first detector that has one, or None."""
    texts: list[str] = []
    for detector, _ in found:
        if detector.replace is not None:
            with _scope_of(run, detector, seen[detector.id]):
                try:
                    texts.append(run.text(detector.replace))
                except (ActionFailed, MemoryFailed) as error:
                    run.warn("detector_failed", str(error))
                    texts.append("")
    return texts[0] if texts else None

"""What a detector sees in a message without any model: by its rules, and by the course of its measures."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from scripts.detectors.courses import holds
from scripts.detectors.estimate import Measured, Vocabulary, measured
from scripts.detectors.parts import Pattern, Rule
from scripts.model import Detector
from scripts.words import mentioned

DETECTORS_MAX = 50  # of a script
WORDS_MAX = 500  # of a detector


class Heard(Struct, frozen=True):
    """A message of the window."""

    role: Literal["user", "assistant"]
    content: str


class Found(Struct, frozen=True, kw_only=True):
    """What a detector sees in a message. `measured` are the values of the messages watched, the present one last."""

    label: str
    score: float
    severity: float
    by: Literal["rule", "measure", "model"]
    words: tuple[str, ...] = ()
    note: str = ""
    always: bool = False
    measured: tuple[Measured, ...] = ()


def watches(detector: Detector, role: Literal["user", "assistant"]) -> bool:
    """Whether what this side says is the detector's business."""
    return detector.on in {role, "both"}


def window(detector: Detector, messages: Sequence[Heard]) -> Sequence[Heard]:
    """The messages a detector considers."""
    return messages[-detector.look_back :]


def is_enough(detector: Detector, messages: Sequence[Heard]) -> bool:
    """Whether there are messages enough for measures and models; words need no more than their own."""
    return len(window(detector, messages)) >= detector.min_messages


def estimates(detector: Detector, vocabulary: Vocabulary, messages: Sequence[Heard]) -> tuple[Measured, ...]:
    """What each watched message of the window says of the measures, oldest first."""
    if not detector.measures:
        return ()
    seen = (each for each in window(detector, messages) if watches(detector, each.role))
    return tuple(measured(vocabulary, each.content) for each in seen)


def judge(detector: Detector, vocabulary: Vocabulary, messages: Sequence[Heard]) -> Found | None:
    """What the detector makes of the last of the messages, which it watches; None where it sees nothing.

    Words come before measures: the gravest rule is taken, of equals the first. Of the patterns that hold, the one is
    taken that rests on the most messages, of equals the first.
    """
    taken = estimates(detector, vocabulary, messages)
    found = _by_rules(detector, messages[-1].content, taken)
    if found is None and is_enough(detector, messages):
        found = _by_patterns(detector, taken)
    return found if found is not None and found.score >= detector.threshold else None


def _by_rules(detector: Detector, said: str, taken: tuple[Measured, ...]) -> Found | None:
    hits = [(rule, words) for rule in detector.rules if (words := _mentioned(rule, said))]
    sure = [hit for hit in hits if hit[0].score >= detector.threshold]
    if not sure:
        return None
    rule = max((rule for rule, _ in sure), key=lambda each: (each.gravity, each.score))
    return Found(
        label=rule.label or detector.id,
        score=rule.score,
        severity=rule.gravity,
        by="rule",
        words=tuple(dict.fromkeys(word for _, words in sure for word in words)),
        always=any(each.ignores_cooldown for each, _ in sure),
        measured=taken,
    )


def _mentioned(rule: Rule, said: str) -> list[str]:
    return [word for word in rule.words if mentioned(said, (word,))]


def _by_patterns(detector: Detector, taken: tuple[Measured, ...]) -> Found | None:
    series = series_of(detector, taken)
    fresh = taken[-1].values if taken else {}
    best: tuple[int, Pattern] | None = None
    for pattern in detector.patterns:
        rests_on = holds(pattern, series) if any(each.of in fresh for each in pattern.courses) else 0
        if pattern.score >= detector.threshold and rests_on > (best[0] if best is not None else 0):
            best = (rests_on, pattern)
    if best is None:
        return None
    pattern = best[1]
    return Found(
        label=pattern.id,
        score=pattern.score,
        severity=_severity(detector, pattern, series),
        by="measure",
        note=pattern.note,
        measured=taken,
    )


def series_of(detector: Detector, taken: Sequence[Measured]) -> Mapping[str, list[float]]:
    """For each measure, the values of the messages that say something of it."""
    return {
        each.name: [value.values[each.name] for value in taken if each.name in value.values]
        for each in detector.measures
    }


def _severity(detector: Detector, pattern: Pattern, series: Mapping[str, list[float]]) -> float:
    if pattern.severity is not None:
        return pattern.severity
    measure = next((each for each in detector.measures if each.name == pattern.courses[0].of), None)
    values = series.get(pattern.courses[0].of, [])
    return round(measure.strength(values[-1]), 4) if measure is not None and values else pattern.score

"""Judge messages without a model: by a detector's rules, and by the course of its measures."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from scripts.detectors.estimate import Estimate, Vocabulary, estimate
from scripts.detectors.words import find_mentioned
from scripts.model.detectors import Pattern, Rule, Trend
from scripts.model.script import Detector

DETECTORS_MAX = 50  # per script
WORDS_MAX = 500  # per detector


class WindowMessage(Struct, frozen=True):
    """A message of the window."""

    role: Literal["user", "assistant"]
    content: str


class DetectorFinding(Struct, frozen=True, kw_only=True):
    """The finding of a detector in a message. `measured` are the values of watched messages, the current one last."""

    label: str
    score: float
    severity: float
    by: Literal["rule", "measure", "model"]
    words: tuple[str, ...] = ()
    note: str = ""
    always: bool = False
    measured: tuple[Estimate, ...] = ()


def watches(detector: Detector, role: Literal["user", "assistant"]) -> bool:
    """Return whether the detector watches the messages of this side."""
    return detector.on in {role, "both"}


def has_words_for_a_model(detector: Detector) -> bool:
    """Return whether a detector says in words what a model looks for; a pattern without courses does."""
    return bool(detector.define) or any(not each.courses for each in detector.patterns)


def window(detector: Detector, messages: Sequence[WindowMessage]) -> Sequence[WindowMessage]:
    """Return the messages that a detector considers."""
    return messages[-detector.look_back :]


def is_enough(detector: Detector, messages: Sequence[WindowMessage]) -> bool:
    """Return whether there are enough messages for measures and models; words need only one message."""
    return len(window(detector, messages)) >= detector.min_messages


def estimates(detector: Detector, vocabulary: Vocabulary, messages: Sequence[WindowMessage]) -> tuple[Estimate, ...]:
    """Return the estimates of each watched message of the window, oldest first."""
    if not detector.measures:
        return ()
    seen = (each for each in window(detector, messages) if watches(detector, each.role))
    return tuple(estimate(vocabulary, each.content) for each in seen)


def judge(detector: Detector, vocabulary: Vocabulary, messages: Sequence[WindowMessage]) -> DetectorFinding | None:
    """Judge the last of the messages, which the detector watches; return None if there is no finding.

    Words precede measures: the rule with the highest severity is used, of equals the first. Of the matching patterns,
    the one with the most messages is used, of equals the first.
    """
    estimated = estimates(detector, vocabulary, messages)
    found = _by_rules(detector, messages[-1].content, estimated)
    if found is None and is_enough(detector, messages):
        found = _by_patterns(detector, estimated)
    return found if found is not None and found.score >= detector.threshold else None


def _by_rules(detector: Detector, said: str, estimated: tuple[Estimate, ...]) -> DetectorFinding | None:
    hits = [(rule, words) for rule in detector.rules if (words := _words_mentioned(rule, said))]
    sure = [hit for hit in hits if hit[0].score >= detector.threshold]
    if not sure:
        return None
    rule = max((rule for rule, _ in sure), key=lambda each: (each.gravity, each.score))
    return DetectorFinding(
        label=rule.label or detector.id,
        score=rule.score,
        severity=rule.gravity,
        by="rule",
        words=tuple(dict.fromkeys(word for _, words in sure for word in words)),
        always=any(each.ignores_cooldown for each, _ in sure),
        measured=estimated,
    )


def _words_mentioned(rule: Rule, said: str) -> list[str]:
    return [word for word in rule.words if find_mentioned(said, (word,))]


def _by_patterns(detector: Detector, estimated: tuple[Estimate, ...]) -> DetectorFinding | None:
    series = series_of(detector, estimated)
    fresh = estimated[-1].values if estimated else {}
    best: tuple[int, Pattern] | None = None
    for pattern in detector.patterns:
        rests_on = holds(pattern, series) if any(each.of in fresh for each in pattern.courses) else 0
        if pattern.score >= detector.threshold and rests_on > (best[0] if best is not None else 0):
            best = (rests_on, pattern)
    if best is None:
        return None
    pattern = best[1]
    return DetectorFinding(
        label=pattern.id,
        score=pattern.score,
        severity=_severity(detector, pattern, series),
        by="measure",
        note=pattern.note,
        measured=estimated,
    )


def series_of(detector: Detector, estimated: Sequence[Estimate]) -> Mapping[str, list[float]]:
    """Return the values of each measure in the messages that have one."""
    names = [measure.name for measure in detector.measures]
    return {name: [each.values[name] for each in estimated if name in each.values] for name in names}


def _severity(detector: Detector, pattern: Pattern, series: Mapping[str, list[float]]) -> float:
    if pattern.severity is not None:
        return pattern.severity
    measure = next((each for each in detector.measures if each.name == pattern.courses[0].of), None)
    values = series.get(pattern.courses[0].of, [])
    return round(measure.strength(values[-1]), 4) if measure is not None and values else pattern.score


# -- courses of measures ---------------------------------------------------------------------------------------------


TREND_MIN = 3  # minimum number of values for a trend, average or range
STEP_SHARE_MAX = 0.75  # maximum share of one step in a trend; more is a jump
SLACK = 0.05  # maximum deviation of a value from a trend
EXACT = 1e-9

Series = Mapping[str, Sequence[float]]
"""The values of each measure in the messages of the window that have one, oldest first."""


def holds(pattern: Pattern, series: Series) -> int:
    """Return the number of messages that match a pattern; 0 if it does not match or has no courses."""
    return min((_holds(course, series.get(course.of, ())) for course in pattern.courses), default=0)


def _holds(course: Trend, values: Sequence[float]) -> int:
    values = values[-course.span :] if course.span is not None else values
    return len(values) if values and all(_conditions(course, values)) else 0


def _conditions(course: Trend, values: Sequence[float]) -> list[bool]:
    """Return the results of the conditions of a course."""
    results: list[bool] = []
    if course.trend is not None:
        results.append(_is_steady(values, 1 if course.trend == "rising" else -1))
    if course.change is not None:
        moved = values[-1] - values[0] if course.trend is not None else max(abs(values[-1] - each) for each in values)
        results.append(abs(moved) >= course.change - EXACT)
    if course.swings is not None:
        results.append(swings(values, course.amplitude) >= course.swings)
    several = len(values) >= TREND_MIN
    average, width = sum(values) / len(values), max(values) - min(values)
    for found, low, high, enough in (
        (values[-1] - min(values), course.rise, None, True),
        (max(values) - values[-1], course.drop, None, True),
        (average, course.average_min, course.average_max, several),
        (width, course.range_min, course.range_max, several),
        (values[-1], course.last_min, course.last_max, True),
    ):
        if low is not None:
            results.append(enough and found >= low - EXACT)
        if high is not None:
            results.append(enough and found <= high + EXACT)
    return results or [False]


def _is_steady(values: Sequence[float], sign: int) -> bool:
    steps = [sign * (after - before) for before, after in itertools.pairwise(values)]
    total = sum(steps)
    if len(values) < TREND_MIN or total <= 0 or steps[-1] <= 0:
        return False
    return all(step >= -SLACK for step in steps) and max(steps) <= STEP_SHARE_MAX * total


def swings(values: Sequence[float], amplitude: float) -> int:
    """Count alternating moves up and down of at least this size; a move of several steps counts once."""
    count, direction = 0, 0
    turning = values[0]  # the extreme value since the last change of direction
    for value in values[1:]:
        if direction and (value - turning) * direction >= 0:
            turning = value
        elif abs(value - turning) >= amplitude - EXACT:
            count, direction, turning = count + 1, (1 if value > turning else -1), value
    return count

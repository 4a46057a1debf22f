"""Run the examples of detectors as tests, without a model."""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from scripts.detectors.estimate import Vocabulary
from scripts.detectors.judge import DetectorFinding, WindowMessage, has_words_for_a_model, judge, series_of, watches
from scripts.expressions.values import Value
from scripts.model.detectors import Example, Measure
from scripts.model.script import Detector

CLEAR = 0.1  # the sign of a measure further from neutral than this must match
EXAMPLES_MAX = 100  # per detector

Difference: TypeAlias = tuple[str, Value, Value]
"""What is compared, the expected value, and the actual value."""


class Outcome(Struct, frozen=True):
    """The result of an example. An example that needs a model and fails without one is not tested."""

    detector: Detector
    number: int  # from 1
    example: Example
    differences: tuple[Difference, ...]
    untested: bool = False

    @property
    def passed(self) -> bool:
        """Whether the result is the expected one."""
        return not self.differences and not self.untested

    @property
    def name(self) -> str:
        """The name of the example in reports."""
        return self.example.name or f"example {self.number}"


def run_examples(detector: Detector) -> Iterator[Outcome]:
    """Run every example of a detector without a model."""
    vocabulary = Vocabulary(detector.measures, detector.signs)
    for number, example in enumerate(detector.examples[:EXAMPLES_MAX], 1):
        differences = tuple(_differences(detector, vocabulary, example))
        untested = bool(differences) and needs_model(detector, example)
        yield Outcome(detector, number, example, () if untested else differences, untested)


def needs_model(detector: Detector, example: Example) -> bool:
    """Return whether only a model can decide it: no rule or pattern of the detector names the expected finding."""
    if example.needs_model is not None:
        return example.needs_model
    if not example.detected or not has_words_for_a_model(detector):
        return False
    named = {rule.label or detector.id for rule in detector.rules}
    named |= {pattern.id for pattern in detector.patterns if pattern.courses}
    return example.label not in named


def _differences(detector: Detector, vocabulary: Vocabulary, example: Example) -> Iterator[Difference]:
    messages = [WindowMessage(line.role, line.content) for line in example.messages]
    while messages and not watches(detector, messages[-1].role):
        messages.pop()
    found = judge(detector, vocabulary, messages) if messages else None
    if (found is not None) != example.detected:
        yield "detected", example.detected, found is not None and (found.label or True)
    if found is None:
        return
    if example.label is not None and example.detected and found.label != example.label:
        yield "label", example.label, found.label
    for name, least, got in (("score", example.score, found.score), ("severity", example.severity, found.severity)):
        if least is not None and example.detected and got < least:
            yield name, least, got
    yield from _compare_measures(detector, example, found)


def _compare_measures(detector: Detector, example: Example, found: DetectorFinding) -> Iterator[Difference]:
    measures = {measure.name: measure for measure in detector.measures}
    for name, expected in example.measured.items():
        last = found.measured[-len(expected) :] if expected else ()
        if name not in measures or len(last) < len(expected):
            yield name, list(expected), list(series_of(detector, last).get(name, []))
            continue
        measure = measures[name]
        got = [each.values.get(name, measure.neutral) for each in last]  # a message without a value counts as neutral
        pairs = list(zip(expected, got, strict=True))
        if not all(want is None or _agrees(measure, want, has) for want, has in pairs):
            yield name, list(expected), list(got)


def _agrees(measure: Measure, expected: float, got: float) -> bool:
    away, found = expected - measure.neutral, got - measure.neutral
    same_side = abs(away) < CLEAR or abs(found) < CLEAR or (away > 0) == (found > 0)
    return same_side and abs(expected - got) <= measure.significant + 1e-9

"""What is wrong with a detector by itself: its parts, and examples that do not come out."""

from collections.abc import Iterator
from typing import TypeAlias

from scripts.actions import Action, Emit, End, Experiment, If, Remember, Say, Scene, Set, Show, action_type, walk
from scripts.detectors.examples import EXAMPLES_MAX, run_examples
from scripts.detectors.judge import WORDS_MAX
from scripts.detectors.parts import Rule, Sign
from scripts.model import Detector
from scripts.nodes import Location
from scripts.suggest import suggest

Finding: TypeAlias = tuple[str, str, Location, str]
"""Code, message, place and fix (empty: the code's own)."""

_AT_ONCE = Say | Set | Emit | Remember | Show | If | Experiment | Scene | End


def check_detector(detector: Detector) -> Iterator[Finding]:
    """Every problem but those of texts, expressions and variables."""
    if not (detector.rules or detector.define or detector.patterns):
        message = f"nothing tells the detector {detector.id} when to act"
        yield "DETECTOR_WITHOUT_RULE", message, detector.mark("detector"), ""
    yield from _limits(detector)
    yield from _names(detector)
    for action in unable(detector.actions):
        message = f"a detector cannot `{action_type(action)}`: it acts at once, in the middle of a turn"
        yield "DETECTOR_WAITS", message, action.at, ""
    for outcome in run_examples(detector):
        for what, expected, got in outcome.differences:
            message = f"{outcome.name}: {what} should be {expected}, and is {got}"
            yield "DETECTOR_EXAMPLE_FAILS", message, outcome.example.at, ""


def can_do(action: Action) -> bool:
    """Whether a detector may do this: nothing that waits, jumps, calls or needs a model."""
    return isinstance(action, _AT_ONCE)


def unable(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """The actions of a list that nothing can do which acts in the middle of a turn."""
    return tuple(action for action in walk(actions) if not can_do(action))


def _limits(detector: Detector) -> Iterator[Finding]:
    listed: tuple[Rule | Sign, ...] = (*detector.rules, *detector.signs)
    words = [word for part in listed for word in part.words]
    if len(words) > WORDS_MAX:
        message = f"{len(words)} words; a detector may have {WORDS_MAX}"
        yield "CONSTRAINT_VIOLATION", message, detector.mark("rules"), ""
    if len(detector.examples) > EXAMPLES_MAX:
        message = f"{len(detector.examples)} examples; a detector may have {EXAMPLES_MAX}"
        yield "CONSTRAINT_VIOLATION", message, detector.mark("examples"), ""
    for part in listed:
        if not any(word.strip() for word in part.words):
            yield "EMPTY_TEXT", "there are no words to look for", part.mark("words"), "Write the words."
    for measure in detector.measures:
        if measure.min >= measure.max:
            yield "RANGE_INVALID", "`min` is not below `max`", measure.mark("min"), ""


def _names(detector: Detector) -> Iterator[Finding]:
    """Measures, patterns and labels that others refer to."""
    known = [measure.name for measure in detector.measures]
    for names, key, nodes in (
        (known, "measure", detector.measures),
        ([pattern.id for pattern in detector.patterns], "pattern", detector.patterns),
    ):
        for index, name in enumerate(names):
            if name in names[:index]:
                yield "DUPLICATE_ID", f"{key} {name} stands there already", nodes[index].mark(key), ""
    used = [(course.of, course.mark("of")) for pattern in detector.patterns for course in pattern.courses]
    used += [(name, sign.mark("values")) for sign in detector.signs for name in sign.values]
    used += [(name, example.mark("measured")) for example in detector.examples for name in example.measured]
    for name, at in used:
        if name not in known:
            fix = suggest(name, known, otherwise="Add it to `measures`.")
            yield "MEASURE_UNKNOWN", f"the detector {detector.id} has no measure {name}", at, fix

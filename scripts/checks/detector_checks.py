"""Check a detector: its parts, and examples whose result differs."""

from collections.abc import Iterator

from scripts.checks.choice_checks import list_faults
from scripts.checks.effects import effect_of
from scripts.detectors.examples import EXAMPLES_MAX, run_examples
from scripts.detectors.judge import WORDS_MAX
from scripts.expressions.suggestions import suggest
from scripts.model import actions
from scripts.model.actions import Action, action_type, walk
from scripts.model.detectors import Rule, Sign
from scripts.model.diagnostics import Fault
from scripts.model.script import Detector

_AT_ONCE = (
    actions.Say | actions.Set | actions.Add | actions.Emit | actions.Remember
    | actions.Show | actions.If | actions.Experiment | actions.Scene | actions.End
)  # fmt: skip


def check_detector(detector: Detector) -> Iterator[Fault]:
    """Yield every problem except those of texts, expressions and variables."""
    if not (detector.rules or detector.define or detector.patterns):
        message = f"the detector {detector.id} has nothing to detect"
        yield Fault("DETECTOR_WITHOUT_RULE", message, detector.mark("detector"))
    yield from _limits(detector)
    yield from _names(detector)
    for action in unable(detector.actions):
        message = f"a detector cannot `{action_type(action)}`: its actions run immediately, within a turn"
        yield Fault("DETECTOR_WAITS", message, action.at)
    for outcome in run_examples(detector):
        for what, expected, got in outcome.differences:
            message = f"{outcome.name}: {what} should be {expected}, but is {got}"
            yield Fault("DETECTOR_EXAMPLE_FAILS", message, outcome.example.at)


def unable(listed: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return the actions of a list that wait, jump, call or use a model, and so cannot run within a turn."""
    return tuple(each for each in walk(listed) if not isinstance(each, _AT_ONCE) or effect_of(each).waits != "never")


def _limits(detector: Detector) -> Iterator[Fault]:
    listed: tuple[Rule | Sign, ...] = (*detector.rules, *detector.signs)
    words = [word for part in listed for word in part.words]
    if len(words) > WORDS_MAX:
        message = f"{len(words)} words; a detector may have {WORDS_MAX}"
        yield Fault("CONSTRAINT_VIOLATION", message, detector.mark("rules"))
    if len(detector.examples) > EXAMPLES_MAX:
        message = f"{len(detector.examples)} examples; a detector may have {EXAMPLES_MAX}"
        yield Fault("CONSTRAINT_VIOLATION", message, detector.mark("examples"))
    for part in listed:
        if not any(word.strip() for word in part.words):
            yield Fault("EMPTY_TEXT", "`words` is empty", part.mark("words"), "Write the words.")
        yield from list_faults(part.words, part.mark("words"))
    for measure in detector.measures:
        if measure.min >= measure.max:
            yield Fault("RANGE_INVALID", "`min` is not less than `max`", measure.mark("min"))


def _names(detector: Detector) -> Iterator[Fault]:
    """Check the measures, patterns and labels that other parts refer to."""
    known = [measure.name for measure in detector.measures]
    for names, key, nodes in (
        (known, "measure", detector.measures),
        ([pattern.id for pattern in detector.patterns], "pattern", detector.patterns),
    ):
        for index, name in enumerate(names):
            if name in names[:index]:
                yield Fault("DUPLICATE_ID", f"duplicate {key} {name}", nodes[index].mark(key))
    used = [(course.of, course.mark("of")) for pattern in detector.patterns for course in pattern.courses]
    used += [(name, sign.mark("values")) for sign in detector.signs for name in sign.values]
    used += [(name, example.mark("measured")) for example in detector.examples for name in example.measured]
    for name, at in used:
        if name not in known:
            fix = suggest(name, known, otherwise="Add it to `measures`.")
            yield Fault("MEASURE_UNKNOWN", f"the detector {detector.id} has no measure {name}", at, fix)

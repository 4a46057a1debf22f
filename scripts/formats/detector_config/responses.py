"""Convert the responses of the consciousness format to actions."""

import re
from collections.abc import Callable, Collection
from collections.abc import Mapping as MappingType
from functools import partial

from msgspec.structs import replace

from scripts.expressions.expressions import compile_expression
from scripts.expressions.members import DETECTED
from scripts.expressions.values import shorten, texts_in
from scripts.formats import words
from scripts.formats.condition_fixes import condition_fix
from scripts.formats.condition_trees import condition_text
from scripts.formats.conditions import to_condition
from scripts.formats.detector_config.parts import CRISIS, degree_fix, degree_of, id_of, number_of, pass_over
from scripts.formats.placeholders import reference, report_placeholders, to_template, to_value_expression
from scripts.model.actions import Action, Emit, End, Ending, Say, Set, Signal
from scripts.model.base import NOWHERE, Expression, Location, Template, unused_name
from scripts.model.script import Detector
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Tree, pairs_of, plain_value, text_in, word
from scripts.yaml.unknown_keys import is_ignorable, is_switched_off

_GRADED = re.compile(r'detected\.severity (?P<sign>==|!=|>=|<=|>|<) "(?P<word>[^"]+)"')
_SCALED = re.compile(r"(?P<head>detected\.(?P<part>severity|score) (?:==|!=|>=|<=|>|<) )(?P<number>\d+(?:\.\d+)?)")
_BEYOND = re.compile(r"detected\.severity (?:==|!=|>=|<=|>|<) (?P<word>(?!1(?:\.0+)?\b|0)\d+(?:\.\d+)?)")
_AMONG = re.compile(r'detected\.severity (?P<no>not )?in \[(?P<words>"[^"]+"(?:, "[^"]+")*)\]')
_KINDS = ("action_type", "type", "action")
_LIMIT = re.compile(r"^(min|max|least)_|_(min|max)$|threshold")
_KEYS = ("state_key", "variable", "variable_name", "key", "name")
_EVENTS = ("event_type", "notification_type", "event", "alert_type", "type", "name")
_SAYS = re.compile(
    r"^(say|respond|reply|message|(send|insert|inject|deliver|give|provide|output|show|push|display|add|auto|safety|crisis)_?(message|reply|response|text))"
)
_CONDITION_FIX = "Write e.g. `condition: severity >= 0.7`."
_TEXTS = ("message", "content", "text", "response", "template")


def with_responses(
    detector: Detector,
    replies: list[Tree],
    crisis: Scalar | None,
    outputs: list[Tree],
    reader: Reader,
    labels: Collection[str],
    scale: int,
) -> Detector:
    """Return a detector with its actions: the replies first, because others may end the session, then the action for
    crisis words. `labels` name what it looks for.

    `scale` is the highest severity of the file.

    If crisis words have an action of their own, the other actions ignore these words: a safety word is not a sign of
    what the detector looks for, unless one of its labels is the same.
    """
    spares_crisis = crisis is not None and CRISIS not in map(id_of, labels)
    is_graded = bool(labels) and all(each.casefold() in words.DEGREES for each in labels)
    builder = _Builder(detector, reader, scale, spares_crisis=spares_crisis, is_graded=is_graded)
    for tree in replies:
        builder.take(tree)
    if crisis is not None:
        builder.crisis(crisis)
    for tree in outputs:
        builder.take(tree)
    return replace(detector, actions=tuple(builder.actions), replace=builder.replace)


class _Builder:
    def __init__(self, detector: Detector, reader: Reader, scale: int, *, spares_crisis: bool, is_graded: bool) -> None:
        self.actions: list[Action] = []
        self.replace: Template | None = None
        self._detector = detector
        self._reader = reader
        self._scale = scale
        self._spares_crisis = spares_crisis
        self._is_graded = is_graded  # the labels are levels such as `high`

    def _id(self, name: str) -> str:
        return unused_name(id_of(name), {action.id for action in self.actions})

    def crisis(self, name: Scalar) -> None:
        when = Expression(f'detected.label == "{CRISIS}"', name.at)
        if re.search(r"^(end|terminate|stop|close)_?(session|conversation)?$", name.text):
            self.actions.append(End(id=self._id(name.text), ending=Ending(reason=name.text), when=when, at=name.at))
            return
        self._emit(name.text, {**_event_data(name.at), "words": Expression("detected.words", name.at)}, when, name.at)

    def take(self, tree: Tree) -> None:
        """Read an action: ``{action_type, config}``, or only its name."""
        kind: Tree | None = tree
        if isinstance(tree, Mapping):
            tree = _with_kind(tree)
            kind = next((each for key in _KINDS if (each := tree.get(key))), None)
        if not isinstance(kind, Scalar) or kind.value is None:
            self._reader.add("ACTION_TYPE_UNKNOWN", "the item has no action", tree.at, "Write `action_type:`.")
            return
        held = {key.text: value for key, value in pairs_of(tree) if key.text not in _KINDS}
        held |= {key.text: value for key, value in pairs_of(held.pop("config", None))}
        for key in [key for key, value in held.items() if is_switched_off(key, value)]:
            pass_over(self._reader, key, held.pop(key))
        self._kind(kind.text)(kind, held)

    def _kind(self, name: str) -> Callable[[Scalar, dict[str, Tree]], None]:
        if re.search(r"update|set_|store|save", name):
            return self._set
        if re.search(r"^(end|terminate|close)", name):
            return self._end
        if re.search(r"replace|override|block", name):
            return partial(self._say, replaces=True)
        return self._say if _SAYS.search(name) else self._tell

    def _set(self, kind: Scalar, held: dict[str, Tree]) -> None:
        when = self._condition(kind, held)
        target = next((held.pop(key) for key in _KEYS if isinstance(held.get(key), Scalar)), None)
        if isinstance(target, Scalar) and not target.text.isidentifier():
            message = f"{shorten(target.text)} is not a valid variable name"
            self._reader.add("VARIABLE_NAME_INVALID", message, target.at)
            return
        if not isinstance(target, Scalar):
            message = f"`{kind.text}` has no variable, so nothing would be set"
            fix = "Add `variable:` with the name of the variable."
            self._reader.add("REQUIRED_FIELD_MISSING", message, kind.at, fix)
            return
        tree = held.pop("value", held.pop("state_value", None))
        value = self._value(tree) if tree is not None else Expression(self._detection_part(target.text), target.at)
        self.actions.append(Set(id=self._id(kind.text), assignments={target.text: value}, when=when, at=kind.at))
        self._rest(held)

    def _detection_part(self, name: str) -> str:
        """Return the part of the detection that a variable of this name stores."""
        if _part(name) is not None:
            return self._placeholder_source(name)
        return "detected.now" if self._detector.measures else "detected.label"

    def _placeholder_source(self, name: str) -> str:
        """Return the expression of a placeholder; a level is the word for it if the labels are such words."""
        is_level = self._is_graded and name.rpartition("_")[2] == "level"
        return "detected.label" if is_level else _in_text(name)

    def _end(self, kind: Scalar, held: dict[str, Tree]) -> None:
        reason = held.pop("reason", None)
        ending = Ending(reason=reason.text if isinstance(reason, Scalar) else kind.text)
        when, text = self._condition(kind, held), self._text(held)
        if text is not None:
            self.actions.append(Say(id=self._id("goodbye"), texts=(text,), when=when, at=kind.at))
        self.actions.append(End(id=self._id(kind.text), ending=ending, when=when, at=kind.at))
        self._rest(held)

    def _say(self, kind: Scalar, held: dict[str, Tree], *, replaces: bool = False) -> None:
        text = self._text(held)
        if text is None:
            self._tell(kind, held)
            return
        if replaces:
            self.replace = text
        else:
            when = self._condition(kind, held)
            self.actions.append(Say(id=self._id(kind.text), texts=(text,), when=when, at=kind.at))
        self._rest(held)

    def _text(self, held: dict[str, Tree]) -> Template | None:
        found = next((held.pop(key) for key in _TEXTS if isinstance(held.get(key), Scalar)), None)
        if not isinstance(found, Scalar):
            return None
        report_placeholders(self._reader, found.text, found.content_at)
        return Template(to_template(found.text, self._placeholder_source), found.content_at)

    def _value(self, tree: Tree) -> Expression:
        """Return a value as an expression, its texts with their placeholders replaced."""
        value = plain_value(tree)
        for text in texts_in(value):
            report_placeholders(self._reader, text, tree.at)
        return Expression(to_value_expression(value, self._placeholder_source), tree.at)

    def _tell(self, kind: Scalar, held: dict[str, Tree]) -> None:
        """Convert any other response to an event for the application, with all its data."""
        when = self._condition(kind, held)
        event = next((held.pop(key) for key in _EVENTS if isinstance(held.get(key), Scalar)), kind)
        for key, value in held.items():
            if _LIMIT.search(key) and number_of(value) is not None:
                message = f"`{key}` is sent with the event; it is no condition"
                self._reader.add("KEY_IGNORED", message, value.at, _CONDITION_FIX, severity="warning")
        data = {id_of(key): self._value(value) for key, value in held.items()}
        self._emit(text_in(event), {**_event_data(kind.at), **data}, when, kind.at)

    def _emit(self, event: str, data: MappingType[str, Expression], when: Expression | None, at: Location) -> None:
        signal = Signal(event=id_of(event), data=data, at=at)
        self.actions.append(Emit(id=self._id(event), signal=signal, when=when, at=at))

    def _rest(self, held: MappingType[str, Tree]) -> None:
        for key, value in held.items():
            if is_ignorable(key, value, ()):
                pass_over(self._reader, key, value)
            else:
                self._reader.add("UNKNOWN_KEY", f"this action has no key `{key}`", value.at)

    # -- conditions -------------------------------------------------------------------------------------------------

    def _condition(self, kind: Scalar, held: dict[str, Tree]) -> Expression | None:
        """Return the condition of an action; None: always."""
        own = self._own_condition(held)
        if not self._spares_crisis or (own is not None and CRISIS in own.source):
            return own
        spared = f'detected.label != "{CRISIS}"'
        return Expression(f"({own.source}) and {spared}" if own is not None else spared, own.at if own else kind.at)

    def _own_condition(self, held: dict[str, Tree]) -> Expression | None:
        trees = [held.pop(key) for key in ("condition", "when", "if", "conditions") if key in held]
        parts = [part for tree in trees if (part := self._read_condition(tree)) is not None]
        if len(parts) < 2:
            return parts[0] if parts else None
        return Expression(" and ".join(f"({part.source})" for part in parts), parts[0].at)

    def _read_condition(self, tree: Tree) -> Expression | None:
        """Read a condition: a text, a list of which all must hold, or ``{variable, operator, value}``."""
        tree = condition_text(tree)
        if not isinstance(tree, Scalar):
            self._reader.add("EXPRESSION_INVALID", "a condition is a text", tree.at, _CONDITION_FIX)
            return None
        if tree.value is None:
            return None
        try:
            source = to_condition(tree.text, self._refer, self._knows)
            compile_expression(source)
        except ValueError as error:
            self._reader.add("EXPRESSION_INVALID", str(error), tree.at, condition_fix(tree.text))
            return None
        source = _in_degrees(source, self._scale)
        for unknown in (*_GRADED.finditer(source), *_BEYOND.finditer(source)):
            message = f"`{unknown['word']}` is no degree of severity"
            self._reader.add("EXPRESSION_INVALID", message, tree.at, degree_fix(unknown["word"]))
        return Expression(source, tree.at)

    def _knows(self, word: str) -> bool:
        """Return whether a word without quotes is a part of the detection, not a text."""
        return word == DETECTED or self._refer(word) != word

    def _refer(self, name: str) -> str:
        """Return the expression of a name in a condition, which may be a part of the detection."""
        if any(measure.name == name for measure in self._detector.measures):
            return f"detected.now.{name}"
        if name.endswith(f"_{DETECTED}"):
            return "true"  # the actions run only then
        return _in_text(name)


def _with_kind(tree: Mapping) -> Mapping:
    """Convert ``{notify: {condition: …}}``."""
    name, own = tree.pairs[0] if len(tree.pairs) == 1 else (None, None)
    if name is None or not isinstance(own, Mapping) or name.text == "config":
        return tree
    return Mapping(((word("action_type", name), name), (word("config", name), own)), tree.at)


def _in_text(name: str) -> str:
    """Return the expression of a placeholder, which may be a part of the detection."""
    part = _part(name)
    return reference(name) if part is None else f"detected.{part}"


def _part(name: str) -> str | None:
    """Return the part of a detection that a name refers to: `risk_score` the score, `change_pattern` the label."""
    return words.DETECTED.get(name) or words.DETECTED.get(name.rpartition("_")[2])


def _in_degrees(source: str, scale: int) -> str:
    """Convert comparisons of a severity with words such as `high`, and with numbers of a scale, to ones with shares."""
    shares = _SCALED.sub(lambda found: found["head"] + _share(found["number"], found["part"], scale), source)
    return _GRADED.sub(_replace_grade, _AMONG.sub(_each, shares))


def _share(number: str, part: str, scale: int) -> str:
    if part == "severity" and scale == 1:
        return number
    degree = degree_of(Scalar(number, True, NOWHERE), scale if part == "severity" else 1)
    return number if degree is None or degree == float(number) else f"{degree:g}"


def _each(found: re.Match[str]) -> str:
    either = " or ".join(f"detected.severity == {word}" for word in found["words"].split(", "))
    return f"{'not ' if found['no'] else ''}({either})"


def _replace_grade(found: re.Match[str]) -> str:
    degree = degree_of(Scalar(found["word"], False, NOWHERE))
    if degree is None:
        return found[0]
    middle, low = "detected.severity >= 0.6 and detected.severity < 0.9", f"detected.severity <= {degree}"
    is_high, is_middle = degree >= 0.9, 0.3 < degree < 0.9
    same = f"({f'detected.severity >= {degree}' if is_high else middle if is_middle else low})"
    match found["sign"]:
        case "==":
            return same
        case "!=":
            return f"(not {same})"
        case ">=" | "<" as sign:
            return f"detected.severity {sign} {degree if is_high or is_middle else 0}"
        case sign if is_middle:  # up to the next degree
            return f"detected.severity {'>=' if sign == '>' else '<'} 0.9"
        case sign:
            return f"detected.severity {sign} {degree}"


def _event_data(at: Location) -> dict[str, Expression]:
    return {name: Expression(f"detected.{name}", at) for name in ("detector", "label", "score", "severity")}

"""What stands in the `detection_config` of the consciousness form, whatever it is called there.

The form fixes no keys for what is to be detected. So its parts are known by their shape: a list of short texts under a
key such as `keywords` is a rule, something with a `range` a measure, something that has values of measures a sign, and
something with criteria a pattern. Every description goes to the model as part of what it looks for.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from scripts.detectors.parts import SIGNIFICANT, Course, Measure, Pattern, Rule, Sign
from scripts.reader import Reader
from scripts.source import Mapping as MappingTree
from scripts.source import Scalar, Tree
from scripts.source import Sequence as SequenceTree

WORD_CHARS_MAX = 30  # a longer text describes something; nobody says it to the letter
DEFINE_CHARS_MAX = 8_000
SURE, LIKELY = 1.0, 0.8
_SURE_WORDS = {
    "keywords",
    "triggers",
    "phrases",
    "crisis_keywords",
    "trigger_words",
    "trigger_keywords",
    "crisis_words",
}
_LIKELY_WORDS = {"indicators", "signals", "markers", "cues", "expressions", "patterns_words", "key_phrases", "words"}
_DESCRIPTIONS = {"description", "desc", "definition", "explanation", "meaning", "detection_method", "detection_logic"}
_NOTES = {"clinical_significance", "significance", "clinical_meaning", "note", "notes", "clinical_notes"}
_NAMES_ASIDE = {"chinese", "zh", "chinese_name", "display_name", "label", "title", "name"}
_SEVERITIES = {"severity", "risk_level", "severity_level", "level", "urgency", "priority"}
_SCORES = {"confidence", "score", "weight"}
_CRITERIA = {"detection_criteria", "criteria", "conditions", "detection_rules"}
_ACTIONS = re.compile(r"(^|_)actions?$")
_GRAVE = re.compile(r"crisis|danger|suicid|emergency|self_?harm|危机|自杀")
_DEGREES = {
    1.0: {"critical", "extreme", "emergency", "urgent", "极高", "紧急", "危急"},
    0.9: {"high", "severe", "serious", "高", "严重", "重度"},
    0.6: {"medium", "moderate", "mid", "中", "中等", "中度"},
    0.3: {"low", "mild", "minor", "低", "轻", "轻度", "轻微"},
}
_FALLING, _RISING = {"decreasing", "falling", "declining", "down", "下降"}, {"increasing", "rising", "up", "上升"}


class Parts(Struct):
    """What was found; `lines` is what a model is to look for, line by line."""

    rules: list[Rule]
    measures: list[Measure]
    signs: list[Sign]
    patterns: list[Pattern]
    lines: list[str]
    labels: list[str]  # every name of something to be detected
    threshold: float | None = None


def texts_in(tree: Tree | None) -> list[Scalar]:
    """The texts of a list, or the one text that stands for a list."""
    if isinstance(tree, Scalar):
        return [tree] if tree.value is not None else []
    items = tree.items if isinstance(tree, SequenceTree) else ()
    return [item for item in items if isinstance(item, Scalar) and item.value is not None]


def number_of(tree: Tree | None) -> float | None:
    """A plain number, or None."""
    value = tree.value if isinstance(tree, Scalar) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def degree_of(tree: Tree | None) -> float | None:
    """A share from 0 to 1: as a number, of ten or a hundred where it is above, or as a word such as `high`."""
    number = number_of(tree)
    if number is not None:
        number = number if number <= 1 else number / 10 if number <= 10 else number / 100
        return min(max(number, 0.0), 1.0)
    word = tree.text.strip().casefold() if isinstance(tree, Scalar) else ""
    return next((degree for degree, words in _DEGREES.items() if word in words), None)


def pass_over(reader: Reader, key: str, value: Tree) -> None:
    """Notes that something of the file has no effect."""
    reader.add("KEY_IGNORED", f"`{key}` has no effect on a detector here", value.at, severity="note")


def _holds_action(key: str, tree: Tree) -> bool:
    """Whether a part says what is to be done, which belongs elsewhere in the file."""
    items = tree.items if isinstance(tree, SequenceTree) else (tree,)
    mappings = [item for item in items if isinstance(item, MappingTree)]
    if any(item.get("action_type") is not None for item in mappings):
        return True
    return _ACTIONS.search(key) is not None and any(item.get("type") is not None for item in mappings)


class Collector:
    """Walks through a configuration and keeps what it means."""

    def __init__(self, reader: Reader) -> None:
        self.parts = Parts([], [], [], [], [], [])
        self._reader = reader

    def take(self, key: str, tree: Tree, path: str = "") -> None:
        """Takes a part of the configuration that stands under a key."""
        if _holds_action(key, tree):
            message = f"nothing under `{key}` would be done here"
            self._reader.add("UNKNOWN_KEY", message, tree.at, "Move it into `output_config: {trigger_actions: […]}`.")
        elif isinstance(tree, MappingTree) and "threshold" in key:
            self._thresholds(tree)
        elif key in _SURE_WORDS | _LIKELY_WORDS and texts_in(tree):
            self._rule(key, tree, path.rpartition(".")[2] or key, f"{path}.{key}", None)
        elif isinstance(tree, MappingTree):
            self._entry(key, tree, path)
        elif isinstance(tree, SequenceTree) and tree.items:
            self._list(key, tree, path)
        elif key in _DESCRIPTIONS and isinstance(tree, Scalar):
            self._say(tree.text)
        else:
            pass_over(self._reader, key, tree)

    def _list(self, key: str, tree: SequenceTree, path: str) -> None:
        entries = [item for item in tree.items if isinstance(item, MappingTree)]
        for item in entries:
            self._entry(key, item, path, listed=True)
        listed = [item.text for item in texts_in(tree)]
        if listed:
            self._say(f"{key}: {'; '.join(listed)}")

    def _say(self, line: str) -> None:
        if sum(map(len, self.parts.lines)) + len(line) <= DEFINE_CHARS_MAX:
            self.parts.lines.append(" ".join(line.split()))

    # -- entries --------------------------------------------------------------------------------------------------

    def _entry(self, key: str, tree: MappingTree, path: str, *, listed: bool = False) -> None:
        """Something with a name: a measure, a sign, a pattern, a rule, or a group of such."""
        name = _name_in(tree) if listed else None
        label = name.text if name is not None else key
        held = {pair.text: value for pair, value in tree.pairs}
        taken = {name_key for name_key, value in held.items() if value is name}
        aside = [value.text for each, value in held.items() if each in _NAMES_ASIDE and isinstance(value, Scalar)]
        about = " ".join(v.text for each, v in held.items() if each in _DESCRIPTIONS and isinstance(v, Scalar))
        note = " ".join(v.text for each, v in held.items() if each in _NOTES and isinstance(v, Scalar))
        taken |= (_DESCRIPTIONS | _NOTES | _NAMES_ASIDE | _SCORES | _SEVERITIES) & held.keys()
        taken |= self._shaped(label, tree, held, about, note, aside)
        if listed or about:
            self.parts.labels.append(label)
            called = f"{label} ({', '.join(dict.fromkeys(aside))})" if aside and aside != [label] else label
            self._say(f"{called}: {about or note}" if about or note else called)
        inner = f"{path}.{label}" if path else label
        for each, value in tree.pairs:
            if each.text in _SURE_WORDS | _LIKELY_WORDS and texts_in(value):
                self._rule(each.text, value, label, f"{path}.{key}.{each.text}", held)
            elif each.text not in taken:
                self.take(each.text, value, inner)

    def _shaped(
        self, label: str, tree: MappingTree, held: Mapping[str, Tree], about: str, note: str, aside: list[str]
    ) -> set[str]:
        """What an entry is by its shape; the keys that were used for it."""
        bounds = [number_of(each) for each in texts_in(held.get("range"))]
        is_level = any(label.casefold() in words for words in _DEGREES.values())  # of something, and nothing measured
        if len(bounds) == 2 and bounds[0] is not None and bounds[1] is not None and not is_level:
            significant = number_of(held.get("threshold"))
            self.parts.measures.append(_measure(label, about, bounds[0], bounds[1], significant, tree))
            return {"range", "threshold"}
        values = {each.name: number_of(held[each.name]) for each in self.parts.measures if each.name in held}
        given = {name: value for name, value in values.items() if value is not None}
        if given:
            words = tuple(dict.fromkeys([*aside, label.replace("_", " ")]))
            self.parts.signs.append(Sign(words=words, values=given, label=label, at=tree.at))
            return set(given)
        for criteria in _CRITERIA & held.keys():
            found = held[criteria]
            if not isinstance(found, MappingTree):
                continue
            courses = tuple(self._courses(found))
            told = "" if courses else "; ".join(f"{k.text} {v.text}" for k, v in found.pairs if isinstance(v, Scalar))
            define = " ".join(part for part in (about, told and f"({told})") if part)
            severity = next((degree_of(held[key]) for key in held if key in _SEVERITIES), None)
            pattern = Pattern(id=id_of(label), define=define, note=note, severity=severity, courses=courses, at=tree.at)
            self.parts.patterns.append(pattern)
            return {criteria}
        return set()

    # -- words ----------------------------------------------------------------------------------------------------

    def _rule(self, key: str, tree: Tree, label: str, path: str, held: Mapping[str, Tree] | None) -> None:
        texts = texts_in(tree)
        words = tuple(each.text for each in texts if len(each.text) <= WORD_CHARS_MAX)
        longer = [each.text for each in texts if len(each.text) > WORD_CHARS_MAX]
        if longer:
            self._say(f"{label}: {'; '.join(longer)}")
        if not words:
            return
        held = held or {}
        given = next((degree_of(held[each]) for each in held if each in _SCORES), None)
        severity = next((degree_of(held[each]) for each in held if each in _SEVERITIES), None)
        self.parts.rules.append(
            Rule(
                words=words,
                label=id_of(label),
                score=given if given is not None else SURE if key in _SURE_WORDS else LIKELY,
                severity=severity,
                always=True if _GRAVE.search(path) else None,
                at=tree.at,
            )
        )

    # -- thresholds -----------------------------------------------------------------------------------------------

    def _thresholds(self, tree: MappingTree) -> None:
        for key, value in tree.pairs:
            number = degree_of(value)
            if number is None:
                pass_over(self._reader, key.text, value)
            elif "confidence" in key.text:
                self.parts.threshold = number
            elif "significan" in key.text and self.parts.measures:
                self.parts.measures = [
                    structs.replace(each, significant=number) if each.significant == SIGNIFICANT else each
                    for each in self.parts.measures
                ]
            elif _GRAVE.search(key.text) and (grave := [each for each in self.parts.measures if each.min < 0]):
                course = Course(of=grave[0].name, last_max=-number, at=value.at)
                name = key.text.removesuffix("_threshold")
                self.parts.patterns.append(Pattern(id=id_of(name), courses=(course,), at=value.at))
            else:
                pass_over(self._reader, key.text, value)

    # -- patterns -------------------------------------------------------------------------------------------------

    def _courses(self, tree: MappingTree) -> Iterator[Course]:
        """The criteria as courses of measures; none where one of them has no such meaning."""
        measures = {each.name: each for each in self.parts.measures}
        shared: dict[str, float | int | str] = {}
        own: dict[str, dict[str, float | int | str]] = {}
        for key, value in tree.pairs:
            name = next((each for each in measures if key.text.startswith(each) or key.text.endswith(each)), "")
            meant = _criterion(key.text.removeprefix(name).removesuffix(name).strip("_"), value, measures.get(name))
            if meant is None:
                return
            (own.setdefault(name, {}) if name else shared).update([meant])
        if not own and measures:
            own[next(iter(measures))] = {}
        for index, (name, parts) in enumerate(own.items()):
            merged = {**(shared if index == 0 else {}), **parts}
            if merged.keys() - {"span", "amplitude"}:
                yield _course(name, merged, tree)


def _course(name: str, parts: Mapping[str, float | int | str], tree: MappingTree) -> Course:
    fields = structs.asdict(Course(of=name, at=tree.at)) | dict(parts)
    return Course(**fields)


def _criterion(kind: str, value: Tree, measure: Measure | None) -> tuple[str, float | int | str] | None:
    """One criterion as a part of a course; `kind` is its key without the measure's name."""
    word = value.text.strip().casefold() if isinstance(value, Scalar) else ""
    if kind == "trend" and word in _FALLING | _RISING:
        return "trend", "falling" if word in _FALLING else "rising"
    number = number_of(value)
    if number is None:
        return None
    if kind in {"message_span", "span", "window", "message_window", "within_messages", "min_messages"}:
        return ("span", min(max(int(number), 2), 50))
    if kind in {"change", "total_change", "min_change", "drop", "rise", "delta"}:
        return "change", abs(number)
    if kind in {"fluctuation_count", "swing_count", "oscillation_count", "change_count", "swings"}:
        return "swings", min(max(int(number), 1), 50)
    if kind in {"min_amplitude", "amplitude"}:
        return "amplitude", abs(number)
    if measure is None:
        return None
    if kind in {"average", "avg", "mean"}:
        low = measure.strength(number) < 0.5
        return ("average_max" if low or number < measure.neutral else "average_min"), number
    if kind == "range":
        return ("range_max" if number <= measure.significant else "range_min"), number
    ends = {"min": "last_min", "above": "last_min", "max": "last_max", "below": "last_max"}
    return (ends[kind], number) if kind in ends else None


def _measure(name: str, define: str, low: float, high: float, significant: float | None, tree: MappingTree) -> Measure:
    known = {"valence": "valence", "arousal": "arousal"}
    fields = structs.asdict(Measure(name=id_of(name), define=define, min=low, max=high, at=tree.at))
    fields |= {"lexicon": known.get(name), "significant": significant if significant is not None else SIGNIFICANT}
    return Measure(**fields)


def _name_in(tree: MappingTree) -> Scalar | None:
    """The name of an entry of a list: its first short text."""
    for _, value in tree.pairs:
        if isinstance(value, Scalar) and isinstance(value.value, str) and 0 < len(value.text.strip()) <= 80:
            return value
    return None


def id_of(name: str) -> str:
    """A name as an id: a word, whatever it was."""
    word = re.sub(r"[^\w.\-]+", "_", name.strip()).strip("_.-")
    return word[:100] or "detector"

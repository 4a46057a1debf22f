"""Read the `detection_config` of the consciousness format, whatever its keys are.

The format does not fix the keys of the parts, so they are recognised by structure: a list of short texts under a key
such as `keywords` is a rule, a part with a `range` a measure, a part with values of measures a sign, and a part with
criteria a pattern. Every description is passed to the model as part of what it looks for.
"""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingType

from msgspec.structs import replace

from scripts.expressions.suggestions import SURE as ALIKE
from scripts.expressions.suggestions import likeness, snake_case, suggest
from scripts.expressions.values import number_in
from scripts.formats.words import CRITERIA, DEGREES, TRENDS
from scripts.formats.words import DETECTOR_KEYS as KEYS
from scripts.model.detectors import SIGNIFICANT, Measure, Pattern, Rule, Sign, Trend
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, is_null, items_of, pairs_of, pairs_within
from scripts.yaml.unknown_keys import SWITCH_FIX, is_switched_off

WORD_CHARS_MAX = 30  # a longer text is a description, not words to look for
DEFINE_CHARS_MAX = 8_000
DEGREE_FIX = "Write a number from 0 to 1, or `low`, `medium`, `high` or `critical`."
SURE, LIKELY = 1.0, 0.8
_WORD_KEYS = KEYS.sure_words | KEYS.likely_words
_WORD_ENDS = re.compile(r"(?<=_)(key)?(words|phrases|markers|indicators|signals|signs|cues)$|^regex")
CRISIS = "crisis"
WORD_KEY = re.compile(r"word|phrase")
_RANGE = re.compile(r"\[?\s*(?P<least>-?\d+(?:\.\d+)?)\s*(?:[-~–,，至到]|to)\s*(?P<most>-?\d+(?:\.\d+)?)\s*\]?")
_ACTIONS = re.compile(r"(^|_)actions?$")
_EXCEPTIONS = re.compile(r"exclu|ignor|except|whitelist|allow|protective|false_positive|排除|忽略|保护")
REPLY_KEY = re.compile(r"response|reply|message|回复")
_REPLY_KEYS = {"response", "reply", "say", "auto_response", "auto_reply", "response_text", "response_template", "回复"}
_NO_NAMES = _WORD_KEYS | _REPLY_KEYS | KEYS.descriptions | KEYS.notes | KEYS.severities | KEYS.scores | KEYS.criteria
_SWITCHES = {"enabled", "active", "always_active"}  # what is switched on is as it would be without the key
_REGEX = re.compile(r"\.[*+?{]|\\[a-zA-Z]|\(\?|\[[^\]]*\][*+?{]|\w\|\w")
_GRAVE = re.compile(r"crisis|danger|suicid|emergency|self_?harm|危机|自杀")


def texts_in(tree: Tree | None) -> list[Scalar]:
    """Return the texts of a list, or a single text as a list."""
    items = (tree,) if isinstance(tree, Scalar) else items_of(tree)
    return [item for item in items if isinstance(item, Scalar) and item.value is not None]


def words_in(tree: Tree) -> list[str]:
    """Return the words of a text with commas, of a list, or of the mappings in a list."""
    match tree:
        case Scalar():
            text = "" if tree.value is None else tree.text
            return [word for part in re.split(r"[,，、;；\n]", text) if (word := part.strip())]
        case Sequence():
            texts = [item.text for item in texts_in(tree)]
            return texts + [word for item in tree.items if not isinstance(item, Scalar) for word in words_in(item)]
        case Mapping():
            return [word for key, value in tree.pairs if WORD_KEY.search(key.text) for word in words_in(value)]


def number_of(tree: Tree | None) -> float | None:
    """Return a number, which may be in quotes, or None."""
    value = tree.value if isinstance(tree, Scalar) else None
    if isinstance(value, str):
        value = number_in(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _word(tree: Tree | None) -> str:
    return tree.text.strip().casefold() if isinstance(tree, Scalar) else ""


def degree_of(tree: Tree | None, scale: int = 1) -> float | None:
    """Read a share from 0 to 1: a number (a whole one, of `scale`), or a word such as `high`.

    On a scale of 1, a number above 1 is out of ten or a hundred.
    """
    if (number := number_of(tree)) is not None:
        if scale > 1 and number.is_integer():
            number /= scale
        number = number if number <= 1 else number / 10 if number <= 10 else number / 100
        return min(max(number, 0.0), 1.0)
    word = _word(tree)
    percent = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*[%％]", word)
    return min(float(percent[1]) / 100, 1.0) if percent is not None else DEGREES.get(word)


def degree_fix(word: str) -> str:
    """Return the fix for a word that is no degree of severity."""
    return suggest(word.casefold(), list(DEGREES), DEGREE_FIX)


def _severities(tree: Tree) -> Iterator[tuple[str, Scalar, float]]:
    """Yield the severities in a tree that are numbers, with their keys."""
    for key, value in pairs_within(tree):
        number = number_of(value) if key.text in KEYS.severities else None
        if number is not None and isinstance(value, Scalar):
            yield key.text, value, number


def severity_scale(trees: Iterable[Tree], reader: Reader) -> int:
    """Return the highest severity of the scale that a file uses: 1, 5, 10 or 100; whole numbers are reported once."""
    found = [each for tree in trees for each in _severities(tree)]
    highest = max((number for *_, number in found), default=0.0)
    scale = next((each for each in (1, 5, 10) if highest <= each), 100)
    whole = [each for each in found if each[2] >= 1 and "." not in each[1].text]
    if whole and (scale > 1 or len(whole) == len(found)):
        key, value, number = whole[0]
        message = f"`{key}: {value.text}` is read as {min(number / scale, 1):g}, on a scale from 0 to {scale}"
        reader.add("CONSTRAINT_VIOLATION", message, value.at, DEGREE_FIX, severity="warning")
    return scale


def pass_over(reader: Reader, key: str, value: Tree) -> None:
    """Record a part of the file that has no effect; it is an error if it should switch another part off."""
    if is_switched_off(key, value):
        reader.add("UNKNOWN_KEY", f"`{key}` has no effect here", value.at, SWITCH_FIX)
        return
    if key not in _SWITCHES:
        reader.add("KEY_IGNORED", f"`{key}` has no effect on a detector here", value.at, severity="note")


def _holds_action(key: str, tree: Tree) -> bool:
    """Return whether a part contains actions, which belong elsewhere in the file."""
    kinds = {"action_type", "type"} if _ACTIONS.search(key) else {"action_type"}
    return any(name.text in kinds for item in (tree, *items_of(tree)) for name, _ in pairs_of(item))


def _holds_words(tree: Tree) -> bool:
    """Return whether a part has a list of words under each of its keys, such as `high` and `low`."""
    values = [value for _, value in pairs_of(tree)]
    lists = [value for value in values if not is_null(value)]
    return any(map(texts_in, lists)) and all(isinstance(each, Sequence) for each in lists)


class Collector:
    """Walks through a configuration and collects its parts."""

    def __init__(self, reader: Reader, scale: int) -> None:
        self.rules: list[Rule] = []
        self.measures: list[Measure] = []
        self.signs: list[Sign] = []
        self.patterns: list[Pattern] = []
        self.lines: list[str] = []  # what a model looks for
        self.labels: list[str] = []  # names of everything to detect
        self.replies: list[tuple[str, Scalar]] = []  # what is said, by the label for which it is said
        self.name = ""  # of the detector
        self.threshold = 0.7
        self._scale = scale  # of severities
        self._reader = reader

    def take(self, key: str, tree: Tree, path: str = "") -> None:
        """Read the part of the configuration under a key."""
        if _EXCEPTIONS.search(key) and any(isinstance(each, Mapping) for each in (tree, *items_of(tree))):
            message = f"a detector has no exceptions; what is under `{key}` has no effect"
            self._reader.add("KEY_IGNORED", message, tree.at)
        elif _holds_action(key, tree):
            message = f"actions under `{key}` would not run"
            self._reader.add("UNKNOWN_KEY", message, tree.at, "Move it into `output_config: {trigger_actions: […]}`.")
        elif _ACTIONS.search(key) and isinstance(tree, Scalar) and tree.value is not None:
            message = f"`{key}: {tree.text}` would not be done"
            fix = f"Write `- action_type: {tree.text}` with a `condition` in `output_config: {{trigger_actions: […]}}`."
            self._reader.add("KEY_IGNORED", message, tree.at, fix)
        elif isinstance(tree, Mapping) and "threshold" in key:
            self._thresholds(tree)
        elif ("confidence" in key or ("threshold" in key and not path)) and (least := degree_of(tree)) is not None:
            self.threshold = least
        elif ("confidence" in key or ("threshold" in key and not path)) and isinstance(tree, Scalar) and _word(tree):
            message = f"`{tree.text}` is no degree of certainty"
            self._reader.add("ENUM_VALUE_INVALID", message, tree.at, degree_fix(tree.text), severity="warning")
        elif key in _WORD_KEYS and texts_in(tree):
            label = path.rpartition(".")[2] or (CRISIS if _GRAVE.search(key) else self.name)
            self._rule(key, tree, label, f"{path}.{key}", None)
        elif key in _WORD_KEYS and _holds_words(tree):
            graded = any(group.text.casefold() in DEGREES for group, _ in pairs_of(tree))
            for group, words in pairs_of(tree):
                if _EXCEPTIONS.search(group.text):
                    message = f"a detector has no exceptions; the words of `{group.text}` have no effect"
                    self._reader.add("KEY_IGNORED", message, words.at)
                    continue
                is_degree = graded and suggest(group.text.casefold(), list(DEGREES), "") != ""
                degree = {"severity": group} if is_degree else None
                self._rule(key, words, group.text, f"{path}.{key}.{group.text}", degree)
        elif isinstance(tree, Mapping):
            if _holds_words(tree) and not _WORD_KEYS & {each.text for each, _ in tree.pairs}:
                self._report_words(key, tree)
            self._entry(key, tree, path)
        elif items_of(tree):
            if texts_in(tree):
                self._report_words(key, tree)
            self._list(key, tree, path)
        elif key in KEYS.descriptions and isinstance(tree, Scalar):
            self._say(tree.text)
        else:
            pass_over(self._reader, key, tree)

    def _report_words(self, key: str, tree: Tree) -> None:
        """Report texts that nobody searches for, under a key that resembles one for words."""
        near = next((each for each in sorted(_WORD_KEYS) if likeness(key, each) >= ALIKE), "")
        if near or (_WORD_ENDS.search(key) and not _EXCEPTIONS.search(key)):
            message = f"`{key}` is only described to a model, not searched for"
            fix = f"Did you mean `{near}`?" if near else "To search for these texts, write them below `keywords:`."
            self._reader.add("UNKNOWN_KEY", message, tree.at, fix, severity="warning")

    def _list(self, key: str, tree: Tree, path: str) -> None:
        for item in items_of(tree):
            if isinstance(item, Mapping):
                self._entry(key, item, path, listed=True)
        if listed := texts_in(tree):
            self._say(f"{key}: {'; '.join(item.text for item in listed)}")

    def _say(self, line: str) -> None:
        if sum(map(len, self.lines)) + len(line) <= DEFINE_CHARS_MAX:
            self.lines.append(" ".join(line.split()))

    # -- entries --------------------------------------------------------------------------------------------------

    def _entry(self, key: str, tree: Mapping, path: str, *, listed: bool = False) -> None:
        """Read a named entry: a measure, a sign, a pattern, a rule, or a group of entries."""
        name = _name_in(tree, key) if listed else None
        label = name.text if name is not None else key
        held = {pair.text: value for pair, value in tree.pairs}
        used = {name_key for name_key, value in held.items() if value is name}
        aside = [value.text for each, value in held.items() if each in KEYS.names and isinstance(value, Scalar)]
        about = " ".join(v.text for each, v in held.items() if each in KEYS.descriptions and isinstance(v, Scalar))
        note = " ".join(v.text for each, v in held.items() if each in KEYS.notes and isinstance(v, Scalar))
        used |= (KEYS.descriptions | KEYS.notes | KEYS.names | KEYS.scores | KEYS.severities) & held.keys()
        used |= self._recognise(label, tree, held, about, note, aside)
        if listed or about:
            self.labels.append(label)
            called = f"{label} ({', '.join(dict.fromkeys(aside))})" if aside and aside != [label] else label
            self._say(f"{called}: {about or note}" if about or note else called)
        inner = f"{path}.{label}" if path else label
        for each, value in tree.pairs:
            if each.text in used:
                continue
            if each.text in _WORD_KEYS and texts_in(value):
                self._rule(each.text, value, label, f"{path}.{key}.{each.text}", held)
            elif each.text in _REPLY_KEYS and isinstance(value, Scalar) and value.value is not None:
                self.replies.append((id_of(label), value))
            else:
                self.take(each.text, value, inner)

    def _recognise(
        self, label: str, tree: Mapping, held: MappingType[str, Tree], about: str, note: str, aside: list[str]
    ) -> set[str]:
        """Recognise an entry by its structure; return the keys used."""
        bounds = _bounds(held)
        is_level = label.casefold() in DEGREES  # a range without a measured quantity
        if len(bounds) == 2 and bounds[0] is not None and bounds[1] is not None and not is_level:
            significant = number_of(held.get("threshold"))
            self.measures.append(_measure(label, about, bounds[0], bounds[1], significant, tree))
            return {"range", "min", "max", "threshold"}
        values = {each.name: number_of(held[each.name]) for each in self.measures if each.name in held}
        values_set = {name: value for name, value in values.items() if value is not None}
        if values_set:
            listed = set() if KEYS.severities & held.keys() else _WORD_KEYS & held.keys()
            own = [each.text for key in held if key in listed for each in texts_in(held[key])]
            words = tuple(dict.fromkeys([*aside, label.replace("_", " "), *own]))
            self.signs.append(Sign(words=words, values=values_set, label=label, at=tree.at))
            return set(values_set) | listed
        for criteria in KEYS.criteria & held.keys():
            found = held[criteria]
            courses = tuple(self._courses(found)) if isinstance(found, Mapping) else ()
            described = "" if courses else "; ".join(_criteria(found))
            define = " ".join(part for part in (about, described and f"({described})") if part)
            severity = self._severity(held)
            pattern = Pattern(id=id_of(label), define=define, note=note, severity=severity, courses=courses, at=tree.at)
            self.patterns.append(pattern)
            return {criteria}
        return set()

    def _severity(self, held: MappingType[str, Tree]) -> float | None:
        written = next((held[key] for key in held if key in KEYS.severities), None)
        degree = degree_of(written, self._scale)
        if isinstance(written, Scalar) and written.value is not None and degree is None:
            message, fix = f"`{written.text}` is no degree of severity", degree_fix(written.text)
            self._reader.add("ENUM_VALUE_INVALID", message, written.at, fix, severity="warning")
        return degree

    # -- words ----------------------------------------------------------------------------------------------------

    def _rule(self, key: str, tree: Tree, label: str, path: str, held: MappingType[str, Tree] | None) -> None:
        texts = words_in(tree) if key in KEYS.sure_words else [each.text for each in texts_in(tree)]
        words = tuple(text for text in texts if len(text) <= WORD_CHARS_MAX)
        longer = [text for text in texts if len(text) > WORD_CHARS_MAX]
        if (written := next((text for text in words if _REGEX.search(text)), None)) is not None:
            message = f"`{written}` is searched for as it is written, not as a regular expression"
            fix = "Write the words themselves, such as `[so tired, worn out]`."
            self._reader.add("KEY_IGNORED", message, tree.at, fix)
        if longer:
            self._say(f"{label}: {'; '.join(longer)}")
        if not words:
            return
        held = held or {}
        score = next((degree_of(held[each]) for each in held if each in KEYS.scores), None)
        rule = Rule(
            words=words,
            label=id_of(label),
            score=score if score is not None else SURE if key in KEYS.sure_words else LIKELY,
            severity=self._severity(held),
            always=True if _GRAVE.search(path) else None,
            at=tree.at,
        )
        self.rules.append(rule)

    # -- thresholds -----------------------------------------------------------------------------------------------

    def _thresholds(self, tree: Mapping) -> None:
        for key, value in tree.pairs:
            number = degree_of(value)
            if number is None:
                pass_over(self._reader, key.text, value)
            elif "confidence" in key.text:
                self.threshold = number
            elif "significan" in key.text and self.measures:
                self.measures = [
                    replace(each, significant=number) if each.significant == SIGNIFICANT else each
                    for each in self.measures
                ]
            elif _GRAVE.search(key.text) and (grave := [each for each in self.measures if each.min < 0]):
                course = Trend(of=grave[0].name, last_max=-number, at=value.at)
                name = key.text.removesuffix("_threshold")
                self.patterns.append(Pattern(id=id_of(name), courses=(course,), at=value.at))
            else:
                pass_over(self._reader, key.text, value)

    # -- patterns -------------------------------------------------------------------------------------------------

    def _courses(self, tree: Mapping) -> Iterator[Trend]:
        """Convert criteria to courses of measures; none if one of them cannot be converted."""
        measures = {each.name: each for each in self.measures}
        shared: dict[str, float | int | str] = {}
        own: dict[str, dict[str, float | int | str]] = {}
        for key, value in tree.pairs:
            kind = snake_case(key.text)
            name = next((each for each in measures if kind.startswith(each) or kind.endswith(each)), "")
            criterion = _criterion(kind.removeprefix(name).removesuffix(name).strip("_"), value, measures.get(name))
            if criterion is None:
                return
            (own.setdefault(name, {}) if name else shared).update([criterion])
        if not own and measures:
            own[next(iter(measures))] = {}
        for index, (name, parts) in enumerate(own.items()):
            merged = {**(shared if index == 0 else {}), **parts}
            if merged.keys() - {"span", "amplitude"}:
                yield replace(Trend(of=name, at=tree.at), **merged)


def _criterion(kind: str, value: Tree, measure: Measure | None) -> tuple[str, float | int | str] | None:
    """Convert a criterion to a part of a course; `kind` is its key without the measure's name."""
    part, number = CRITERIA.get(kind), number_of(value)
    if part == "trend":
        return (part, TRENDS[_word(value)]) if _word(value) in TRENDS else None
    if part is None or number is None:
        return None
    match part:
        case "span":
            return part, min(max(int(number), 2), 50)
        case "swings":
            return part, min(max(int(number), 1), 50)
        case "change":
            return ("drop", -number) if number < 0 else (part, number)
        case "drop" | "rise" | "amplitude":
            return part, abs(number)
    if measure is None:
        return None
    match part:
        case "average":
            is_low = measure.strength(number) < 0.5 or number < measure.neutral
            return ("average_max" if is_low else "average_min"), number
        case "range":
            return ("range_max" if number <= measure.significant else "range_min"), number
        case _:
            return part, number


def _criteria(tree: Tree) -> list[str]:
    """Return criteria as texts for a model."""
    pairs = [f"{key.text} {value.text}" for key, value in pairs_of(tree) if isinstance(value, Scalar)]
    return pairs or [each.text for each in texts_in(tree)]


def _bounds(held: MappingType[str, Tree]) -> list[float | None]:
    """Return the two ends of a measure: a list, a text such as `-1 ~ 1`, or `min` and `max`."""
    written = held.get("range")
    if isinstance(written, Scalar) and (ends := _RANGE.fullmatch(written.text.strip())) is not None:
        return [float(ends["least"]), float(ends["most"])]
    listed = [number_of(each) for each in texts_in(written)]
    return listed or ([number_of(held["min"]), number_of(held["max"])] if {"min", "max"} <= held.keys() else [])


def _measure(name: str, define: str, low: float, high: float, significant: float | None, tree: Mapping) -> Measure:
    return Measure(
        name=id_of(name),
        define=define,
        min=low,
        max=high,
        lexicon="valence" if name == "valence" else "arousal" if name == "arousal" else None,
        significant=significant if significant is not None else SIGNIFICANT,
        at=tree.at,
    )


def _name_in(tree: Mapping, key: str) -> Scalar | None:
    """Return the name of an entry of the list under a key: its first short text that does not only describe it, or
    beside a translated name the one whose key is in that of the list, such as `emotion` in `primary_emotions`.
    """
    texts = {
        each.text: value
        for each, value in tree.pairs
        if isinstance(value, Scalar) and isinstance(value.value, str) and 0 < len(value.text.strip()) <= 80
    }
    own = next((each for each in texts if each in key), "")
    first = next((each for each in texts if each == own or each not in _NO_NAMES), next(iter(texts), ""))
    return texts.get(own if own and first in KEYS.names else first)


def id_of(name: str) -> str:
    """Convert a name to an id, a single word."""
    word = re.sub(r"[^\w.\-]+", "_", name.strip()).strip("_.-")
    return word[:100] or "detector"

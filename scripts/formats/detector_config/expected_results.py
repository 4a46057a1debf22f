"""Read the examples of the consciousness format: messages, and what a detector finds in them."""

import re
from collections.abc import Mapping as MappingType
from itertools import dropwhile

from scripts.detectors.judge import watches
from scripts.formats.detector_config.parts import id_of, number_of, pass_over
from scripts.formats.words import ALONE
from scripts.model.detectors import Example, Line
from scripts.model.script import Detector
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Scalar, Tree, items_of, pairs_of, text_in

_ASSISTANTS = {"assistant", "ai", "bot", "counselor", "therapist", "consultant", "咨询师", "助手"}
_SEEN = re.compile(r"(^|_)(detected|triggered|found|present)$|^(is|has)_")
_LABEL = re.compile(r"(^|_)(pattern|type|label|category|kind|level)$|等级|类[型别]|标签|模式")
_PLACE = ("message_index", "index")
_MESSAGES = (
    "messages", "text", "message", "content", "user_message", "user_input", "conversation", "dialogue", "history",
)  # fmt: skip
Values = dict[str, list[float | None]]


def example(tree: Tree, detector: Detector, labels: list[str], reader: Reader) -> Example | None:
    """Read an example; None if it has no messages."""
    if not isinstance(tree, Mapping):
        return None
    source = tree.get("input") or tree
    messages: Tree | None = source
    if isinstance(source, Mapping):
        messages = next((found for key in _MESSAGES if (found := source.get(key))), None)
    lines = tuple(_lines(messages))
    if not lines:
        reader.add("REQUIRED_FIELD_MISSING", "the example has no messages", tree.at, "Add `input: {messages: […]}`.")
        return None
    named = tree.get("description") or tree.get("name")
    expected = tree.get("expected_output") or tree.get("expected") or tree.get("output")
    known = {id_of(label) for label in labels} | {rule.label for rule in detector.rules}
    name = text_in(named)
    return _ExpectationReader(detector, lines, known, reader).example(tree, name, expected)


def _lines(tree: Tree | None) -> list[Line]:
    if isinstance(tree, Scalar):
        return [Line(content=tree.text, at=tree.at)]
    lines = []
    for item in items_of(tree):
        role = item.get("role") if isinstance(item, Mapping) else None
        content = (item.get("content") or item.get("text")) if isinstance(item, Mapping) else item
        if isinstance(content, Scalar):
            theirs = isinstance(role, Scalar) and role.text.casefold() in _ASSISTANTS
            lines.append(Line(role="assistant" if theirs else "user", content=content.text, at=item.at))
    return lines


def _truth(tree: Tree) -> bool | None:
    """Return a boolean, also if it is a word such as `yes`; None for another value."""
    word = tree.text.strip().lower() if isinstance(tree, Scalar) else ""
    return {"true": True, "false": False}.get(ALONE.get(word, word))


class _ExpectationReader:
    """Read the expected result of an example."""

    def __init__(self, detector: Detector, lines: tuple[Line, ...], labels: set[str], reader: Reader) -> None:
        self._watched = [index for index, line in enumerate(lines) if watches(detector, line.role)]
        self._lines = lines
        self._labels = labels
        self._reader = reader
        self._measures = [measure.name for measure in detector.measures]
        self._values: Values = {}
        self._detected = True
        self._label: str | None = None

    def example(self, tree: Mapping, name: str, expected: Tree | None) -> Example:
        for index, (key, value) in enumerate(pairs_of(expected)):
            if index == 0 and (truth := _truth(value)) is not None:
                self._detected = truth  # a boolean first, under any key, is the expected result
            else:
                self._take(key.text, value)
        used = {name: tuple(dropwhile(lambda value: value is None, each)) for name, each in self._values.items()}
        measured = {name: values for name, values in used.items() if values}
        seen, label = self._detected, self._label if self._detected else None
        return Example(name=name, messages=self._lines, detected=seen, label=label, measured=measured, at=tree.at)

    def _take(self, key: str, value: Tree) -> None:
        if (truth := _truth(value)) is not None and _SEEN.search(key):
            self._detected = truth
        elif isinstance(value, Scalar) and _LABEL.search(key) and id_of(value.text) in self._labels:
            self._label = id_of(value.text)
        elif self._read_measures(value):
            self._place(value, -2 if re.match(r"previous|before|last_", key) else -1)
        elif items_of(value) and all(self._read_measures(item) for item in items_of(value)):
            for item in items_of(value):
                self._at_index(item)
        elif not (key.endswith("_change") and number_of(value) is not None and self._values):
            pass_over(self._reader, key, value)

    def _read_measures(self, tree: Tree) -> MappingType[str, float]:
        """Return the values of measures in a mapping."""
        numbers = {key.text: number_of(value) for key, value in pairs_of(tree)}
        return {name: number for name in self._measures if (number := numbers.get(name)) is not None}

    def _at_index(self, tree: Tree) -> None:
        indexes = {key.text: number_of(value) for key, value in pairs_of(tree) if key.text in _PLACE}
        index = next((indexes[key] for key in _PLACE if key in indexes), None)
        if index is not None and int(index) in self._watched:
            self._place(tree, self._watched.index(int(index)) - len(self._watched))

    def _place(self, tree: Tree, place: int) -> None:
        """Read values at a message, counted from the last watched one (-1)."""
        for name, number in self._read_measures(tree).items():
            if -place <= len(self._watched):
                self._values.setdefault(name, [None] * len(self._watched))[place] = number
        for key, value in pairs_of(tree):
            if key.text not in self._measures and key.text not in _PLACE:
                pass_over(self._reader, key.text, value)

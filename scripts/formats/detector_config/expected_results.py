"""Read the examples of the consciousness format: messages, and what a detector finds in them."""

import re
from collections.abc import Mapping

from scripts.detectors.judge import watches
from scripts.formats.detector_config.parts import id_of, number_of, pass_over
from scripts.formats.words import ALONE
from scripts.model.detectors import Example, Line
from scripts.model.script import Detector
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping as MappingTree
from scripts.yaml.parser import Scalar, Tree
from scripts.yaml.parser import Sequence as SequenceTree

_ASSISTANTS = {"assistant", "ai", "bot", "counselor", "therapist", "consultant", "咨询师", "助手"}
_SEEN = re.compile(r"(^|_)(detected|triggered|found|present)$|^(is|has)_")
_LABEL = re.compile(r"(^|_)(pattern|type|label|category|kind)$")
_PLACE = ("message_index", "index")
_SINGLE = ("text", "message", "content", "user_message", "user_input", "conversation", "dialogue", "history")
Values = dict[str, list[float | None]]


def example(tree: Tree, detector: Detector, labels: list[str], reader: Reader) -> Example | None:
    """Read an example; None if it has no messages."""
    if not isinstance(tree, MappingTree):
        return None
    source = tree.get("input") or tree
    messages = source.get("messages") if isinstance(source, MappingTree) else source
    alone = (
        next((source.get(key) for key in _SINGLE if source.get(key)), None) if isinstance(source, MappingTree) else None
    )
    lines = tuple(_lines(messages or alone))
    if not lines:
        reader.add("REQUIRED_FIELD_MISSING", "the example has no messages", tree.at, "Add `input: {messages: […]}`.")
        return None
    named = tree.get("description") or tree.get("name")
    expected = tree.get("expected_output") or tree.get("expected") or tree.get("output")
    known = {id_of(label) for label in labels} | {rule.label for rule in detector.rules}
    return _Expected(detector, lines, known, reader).example(
        tree, named.text if isinstance(named, Scalar) else "", expected
    )


def _lines(tree: Tree | None) -> list[Line]:
    if isinstance(tree, Scalar):
        return [Line(content=tree.text, at=tree.at)]
    lines = []
    for item in tree.items if isinstance(tree, SequenceTree) else ():
        role = item.get("role") if isinstance(item, MappingTree) else None
        content = (item.get("content") or item.get("text")) if isinstance(item, MappingTree) else item
        if isinstance(content, Scalar):
            theirs = isinstance(role, Scalar) and role.text.casefold() in _ASSISTANTS
            lines.append(Line(role="assistant" if theirs else "user", content=content.text, at=item.at))
    return lines


def _truth(tree: Tree) -> bool | None:
    """Return a boolean, also if it is a word such as `yes`; None for another value."""
    word = tree.text.strip().lower() if isinstance(tree, Scalar) else ""
    return {"true": True, "false": False}.get(ALONE.get(word, word))


class _Expected:
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

    def example(self, tree: MappingTree, name: str, expected: Tree | None) -> Example:
        for index, (key, value) in enumerate(expected.pairs if isinstance(expected, MappingTree) else ()):
            if index == 0 and (truth := _truth(value)) is not None:
                self._detected = truth  # a boolean first, under any key, is the expected result
            else:
                self._take(key.text, value)
        used = {name: _from_first(values) for name, values in self._values.items()}
        return Example(
            name=name,
            messages=self._lines,
            detected=self._detected,
            label=self._label if self._detected else None,
            measured={name: values for name, values in used.items() if values},
            at=tree.at,
        )

    def _take(self, key: str, value: Tree) -> None:
        if (truth := _truth(value)) is not None and _SEEN.search(key):
            self._detected = truth
        elif isinstance(value, Scalar) and _LABEL.search(key) and id_of(value.text) in self._labels:
            self._label = id_of(value.text)
        elif isinstance(value, MappingTree) and self._measured(value):
            self._place(value, -2 if re.match(r"previous|before|last_", key) else -1)
        elif isinstance(value, SequenceTree) and value.items and self._is_trajectory(value):
            for item in value.items:
                self._at_index(item)
        elif not (key.endswith("_change") and number_of(value) is not None and self._values):
            pass_over(self._reader, key, value)

    def _measured(self, tree: MappingTree) -> Mapping[str, float]:
        numbers = {name: number_of(tree.get(name)) for name in self._measures}
        return {name: number for name, number in numbers.items() if number is not None}

    def _is_trajectory(self, tree: SequenceTree) -> bool:
        return all(isinstance(item, MappingTree) and self._measured(item) for item in tree.items)

    def _at_index(self, tree: Tree) -> None:
        if not isinstance(tree, MappingTree):
            return
        index = next((number_of(tree.get(key)) for key in _PLACE if tree.get(key) is not None), None)
        if index is not None and int(index) in self._watched:
            self._place(tree, self._watched.index(int(index)) - len(self._watched))

    def _place(self, tree: MappingTree, place: int) -> None:
        """Read values at a message, counted from the last watched one (-1)."""
        for name, number in self._measured(tree).items():
            if -place <= len(self._watched):
                self._values.setdefault(name, [None] * len(self._watched))[place] = number
        for key, value in tree.pairs:
            if key.text not in self._measures and key.text not in _PLACE:
                pass_over(self._reader, key.text, value)


def _from_first(values: list[float | None]) -> tuple[float | None, ...]:
    first = next((index for index, value in enumerate(values) if value is not None), len(values))
    return tuple(values[first:])

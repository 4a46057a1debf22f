"""Ids of a stage-form script as words, as the native form has them: a goal's name with spaces becomes its title."""

import itertools
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from scripts.actions import Call, Form, Goto, OnFail, Onward, Speakers, Step
from scripts.dialects.stage_names import word_id
from scripts.model import After, FormSheet, Interrupt, Phase, Role, Script, Skill, Topic
from scripts.nodes import Location

_TITLED = Script | Phase | Topic | Skill
_CALLED = Role | FormSheet | Interrupt | Step
_REFERENCES: Mapping[type[Struct], tuple[str, ...]] = {Call: ("skill",), Form: ("sheet",), Speakers: ("ai", "human")}


class Renamed(Struct, frozen=True):
    """An id that is a word now, of a node that has no title to keep its name."""

    old: str
    new: str
    at: Location

    @property
    def message(self) -> str:
        """What an author should hear of it."""
        return f"`{self.old}` is no word; it is called `{self.new}` here"

    @property
    def comment(self) -> str:
        """The same as it stands in the converted script."""
        return f"# Not carried over: the name `{self.old}`; it is called `{self.new}` here."


def with_word_ids(script: Script) -> tuple[Script, list[Renamed]]:
    """The script with a word for each id, and which names that leaves nowhere; other forms are as they were."""
    if script.form != "stage":
        return script, []
    renaming = _Renaming(script)
    return cast(Script, renaming.node(script, "")), renaming.found


class _Renaming:
    def __init__(self, script: Script) -> None:
        self.found: list[Renamed] = []
        self._file = script.at.file
        self._phases = _words([phase.id for phase in script.phases])
        self._topics = {phase.id: _words([topic.id for topic in phase.topics]) for phase in script.phases}

    def node(self, node: Any, phase: str) -> Any:
        match node:
            case Struct():
                return self._struct(node, node.id if isinstance(node, Phase) else phase)
            case tuple():
                return tuple(self.node(each, phase) for each in node)
            case _:
                return node

    def _struct(self, node: Struct, phase: str) -> Struct:
        changed = {
            name: self.node(getattr(node, name), phase)
            for name in node.__struct_fields__
            if name not in {"at", "marks", "globals", "strings"}
        }
        if isinstance(node, _TITLED | _CALLED):
            changed["id"] = self._id(node, phase)
            if changed["id"] != node.id and isinstance(node, _TITLED):
                changed["title"] = node.title or node.id
            elif changed["id"] != node.id and node.at.file == self._file:
                self.found.append(Renamed(node.id, str(changed["id"]), node.at))
        if isinstance(node, Step) and node.role:
            changed["role"] = word_id(node.role)
        for name in _REFERENCES.get(type(node), ()):
            if getattr(node, name):
                changed[name] = word_id(getattr(node, name))
        if isinstance(node, Goto | OnFail | Onward | After) and node.target:
            changed["target"] = self._target(node.target, phase)
        return msgspec.structs.replace(node, **changed)

    def _id(self, node: Any, phase: str) -> str:
        if isinstance(node, Phase):
            return self._phases[node.id]
        if isinstance(node, Topic):
            return self._topics[phase][node.id]
        return word_id(node.id) if node.id else ""

    def _target(self, target: str, phase: str) -> str:
        first, slash, second = target.partition("/")
        if slash:
            return f"{self._phases.get(first, first)}/{self._topics.get(first, {}).get(second, second)}"
        return self._topics.get(phase, {}).get(target) or self._phases.get(target, target)


def _words(names: list[str]) -> dict[str, str]:
    """A word for each name, no two the same."""
    found: dict[str, str] = {}
    taken = {name for name in names if word_id(name) == name}
    for name in names:
        word = word_id(name)
        if word != name:
            base, numbers = word, itertools.count(2)
            while word in taken:
                word = f"{base}_{next(numbers)}"
        taken.add(word)
        found[name] = word
    return found

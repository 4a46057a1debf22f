"""Where a text names variables, phases, topics, actions, skills and the like: declarations and references."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from scripts.editing.source_names import SourceName, names_in_expression, names_in_text
from scripts.editing.text_parts import TEXTS_MAX, Part, PartPath, parts_of
from scripts.model.languages import LANGUAGE_KEY, MAIN
from scripts.model.script import DETECTORS, INTERRUPTS, Path, TopicIds, resolve_target

NameKind: TypeAlias = Literal[
    "phase", "topic", "action", "skill", "interrupt", "detector", "role", "form", "tool", "experiment", "variable"
]
_DECLARED = frozenset(get_args(NameKind)) - {"topic", "action", "variable"}  # each in a list at the top, `skills`
_GROUPS: Mapping[str, str] = {"skill": "", "interrupt": INTERRUPTS, "detector": DETECTORS}
REFERRING: Mapping[str, NameKind] = {
    "call": "skill",
    "tool": "tool",
    "tools": "tool",
    "form": "form",
    "role": "role",
    "ai": "role",
    "human": "role",
    "experiment": "experiment",
    "detector": "detector",
}
"""Keys whose value names something, and what."""
_EXPRESSIONS = frozenset({"if", "when", "unless", "computed", "foreach", "each", "repeat", "validate"})
_DATA = frozenset({"set", "add", "with", "data", "metadata", "attributes", "value", "filters", "example", "default"})
_LINE = re.compile(
    r"(?:(?P<group>skill|interrupt|detector|form):)?(?P<ids>[^.:]+)(?:\.(?:output\.(?P<variable>[^.]+))?.*)?", re.DOTALL
)
_VARIABLES_OF_CASES = frozenset({"variables", "session", "phase", "topic", "global"})  # the latter are scopes
_ACTION_LISTS = frozenset({"actions", "do", "then", "else", "on_budget"})


class Name(Struct, frozen=True):
    """A name with the ids that lead to it, from the outside in, as in a saved state; those of most have one part."""

    kind: NameKind
    path: Path

    @property
    def id(self) -> str:
        """The name itself, without those around it."""
        return self.path[-1]


class Occurrence(Struct, frozen=True):
    """A place at which a text names something, in characters of the text."""

    name: Name
    start: int
    end: int
    is_declaration: bool = False
    is_global: bool = False  # declares a variable of global scope


def name_of(kind: NameKind, id: str) -> Name:
    """Return the name of something that is in no other part of the script."""
    return Name(kind, (_GROUPS[kind], id) if kind in _GROUPS else (id,))


def topics_in(text: str) -> TopicIds:
    """Return the ids of the phases and topics that the text of a script declares."""
    found: dict[str, dict[str, None]] = {}
    for each in occurrences(text, ()):
        if each.is_declaration and each.name.kind in {"phase", "topic"}:
            topics = found.setdefault(each.name.path[0], {})
            topics |= {each.name.id: None} if each.name.kind == "topic" else {}
    return found or {MAIN: {MAIN: None}}


def occurrences_in(text: str, topics: TopicIds) -> tuple[Occurrence, ...]:
    """Return all names in a text with `cuebook: 1`, a string table or cases; `topics` are those of its script."""
    return occurrences(text, tuple((phase, tuple(inner)) for phase, inner in topics.items()))


@lru_cache(maxsize=2 * TEXTS_MAX)
def occurrences(text: str, topics: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[Occurrence, ...]:
    """Return all names in a text, in its order."""
    parts = parts_of(text)
    top = {each.path[0] for each in parts if each.kind == "key" and len(each.path) == 1}
    if not top & {LANGUAGE_KEY, "strings", "cases"}:  # files of older formats are read in other ways
        return ()
    found = _Finder(text, parts, dict(topics)).all()
    return tuple(sorted(set(found), key=lambda each: (each.start, each.end)))


class _Finder:
    """Finds the names in the parts of a text."""

    def __init__(self, text: str, parts: tuple[Part, ...], topics: TopicIds) -> None:
        self._text = text
        self._parts = parts
        self._topics = topics
        self._values = {each.path: each.text for each in parts if each.kind == "scalar"}
        self._keys = {each.path for each in parts if each.kind == "key"}

    def all(self) -> Iterator[Occurrence]:
        for part in self._parts:
            keys = [each for each in part.path if isinstance(each, str)]
            if not keys or part.kind in {"list", "mapping"} or (keys[0] == "tools" and len(part.path) > 3):
                continue  # a tool reads its parameters, not variables
            is_data = any(each in _DATA for each in keys[:-1])
            if part.kind == "key":
                yield from self._key(part, keys, is_data=is_data)
                continue
            if keys[0] != "migrations" and not is_data:
                yield from self._value(part, keys)
            yield from self._source(part, keys[-1], keys[-2:-1])

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _key(self, part: Part, keys: list[str], *, is_data: bool) -> Iterator[Occurrence]:
        if keys[:-1] == ["lines"]:
            yield from self._line(part)
        elif len(keys) > 1 and self._is_variable(part, keys[0], keys[-2], is_data=is_data):
            yield from self._whole(part, name_of("variable", part.text))

    def _is_variable(self, part: Part, top: str, around: str, *, is_data: bool) -> bool:
        """Return whether a key in the mapping that is the value of the key `around` is the name of a variable."""
        holder = part.path[:-2]
        if top == "cases":
            return around in _VARIABLES_OF_CASES
        if around == "with":
            return (*holder, "call") in self._keys
        if around in {"set", "add"}:
            return self._is_action(holder)
        return around == "into" and not is_data and not self._is_output(part.path[:-1])

    def _is_output(self, path: PartPath) -> bool:
        """Return whether a mapping under `into` describes a variable, and is not one of names."""
        return bool({(*path, "var"), (*path, "add_to"), (*path, "set")} & self._keys)

    def _line(self, part: Part) -> Iterator[Occurrence]:
        """Find the names in the key of a line of a string table, such as `phase/topic/action.output.name.invalid`."""
        found = _LINE.fullmatch(part.text)
        start = self._text.find(part.text, part.start, part.end)
        if found is None or start < 0:
            return
        group = found["group"]
        kinds: tuple[NameKind, ...] = ("phase", "topic", "action")
        if group == "form":
            kinds = ("form", "variable")
        elif group:
            kinds = (group, "action")  # type: ignore[assignment]  # of _GROUPS
        path: Path = (_GROUPS[group],) if group in _GROUPS else ()
        at = start + found.start("ids")
        for kind, id in zip(kinds, found["ids"].split("/"), strict=False):
            path = (*path, id)
            yield Occurrence(Name(kind, (id,) if kind == "variable" else path), at, at + len(id))
            at += len(id) + 1
        if found["variable"]:
            name = name_of("variable", found["variable"])
            yield Occurrence(name, start + found.start("variable"), start + found.end("variable"))

    # -- values -------------------------------------------------------------------------------------------------------

    def _value(self, part: Part, keys: list[str]) -> Iterator[Occurrence]:
        path, key = part.path, keys[-1]
        section = str(path[0]).removesuffix("s")
        if section in _DECLARED and len(path) == 3 and key == section:
            yield from self._whole(part, name_of(section, part.text), is_declaration=True)  # type: ignore[arg-type]
        elif key == "topic" and len(path) == 5 and path[2] == "topics":
            yield from self._whole(part, Name("topic", self._home(path)), is_declaration=True)
        elif key == "id" and self._is_action(path[:-1]) and (home := self._home(path)):
            yield from self._whole(part, Name("action", (*home, part.text)), is_declaration=True)
        elif key in {"var", "add_to", "set", "returns"} or (key == "field" and path[0] == "forms" and len(path) == 5):
            if "fields" not in keys or key != "var":  # a field of a record is no variable
                yield from self._variable(part, keys)
        elif key == "into" or (len(keys) > 1 and keys[-2] == "into" and (*path[:-2], "call") in self._keys):
            yield from self._variable(part, keys)
        elif key in REFERRING and (key not in {"ai", "human"} or keys[-2:-1] == ["scene"]) and keys[0] != "cases":
            yield from self._whole(part, name_of(REFERRING[key], part.text))
        else:
            yield from self._target_value(part, key)

    def _variable(self, part: Part, keys: list[str]) -> Iterator[Occurrence]:
        is_declaration = keys[0] in {"declare", "globals"} or bool({"declare", "params", "forms"} & {*keys[:-1]})
        found = self._whole(part, name_of("variable", part.text), is_declaration=is_declaration)
        for each in found:
            yield Occurrence(each.name, each.start, each.end, is_declaration, keys[0] == "globals")

    def _target_value(self, part: Part, key: str) -> Iterator[Occurrence]:
        target = part.text.removeprefix("goto ").strip() if part.text.startswith("goto ") else ""
        is_place = key == "at" and "turns" in part.path
        if key == "goto" or is_place or (key == "on_message" and part.text not in {"hold", "resume"}):
            target = part.text
        start = self._text.rfind(target, part.start, part.end) if target else -1
        if start >= 0:
            yield from self._target(target, start, self._home(part.path))
        if is_place and target.count("/") == 2 and start >= 0:
            path = tuple(target.split("/"))
            yield Occurrence(Name("action", path), start + len(target) - len(path[2]), start + len(target))

    def _target(self, target: str, start: int, home: Path) -> Iterator[Occurrence]:
        """Find the phase and the topic in a target, as it is seen from a place of the script."""
        first, slash, second = target.partition("/")
        second = second.partition("/")[0]
        phase = home[0] if home and home[0] in self._topics else self._only_phase_with(target)
        found = (first, second) if slash else resolve_target(self._topics, target, phase)
        if found is None:
            return
        is_topic = not slash and target in self._topics.get(phase, ())
        if not is_topic:
            yield Occurrence(Name("phase", (found[0],)), start, start + len(first))
        if is_topic or slash:
            begin = start + (len(first) + 1 if slash else 0)
            yield Occurrence(Name("topic", found), begin, begin + len(found[1]))

    def _only_phase_with(self, topic: str) -> str:
        """Return the one phase that has a topic, as a skill may be called from any; an empty text for several."""
        phases = [phase for phase, topics in self._topics.items() if topic in topics]
        return phases[0] if len(phases) == 1 else ""

    def _source(self, part: Part, key: str, around: list[str]) -> Iterator[Occurrence]:
        written = self._text[part.start : part.end]
        is_marked = part.text.startswith("=") and not part.text.startswith("==")
        found: Iterator[SourceName] = iter(())
        if is_marked or key in _EXPRESSIONS or (key == "until" and around == ["repeat"]):
            found = names_in_expression(written)
        elif "{{" in written or "{%" in written:
            found = names_in_text(written)
        for kind, text, start, end in found:
            if kind == "variable":
                yield Occurrence(name_of("variable", text), part.start + start, part.start + end)
            else:
                yield from self._target(text, part.start + start, self._home(part.path))

    # -- places -------------------------------------------------------------------------------------------------------

    def _whole(self, part: Part, name: Name, *, is_declaration: bool = False) -> Iterator[Occurrence]:
        """Yield a part that is a name, unless it is written with escapes or over several lines."""
        start = self._text.find(part.text, part.start, part.end) if part.text else -1
        if start >= 0:
            yield Occurrence(name, start, start + len(part.text), is_declaration)

    def _is_action(self, path: PartPath) -> bool:
        """Return whether a mapping is an item of a list of actions."""
        is_item = len(path) > 1 and isinstance(path[-1], int)
        return is_item and (path[-2] in _ACTION_LISTS or path[-3:-2] == ("arms",))

    def _home(self, path: PartPath) -> Path:
        """Return the path of the phase, topic, skill, interrupt or detector that a part is in."""
        section = str(path[0]).removesuffix("s")
        if path[0] == "actions":
            return (MAIN, MAIN)
        inner = [self._values.get((*path[:2], section), "")]
        if section == "phase" and len(path) > 3 and path[2] == "topics":
            inner.append(self._values.get((*path[:4], "topic"), ""))
        if section not in {"phase", *_GROUPS} or not all(inner):
            return ()
        return (_GROUPS[section], *inner) if section in _GROUPS else tuple(inner)

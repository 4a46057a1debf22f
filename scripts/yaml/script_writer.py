"""Write a script in the native format, for people to read and edit.

The types of the model are the grammar, as in `scripts.yaml.grammar`: a key is written if its value is not the default,
so `read(native_yaml(script))` is the simplified script, except for its locations and `form`.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast, get_args

import msgspec
from msgspec.structs import replace

from scripts.model import actions, base
from scripts.model.actions import Exit
from scripts.model.detectors import Example, Line
from scripts.model.experiments import Arm
from scripts.model.languages import LANGUAGE_KEY, MAIN, computable, key_in, takes_literals, takes_placeholders
from scripts.model.moments import Clock, DateValue, Duration, Moment
from scripts.model.script import (
    LABELLED,
    SHARED,
    After,
    Detector,
    FormDefinition,
    Interrupt,
    Phase,
    Role,
    Script,
    Skill,
    Topic,
    Trigger,
)
from scripts.model.tools import HttpRequest
from scripts.model.variables import Assignment, Declaration, Output, OutputItem, Validation
from scripts.yaml.branches import branches
from scripts.yaml.given_values import assigned_value, escape, given_text, simplest, with_expressions
from scripts.yaml.writer import Item, Items, Layout, Record, Source, document, needs_quotes, plain

Notes = Mapping[base.Location, Sequence[str]]

_NOT_WRITTEN = {"at", "marks", "labels", "globals", "strings", "phrases", "form"}
_FIRST = ("id", "title", "version", "when")  # directly after the key that names the node
_ORDER: Mapping[type[base.Node], tuple[str, ...]] = {
    Declaration: ("var", "define", "type", "choices", "value", "pii"),
    Assignment: ("set", "value", "when"),
    Example: ("name", "messages", "detected", "label", "score", "severity", "measured"),
    actions.Choose: ("question", "id", "when", "tone", "role", "choose", "choices"),
}
_GIVEN = frozenset({"given", "body"})  # fields whose values are written with `=` before expressions


def native_yaml(script: Script, notes: Notes | None = None) -> str:
    """Return the YAML of a script. `notes` are comment lines (with their `#`) by location of the node."""
    return _Writer(notes or {}).script(simplify(script))


def noted_places(script: Script) -> list[base.Location]:
    """Return the locations of nodes that can have comments above, in file order; the script's is first."""
    found = {node.at for node in _items_below(script) if node.at.file == script.at.file} - {base.NOWHERE}
    return [script.at, *sorted(found - {script.at}, key=lambda at: (at.line, at.column))]


def simplify(node: Any) -> Any:
    """Return a node in which values are spelled in the way in which `native_yaml` writes them.

    What the script does is the same: texts have double quotes.
    """
    part = base.rebuild(node, simplify)
    if not isinstance(part, base.Node):
        return part
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(part):
        if field.type == base.Assigned:
            values[field.name] = simplest(getattr(part, field.name))
        elif field.type == Mapping[str, base.Assigned]:
            values[field.name] = {name: simplest(each) for name, each in getattr(part, field.name).items()}
    return replace(part, **values) if values else part


_SPACED = Phase | Topic | Skill | Interrupt | Detector | FormDefinition | Role
FILES_OF_DETECTORS = {"consciousness", "detectors"}  # files that define only detectors


def _items_below(node: base.Node) -> Iterator[base.Node]:
    for name in node.__struct_fields__:
        value = getattr(node, name)
        if name in _NOT_WRITTEN:
            continue
        if isinstance(value, base.Node):
            yield from _items_below(value)
        lists = [value] if isinstance(value, tuple) else value.values() if isinstance(value, dict) else ()
        for part in itertools.chain.from_iterable(each for each in lists if isinstance(each, tuple)):
            if isinstance(part, base.Node):
                yield part
                yield from _items_below(part)


class _Writer:
    """Lays out the nodes of one script; writes each note once, above the first node at its location."""

    def __init__(self, notes: Notes) -> None:
        self._notes = dict(notes)

    def script(self, script: Script) -> str:
        topic = self._only_topic(script)
        pairs = self.pairs(script if topic is None else replace(script, phases=()))
        if topic is not None:
            actions = ("actions", self.tuple(topic.actions))
            pairs = tuple(actions if pair[0] == "phases" else pair for pair in pairs)
        if script.form in FILES_OF_DETECTORS:
            pairs = tuple(pair for pair in pairs if pair[0] in {"use", "detectors"})
        apart = {"declare", "phases", "actions", "on_budget", *SHARED}
        parts = [Record(((LANGUAGE_KEY, 1), *(pair for pair in pairs if pair[0] not in apart)))]
        parts += [Record((pair,), flow=False) for pair in pairs if pair[0] in apart]
        return document(*parts)

    def _only_topic(self, script: Script) -> Topic | None:
        """Return the topic of a script that can be written as a list of actions."""
        if len(script.phases) != 1 or len(script.phases[0].topics) != 1:
            return None
        phase = script.phases[0]
        topic = phase.topics[0]
        bare = Phase(id=MAIN, topics=(Topic(id=MAIN, actions=topic.actions),))
        is_bare = base.without_places(phase) == base.without_places(bare)
        return topic if topic.actions and is_bare and not {phase.at, topic.at} & self._notes.keys() else None

    def pairs(self, node: base.Node) -> tuple[tuple[str, Layout], ...]:
        """Return the keys of a node with their values, without defaults."""
        found: list[tuple[str, Layout]] = []
        for field in _in_order(type(node)):
            value = getattr(node, field.name)
            if isinstance(node, Script) and field.name in SHARED:
                value = tuple(each for each in value if each.at.file == node.at.file)  # not those of include files
            is_verb = isinstance(node, actions.Choose) and field.name == "question"
            if field.required or is_verb or not _is_default(value, field):
                found.append((key_in("1", type(node), field), self.field(node, field, value)))
        return tuple(found)

    def branches(self, action: actions.If) -> tuple[tuple[str, Layout], ...]:
        """Return the keys of an `if`, with the branches that its `else` contains as `elif`."""
        further, last = branches(action)
        if not further:
            return self.pairs(action)
        own = self.pairs(replace(action, otherwise=()))
        items = []
        for branch in further:
            notes = tuple(self._notes.pop(branch.at, ()))
            bare = replace(branch, id="", otherwise=())
            items.append(Item(Record(self.pairs(bare), flow=False), notes))
        otherwise = (("else", self.tuple(last.otherwise)),) if last.otherwise else ()
        return (*own, ("elif", Items(tuple(items))), *otherwise)

    def field(self, node: base.Node, field: msgspec.structs.FieldInfo, value: Any) -> Layout:
        if field.name in _GIVEN and isinstance(node, actions.CallTool | HttpRequest):
            return _layout_of_given(value)
        if field.type == base.Results and list(value.values()) == [""]:
            return str(next(iter(value)))
        if field.type == base.Assigned:
            return plain(assigned_value(value))
        if field.type == Mapping[str, base.Assigned]:
            return _assignments(value)
        if field.encode_name == "choices" and isinstance(node, LABELLED) and node.labels:
            return Items(tuple(Item(_labelled_choice(each, node.labels)) for each in value), flow=False)
        is_computable = computable(get_args(field.type))
        if is_computable and isinstance(value, base.Expression):
            return plain(assigned_value(value))
        if takes_placeholders(type(node), field):
            return plain(with_expressions(dict(value)))
        if takes_literals(field) or is_computable:
            return plain([escape(each) for each in value] if isinstance(value, tuple) else escape(value))
        if field.name == "outputs" and len(value) == 1 and value[0].at not in self._notes:
            return self.layout(value[0])
        return self.layout(value)

    def layout(self, value: Any) -> Layout:
        match value:
            case Trigger(keywords=words, match="short", intent="", detector=""):
                return self.tuple(words)
            case (
                base.Template(source=text)
                | base.Reference(id=text)
                | base.Variable(name=text)
                | Arm(id=text, weight=1, define="")
                | Trigger(intent=text, keywords=(), detector="")
                | Duration(text=text)
                | Clock(text=text)
                | DateValue(text=text)
                | Line(content=text, role="user")
                | actions.Ending(reason=text, outcome="")
                | actions.IfKnown(policy="ask" | "skip" as text)
                | actions.ModelTool(tool=text, into=None)
                | actions.Media(image=base.Template(source=text), url=None, caption=None)
            ):
                return text
            case Exit(said=base.Template(source=text)) if value.has_only_words:
                return text
            case Moment(after=Duration(text=text), clock=None, days=(), until=None) if type(value) is Moment:
                return text
            case base.Expression(source=text) | Validation(unless=base.Expression(source=text), say=None):
                return Source(text)
            case actions.Acknowledgement():
                return True if value.text is None else value.text.source
            case actions.IfKnown():
                return Record((("confirm", cast(base.Template, value.confirm).source),))
            case (
                actions.Policy(say=None, after=1)
                | actions.OnFail(say=None, actions=())
                | actions.OnToolFailure(say=None, actions=())
            ):
                return self.layout(value.then)
            case actions.Into(variables=variables):
                whole = next((name for name, part in variables.items() if not part), None)
                return whole if whole is not None else Record(tuple(variables.items()))
            case actions.AfterRounds() | After() | actions.Onward() | actions.FailureExit():
                return f"goto {value.target}" if value.policy == "goto" else value.policy
            case actions.Loop():
                return f"{value.items.source} as {value.name}"
            case actions.ChoiceItem():
                return self.choice(value)
            case actions.If():
                return Record(self.branches(value), flow=False)
            case Output() if len(pairs := self.pairs(value)) == 1:
                return pairs[0][1]
            case base.Node():
                return Record(self.pairs(value), flow=not isinstance(value, _SPACED | actions.Step))
            case tuple():
                return self.tuple(value)
            case dict():
                return self.mapping(value)
            case _:
                return plain(value)

    def mapping(self, value: dict[str, Any]) -> Layout:
        """Return the layout of values by name, which are all of one kind."""
        lists = [part for part in value.values() if isinstance(part, tuple)]
        has_nodes = any(isinstance(item, base.Node) for item in itertools.chain.from_iterable(lists))
        if has_nodes or any(isinstance(part, base.Reference | base.Template) for part in value.values()):
            return Record(tuple((name, self.layout(part)) for name, part in value.items()), flow=not has_nodes)
        return plain({name: list(part) if isinstance(part, tuple) else part for name, part in value.items()})

    def tuple(self, value: tuple[Any, ...]) -> Layout:
        match value:
            case (base.Template() | Validation(say=None) | Exit() as only,):
                return self.layout(only)
        items = []
        for part in value:
            notes = tuple(self._notes.pop(part.at, ())) if isinstance(part, base.Node) else ()
            items.append(Item(self.layout(part), notes))
        is_one = len(items) == 1 and isinstance(value[0], Declaration | OutputItem)
        spaced = any(isinstance(part, _SPACED) for part in value)
        return Items(tuple(items), flow=is_one or all(isinstance(part, str | Arm) for part in value), spaced=spaced)

    def choice(self, choice: actions.ChoiceItem) -> Layout:
        pairs = self.pairs(choice)
        if len(pairs) > 2:
            return Record(pairs, flow=not choice.actions)
        if choice.key == choice.text.source:
            return choice.key
        return Record(((choice.key, choice.text.source),), flow=False)


def _labelled_choice(value: str, labels: Mapping[str, str]) -> Layout:
    return Record(((value, labels[value]),)) if value in labels else plain(escape(value))


def _layout_of_given(value: Any) -> Layout:
    """Lay out values in which `=` marks expressions."""
    if isinstance(value, dict):
        return Record(tuple((name, given_text(given)) for name, given in value.items()))
    return given_text(value)


def _assignments(expressions: Mapping[str, base.Expression]) -> Record:
    """Allow one line, unless brackets would force an expression into quotes."""
    values = {name: assigned_value(each) for name, each in expressions.items()}
    marked = [each for each in values.values() if isinstance(each, str) and each.startswith("=")]
    awkward = any(needs_quotes(each, in_flow=True) and not needs_quotes(each, in_flow=False) for each in marked)
    return Record(tuple((name, plain(each)) for name, each in values.items()), flow=not awkward)


def _in_order(kind: type[base.Node]) -> list[msgspec.structs.FieldInfo]:
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in _NOT_WRITTEN]
    verb = next((field.encode_name for field in fields if field.required), "")
    first = _ORDER.get(kind, (verb, *_FIRST, *(("tone", "role") if issubclass(kind, actions.Step) else ())))
    rank = {name: place for place, name in enumerate(first)}
    return sorted(fields, key=lambda field: rank.get(field.encode_name, len(rank)))


def _is_default(value: Any, field: msgspec.structs.FieldInfo) -> bool:
    if isinstance(value, actions.IfKnown):
        return value.policy == "ask"
    if isinstance(value, actions.OnFail):
        return value.say is None and not value.actions and value.then.policy == "default"
    if isinstance(value, actions.AfterRounds | After | actions.Onward):
        is_optional = isinstance(value, After) and field.default is None
        return value.policy in {"default", "resume", "continue"} and not is_optional
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return type(value) is type(default) and value == default

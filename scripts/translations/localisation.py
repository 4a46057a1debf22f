"""The lines of a script, which are all texts that users read, and the script in another language.

The id of a line consists of ids: ``phase/topic/action`` (or ``skill:ID/action``, ``interrupt:ID/action``,
``detector:ID/action``, ``on_budget/action``, ``form:ID/field``) and the key of the text, such as ``.say``,
``.choices.KEY`` or ``.output.NAME.invalid``. Several texts of one `say` differ only in their number.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scripts.model import actions
from scripts.model.actions import Action, OwnAction, with_arms
from scripts.model.base import Location, Node, Template
from scripts.model.script import (
    Detector,
    FormDefinition,
    FormField,
    Interrupt,
    Locale,
    Phase,
    Repair,
    Script,
    Skill,
    StringTable,
    Topic,
    declarations_of,
)
from scripts.model.variables import Declaration, Output, Records, Validation, by_name

Phrase: TypeAlias = Literal[
    "invalid", "range", "text", "number", "boolean", "yes", "no", "date", "time", "datetime", "timezone", "choice",
    "list", "record", "noted", "needed", "cancelled", "corrected", "which", "handed_over", "required", "missing",
    "unread", "multichoice", "table", "busy", "asleep",
]  # fmt: skip
"""The runtime's default texts: for invalid answers, by expected type, and for other situations."""

_CHINESE = re.compile("[\u4e00-\u9fff]")


class Line(Struct, frozen=True):
    """A text that users read. `id` is empty if it has no stable id."""

    id: str
    text: str
    at: Location
    owner: Location


Change: TypeAlias = Callable[[Line], str]
Declared: TypeAlias = Mapping[str, Declaration]
N = TypeVar("N", bound=Node)
_NONE: Declared = {}


def lines_of(script: Script) -> tuple[Line, ...]:
    """Return every line of a script with complete ids, in order; blank texts are not lines."""
    found: list[Line] = []

    def note(line: Line) -> str:
        found.append(line)
        return line.text

    _with_lines(script, note)
    return tuple(found)


def own_locale(script: Script) -> Locale:
    """Return the language of a script's own texts: `locale`, otherwise Chinese if any text is, otherwise English."""
    if script.locale is not None:
        return script.locale
    return "zh" if any(is_chinese(msgspec.json.encode(part).decode()) for part in _own_parts(script)) else "en"


def is_chinese(text: str) -> bool:
    """Return whether a text contains a Chinese character, as Japanese texts also do."""
    return _CHINESE.search(text) is not None


def _own_parts(script: Script) -> Iterator[object]:
    """Yield the parts that tell the language of a script.

    The phases of a technique only call it. A detector may look for words of several languages: what it says decides,
    otherwise its description, and its words only if it has no other text.
    """
    yield script.phases
    if script.form == "technique":
        yield script.skills
    if script.form in {"consciousness", "detectors"}:
        found = script.detectors
        said = [line.text for line in lines_of(script)]
        yield said or [text for each in found for text in (each.title, each.define) if text] or found


def language(locale: Locale) -> str:
    """Return the first part of a tag: ``pt`` of ``pt-BR`` and ``pt_BR``."""
    return locale.replace("_", "-").partition("-")[0].casefold()


def table_for(script: Script, locale: Locale) -> StringTable | None:
    """Return the string table for a language, or None if the script's own texts match it best.

    The tag is shortened from its end until a language matches (RFC 4647, 3.4): zh-Hant-TW, zh-Hant, zh.
    """
    tables = {table.locale.casefold(): table for table in reversed(script.strings)}
    tag = locale.casefold()
    while tag:
        if tag in tables:
            return tables[tag]
        if script.locale is not None and script.locale.casefold() == tag:
            return None
        tag = tag.rpartition("-")[0]
    return None


def localise(script: Script, table: StringTable) -> Script:
    """Return the script with the lines of a table; missing lines, ids and values stay unchanged."""

    def translate(line: Line) -> str:
        found = table.lines.get(line.id)
        return line.text if found is None or found.is_missing else found.text.source

    return replace(_with_lines(script, translate), locale=table.locale, phrases=table.phrases)


def _with_lines(script: Script, change: Change) -> Script:
    texts = _Texts(change)
    shared = by_name(script.globals)
    session = shared | by_name(script.declare)

    def topic(phase: Phase, topic: Topic) -> Topic:
        home, declared = f"{phase.id}/{topic.id}", session | by_name(phase.declare) | by_name(topic.declare)
        remind = texts.value(topic.remind, f"{home}.remind", topic.at)
        return replace(topic, remind=remind, actions=texts.actions(topic.actions, home, declared))

    def phase(phase: Phase) -> Phase:
        remind = texts.value(phase.remind, f"{phase.id}.remind", phase.at)
        return replace(phase, remind=remind, topics=tuple(topic(phase, each) for each in phase.topics))

    def skill(skill: Skill) -> Skill:
        declared = shared | by_name(declarations_of(skill))
        return replace(skill, actions=texts.actions(skill.actions, f"skill:{skill.id}", declared))

    def interrupt(interrupt: Interrupt) -> Interrupt:
        home = f"interrupt:{interrupt.id}" if "interrupt" in interrupt.marks else ""
        return replace(interrupt, actions=texts.actions(interrupt.actions, home, session))

    def detector(detector: Detector) -> Detector:
        home = f"detector:{detector.id}"
        acting = replace(detector, actions=texts.actions(detector.actions, home, session))
        return texts.node(acting, home, detector.at)

    return replace(
        script,
        remind=texts.value(script.remind, "remind", script.at),
        phases=tuple(map(phase, script.phases)),
        skills=tuple(map(skill, script.skills)),
        interrupts=tuple(map(interrupt, script.interrupts)),
        detectors=tuple(map(detector, script.detectors)),
        on_budget=texts.actions(script.on_budget, "on_budget", session),
        forms=tuple(map(texts.form, script.forms)),
        repairs=tuple(texts.node(each, f"repair:{each.kind}", each.at) for each in script.repairs),
    )


_TEXTS: Mapping[type[Node], Mapping[str, str]] = {
    actions.Say: {"texts": "say"},
    actions.AiSay: {"task": "ai_say"},
    actions.Ask: {"question": "ask", "invalid": "invalid"},
    actions.AiAsk: {"task": "ai_ask", "invalid": "invalid"},
    actions.Choose: {"question": "question", "invalid": "invalid"},
    actions.UserSay: {"text": "user_say"},
    actions.Show: {},
    actions.Chat: {"task": "chat"},
    actions.Form: {"invalid": "invalid"},
    actions.CallTool: {},
    actions.Media: {"caption": "caption"},
    actions.Acknowledgement: {"text": ""},
    actions.ChoiceItem: {"text": ""},
    actions.ListedChoices: {"text": ""},
    actions.IfKnown: {"confirm": ""},
    actions.OnFail: {"say": ""},
    actions.OnToolFailure: {"say": ""},
    actions.Policy: {"say": ""},
    actions.Reminder: {"say": ""},
    Validation: {"say": ""},
    Output: {"invalid": "invalid"},
    Records: {"fields": ""},
    FormDefinition: {"title": "title", "text": "text"},
    FormField: {"label": "label", "placeholder": "placeholder", "invalid": "invalid"},
    Detector: {"replace": "replace"},
    Repair: {"say": "say"},
}
"""The fields whose texts users read, with the ends of their ids. Users do not read the texts of other nodes."""
_PARTS: Mapping[str, str] = {
    "media": "",
    "outputs": "output",
    "choices": "choices",
    "validate": "validate",
    "on_fail": "on_fail.say",
    "if_known": "if_known",
    "acknowledge": "acknowledge",
    "remind": "remind",
    "on_blocked": "on_blocked",
    "on_off_topic": "on_off_topic",
}
"""The fields of these nodes with further nodes, in the order of their lines."""


@cache
def _keys(kind: type[Node]) -> Mapping[str, str]:
    """Return the fields of a node with texts, and with nodes that have texts."""
    names = kind.__struct_fields__
    if issubclass(kind, OwnAction):
        return {name: name for name in names}
    texts = _TEXTS.get(kind)
    return {} if texts is None else {**texts, **{name: key for name, key in _PARTS.items() if name in names}}


def _below(id: str, key: str) -> str:
    return f"{id}.{key}" if id and key else id


def _name(part: object, number: int) -> str:
    """Return the end of the id of an item of a list; texts of one `say` are numbered from 2."""
    match part:
        case Output() | Records():
            return part.variable
        case actions.ChoiceItem():
            return part.key
        case actions.ListedChoices():
            return part.loop.name
        case actions.Reminder():
            return part.text
        case _:
            return "" if isinstance(part, Template) and number == 1 else str(number)


class _Texts:
    """Replaces the texts of nodes, each under its id, which is empty if it would not be stable."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._seen: set[str] = set()

    def actions(self, listed: tuple[Action, ...], home: str, declared: Declared) -> tuple[Action, ...]:
        """Replace the texts of the actions of a topic or another part, and of the actions inside them."""
        return tuple(self._action(each, home, declared) for each in listed)

    def _action(self, action: Action, home: str, declared: Declared) -> Action:
        is_stable = home and "id" in action.marks  # a derived id only gives the position of the action
        changed = self.node(action, f"{home}/{action.id}" if is_stable else "", action.at, declared)
        return with_arms(changed, lambda inner: self.actions(inner, home, declared))

    def node(self, node: N, id: str, owner: Location, declared: Declared = _NONE) -> N:
        """Replace the texts of a node."""
        keys = _keys(type(node)).items()
        changed = {field: self.value(getattr(node, field), _below(id, key), owner, declared) for field, key in keys}
        match node:
            case Output(type=None, choices=(), get=name) if name in declared:
                changed["labels"] = self._labels(_below(id, "choices"), declared[name], node, owner)
            case Output() | FormField():
                changed["labels"] = self._labels(_below(id, "choices"), node, node, owner)
        return replace(node, **changed) if changed else node

    def value(self, value: Any, id: str, owner: Location, declared: Declared = _NONE) -> Any:
        """Replace the texts of a value of a node."""
        match value:
            case Template():
                return self._text(id, value, owner)
            case Node():
                return self.node(value, id, owner, declared)
            case tuple():
                ids = (_below(id, _name(each, number)) for number, each in enumerate(value, 1))
                return tuple(self.value(each, line, owner, declared) for line, each in zip(ids, value, strict=True))
            case _:
                return value

    def form(self, sheet: FormDefinition) -> FormDefinition:
        """Replace the texts of a form."""
        id = f"form:{sheet.id}"
        changed = self.node(sheet, id, sheet.at)
        return replace(changed, fields=tuple(self._field(each, id) for each in sheet.fields))

    def _field(self, field: FormField, home: str) -> FormField:
        id = f"{home}/{field.name}"
        changed = self.node(field, id, field.at)
        return replace(changed, columns=tuple(self._field(column, id) for column in field.columns))

    def _text(self, id: str, text: Template, owner: Location) -> Template:
        if not text.source.strip():
            return text
        id = "" if id in self._seen else id  # ids may contain dots
        self._seen |= {id} - {""}
        changed = self._change(Line(id, text.source, text.at, owner))
        return text if changed == text.source else Template(changed, text.at)

    def _labels(
        self, id: str, choosing: Declaration | Output | FormField, node: Output | FormField, owner: Location
    ) -> Mapping[str, str]:
        """Return the labels of choices whose text differs from the value."""
        at = node.mark("choices")
        texts = {value: Template(choosing.labels.get(value, value), at) for value in choosing.choices}
        labels = {value: self._text(_below(id, value), text, owner).source for value, text in texts.items()}
        return {value: label for value, label in labels.items() if label != value}

"""The lines of a script, which are all texts that users read, and the script in another language.

The id of a line consists of ids: ``phase/topic/action`` (or ``skill:ID/action``, ``interrupt:ID/action``,
``detector:ID/action``, ``on_budget/action``, ``form:ID/field``) and the key of the text, such as ``.say``,
``.choices.KEY`` or ``.output.NAME.invalid``. Several texts of one `say` differ only in their number.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scripts.model.actions import (
    Action,
    AiAsk,
    AiSay,
    Ask,
    Asking,
    CallTool,
    Chat,
    ChoiceItem,
    Choose,
    Form,
    ListedChoices,
    OwnAction,
    Question,
    Reminder,
    Say,
    Show,
    UserSay,
    policies,
    with_arms,
    with_side_arms,
)
from scripts.model.base import Location, Node, Template
from scripts.model.script import (
    Detector,
    FormDefinition,
    FormField,
    Interrupt,
    Locale,
    Phase,
    Script,
    Skill,
    StringTable,
    Topic,
    declared_in,
)
from scripts.model.variables import Assignment, Declaration, Output, OutputItem, Records, Validation, by_name

Phrase: TypeAlias = Literal[
    "invalid",
    "text",
    "number",
    "boolean",
    "yes",
    "no",
    "date",
    "time",
    "datetime",
    "timezone",
    "choice",
    "list",
    "record",
    "noted",
    "needed",
    "cancelled",
    "corrected",
    "which",
    "handed_over",
    "required",
    "missing",
    "unread",
    "multichoice",
    "table",
    "busy",
    "asleep",
]
"""The runtime's default texts: for invalid answers, by expected type, and for other situations."""


_CHINESE = re.compile("[\u4e00-\u9fff]")


class Line(Struct, frozen=True):
    """A text that users read. `id` is empty if it has no stable id."""

    id: str
    text: str
    at: Location
    owner: Location


Change: TypeAlias = Callable[[Line], str]
Declared: TypeAlias = dict[str, Declaration]


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
    return "zh" if _CHINESE.search(msgspec.json.encode(script.phases).decode()) else "en"


def language(locale: Locale) -> str:
    """Return the first part of a tag: ``pt`` of ``pt-BR``."""
    return locale.partition("-")[0].casefold()


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


def localised(script: Script, table: StringTable) -> Script:
    """Return the script with the lines of a table; missing lines, ids and values stay unchanged."""

    def translated(line: Line) -> str:
        found = table.lines.get(line.id)
        return line.text if found is None or found.is_missing else found.text.source

    return replace(_with_lines(script, translated), locale=table.locale, phrases=table.phrases)


def _with_lines(script: Script, change: Change) -> Script:
    texts = _Texts(change)
    shared = by_name(script.globals)
    session = shared | by_name(script.declare)

    def translated(home: str, declared: Declared, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        return _Walker(home, declared, texts).actions(actions)

    def topic(phase: Phase, topic: Topic) -> Topic:
        declared = session | by_name(phase.declare) | by_name(topic.declare)
        remind = texts.reminders(topic, f"{phase.id}/{topic.id}.remind")
        return replace(topic, remind=remind, actions=translated(f"{phase.id}/{topic.id}", declared, topic.actions))

    def phase(phase: Phase) -> Phase:
        remind = texts.reminders(phase, f"{phase.id}.remind")
        return replace(phase, remind=remind, topics=tuple(topic(phase, each) for each in phase.topics))

    def skill(skill: Skill) -> Skill:
        actions = translated(f"skill:{skill.id}", shared | by_name(declared_in(skill)), skill.actions)
        return replace(skill, actions=actions)

    def interrupt(interrupt: Interrupt) -> Interrupt:
        home = f"interrupt:{interrupt.id}" if "interrupt" in interrupt.marks else ""
        return replace(interrupt, actions=translated(home, session, interrupt.actions))

    def detector(detector: Detector) -> Detector:
        home = f"detector:{detector.id}"
        actions = translated(home, session, detector.actions)
        return replace(detector, actions=actions, **texts.changed(detector, home, "replace"))

    return replace(
        script,
        remind=texts.reminders(script, "remind"),
        phases=tuple(map(phase, script.phases)),
        skills=tuple(map(skill, script.skills)),
        interrupts=tuple(map(interrupt, script.interrupts)),
        detectors=tuple(map(detector, script.detectors)),
        on_budget=translated("on_budget", session, script.on_budget),
        forms=tuple(_with_form(sheet, texts) for sheet in script.forms),
        repairs=tuple(replace(each, **texts.changed(each, f"repair:{each.kind}", "say")) for each in script.repairs),
    )


class _Texts:
    """Replaces texts, each under its id."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._seen: set[str] = set()

    def text(self, id: str, text: Template, owner: Location) -> Template:
        """Return the replaced text; `id` is empty if it has no stable id."""
        if not text.source.strip():
            return text
        id = "" if id in self._seen else id  # ids may contain dots
        self._seen |= {id} - {""}
        changed = self._change(Line(id, text.source, text.at, owner))
        return text if changed == text.source else Template(changed, text.at)

    def maybe(self, id: str, text: Template | None, owner: Location) -> Template | None:
        """Replace a text that may be missing."""
        return None if text is None else self.text(id, text, owner)

    def changed(self, node: Node, id: str, *fields: str) -> dict[str, Template | None]:
        """Return the replaced texts in these fields of a node, whose ids are those of the node and the field."""
        return {field: self.maybe(f"{id}.{field}", getattr(node, field), node.at) for field in fields}

    def reminder(self, reminder: Reminder, id: str, owner: Location) -> Reminder:
        """Replace the text of a reminder, whose id is that of the action or node and its moment."""
        id = f"{id}.{reminder.text}" if id else ""
        return replace(reminder, say=self.maybe(id, reminder.say, owner))

    def validations(self, id: str, validate: tuple[Validation, ...], owner: Location) -> tuple[Validation, ...]:
        """Replace the texts of conditions, which are numbered."""
        ids = [f"{id}.validate.{number}" if id else "" for number in range(1, len(validate) + 1)]
        return tuple(
            replace(each, say=self.maybe(line, each.say, owner)) for line, each in zip(ids, validate, strict=True)
        )

    def reminders(self, node: Script | Phase | Topic, id: str) -> tuple[Reminder, ...]:
        """Replace the texts of the reminders of all questions of a node."""
        return tuple(self.reminder(each, id, node.at) for each in node.remind)

    def labels(self, id: str, choices: tuple[str, ...], at: Location, owner: Location) -> Mapping[str, str]:
        """Return the labels of choices whose text differs from the value."""
        named = ((value, f"{id}.choices.{value}" if id else "") for value in choices)
        labels = {value: self.text(line, Template(value, at), owner).source for value, line in named}
        return {value: label for value, label in labels.items() if label != value}


def _with_form(sheet: FormDefinition, texts: _Texts) -> FormDefinition:
    id = f"form:{sheet.id}"
    texts_of_form = texts.changed(sheet, id, "title", "text")
    return replace(
        sheet, **texts_of_form, fields=tuple(_with_field(each, f"{id}/{each.name}", texts) for each in sheet.fields)
    )


def _with_field(field: FormField, id: str, texts: _Texts) -> FormField:
    return replace(
        field,
        **texts.changed(field, id, "label", "placeholder", "invalid"),
        validate=texts.validations(id, field.validate, field.at),
        labels=texts.labels(id, field.choices, field.mark("choices"), field.at),
        columns=tuple(_with_field(column, f"{id}/{column.name}", texts) for column in field.columns),
    )


_TEXTS: Mapping[type[Action], Mapping[str, str]] = {
    AiSay: {"task": "ai_say"},
    Ask: {"question": "ask", "invalid": "invalid"},
    AiAsk: {"task": "ai_ask", "invalid": "invalid"},
    Choose: {"question": "question", "invalid": "invalid"},
    UserSay: {"text": "user_say"},
    Chat: {"task": "chat"},
    Form: {"invalid": "invalid"},
}
"""The fields whose texts users read, with their keys. Users do not read the texts of other actions."""


class _Walker:
    """Visits the actions of one topic or skill; the only place that defines which of their texts are lines."""

    def __init__(self, home: str, declared: Mapping[str, Declaration], texts: _Texts) -> None:
        self._home = home
        self._declared = declared
        self._texts = texts

    def actions(self, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        return tuple(self.action(action) for action in actions)

    def action(self, action: Action) -> Action:
        keys = _TEXTS.get(type(action), {})
        changed: dict[str, Any] = {
            field: self.maybe(action, key, getattr(action, field)) for field, key in keys.items()
        }
        match action:
            case Say():
                numbered = (("say" if n == 1 else f"say.{n}", text) for n, text in enumerate(action.texts, 1))
                changed["texts"] = tuple(self.maybe(action, what, text) for what, text in numbered)
            case Show():
                caption = self.maybe(action, "caption", action.media.caption)
                changed["media"] = replace(action.media, caption=caption)
            case Ask() | AiAsk():
                changed["outputs"] = tuple(self.item(action, item) for item in action.outputs)
            case OwnAction():
                texts = {name: getattr(action, name) for name in type(action).__struct_fields__}
                changed |= {
                    name: self.maybe(action, name, text) for name, text in texts.items() if isinstance(text, Template)
                }
            case Choose():
                changed["choices"] = tuple(self.choice(action, each) for each in action.choices)
            case _:
                pass
        if isinstance(action, Asking | CallTool) and action.on_fail is not None:
            say = self.maybe(action, "on_fail.say", action.on_fail.say)
            changed["on_fail"] = replace(action.on_fail, say=say)
        if isinstance(action, Ask | AiAsk | Choose):
            confirm = self.maybe(action, "if_known", action.if_known.confirm)
            changed["if_known"] = replace(action.if_known, confirm=confirm)
        if isinstance(action, Say | AiSay | Show) and action.acknowledge is not None:
            text = self.maybe(action, "acknowledge", action.acknowledge.text)
            changed["acknowledge"] = replace(action.acknowledge, text=text)
        if isinstance(action, Question):
            changed["remind"] = self.reminders(action)
        for key, policy in policies(action).items():
            changed[key] = replace(policy, say=self.maybe(action, key, policy.say))
        changed_action = replace(action, **changed)
        if isinstance(changed_action, Choose):  # the actions of its choices have been visited
            return with_side_arms(changed_action, self.actions)
        return with_arms(changed_action, self.actions)

    def choice(self, action: Choose, choice: ChoiceItem | ListedChoices) -> ChoiceItem | ListedChoices:
        if isinstance(choice, ListedChoices):
            id = self.id(action, f"choices.{choice.loop.name}")
            return replace(choice, text=self._texts.text(id, choice.text, action.at))
        text = self._texts.text(self.id(action, f"choices.{choice.key}"), choice.text, action.at)
        return replace(choice, text=text, actions=self.actions(choice.actions))

    def reminders(self, action: Question) -> tuple[Reminder, ...]:
        id = self.id(action, "remind")
        return tuple(self._texts.reminder(each, id, action.at) for each in action.remind)

    def item(self, action: Ask | AiAsk, item: OutputItem) -> OutputItem:
        match item:
            case Output():
                return self.output(action, item, f"output.{item.get}")
            case Records():
                fields = (self.output(action, field, f"output.{item.tolist}.{field.get}") for field in item.fields)
                return replace(item, fields=tuple(fields))
            case Assignment():
                return item
            case _:
                assert_never(item)

    def output(self, action: Ask | AiAsk, output: Output, what: str) -> Output:
        choices, at = output.choices, output.mark("choices")
        if output.type is None and not choices and output.get in self._declared:
            choices = self._declared[output.get].choices
        return replace(
            output,
            invalid=self.maybe(action, f"{what}.invalid", output.invalid),
            validate=self._texts.validations(self.id(action, what), output.validate, action.at),
            labels=self._texts.labels(self.id(action, what), choices, at, action.at),
        )

    def maybe(self, action: Action, what: str, text: Template | None) -> Template | None:
        return self._texts.maybe(self.id(action, what), text, action.at)

    def id(self, action: Action, what: str) -> str:
        is_stable = self._home and "id" in action.marks  # a derived id only gives the position of the action
        return f"{self._home}/{action.id}.{what}" if is_stable else ""

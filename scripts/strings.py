"""The lines of a script, what everyone who talks with it reads, and the script in another language.

A line's id is made of ids: ``phase/topic/action`` (or ``skill:ID/action``, ``interrupt:ID/action``,
``detector:ID/action``, ``on_budget/action``, ``form:ID/field``) and what the text is to it, such as ``.say``,
``.choices.KEY`` or ``.output.NAME.invalid``. Several texts of one `say` are told apart by their number alone.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from scripts.actions import (
    Action,
    AiAsk,
    AiSay,
    AiThink,
    Ask,
    Call,
    Chat,
    ChoiceItem,
    Choose,
    Emit,
    End,
    Experiment,
    Foreach,
    Form,
    Goto,
    If,
    Policy,
    Recall,
    Remember,
    Repeat,
    Say,
    Scene,
    Set,
    Show,
    UserSay,
    policies,
)
from scripts.model import Detector, FormField, FormSheet, Interrupt, Locale, Repair, Script, Skill, StringTable
from scripts.nodes import Location, Template
from scripts.variables import Assignment, Declaration, Output, OutputItem, Records

Phrase: TypeAlias = Literal[
    "invalid",
    "text",
    "number",
    "boolean",
    "date",
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
]
"""What the runtime says by itself: to an answer that does not do, by the type that is wanted, and around it."""


class Line(Struct, frozen=True):
    """A text that users read. `id` is empty where it has none that would hold still."""

    id: str
    text: str
    at: Location
    owner: Location


Change: TypeAlias = Callable[[Line], str]


def lines_of(script: Script) -> tuple[Line, ...]:
    """Every line of a script whose ids are complete, in its order; blank texts are none."""
    found: list[Line] = []

    def note(line: Line) -> str:
        found.append(line)
        return line.text

    _with_lines(script, note)
    return tuple(found)


def own_locale(script: Script) -> Locale:
    """The language of a script's own texts: as written, else Chinese where anything in it is, else English."""
    if script.locale is not None:
        return script.locale
    return "zh" if any("\u4e00" <= char <= "\u9fff" for char in str(script.phases)) else "en"


def language(locale: Locale) -> str:
    """The first part of a tag: ``pt`` of ``pt-BR``."""
    return locale.partition("-")[0].casefold()


def table_for(script: Script, locale: Locale) -> StringTable | None:
    """The string table for a language, or None where the script's own texts serve it best.

    The tag is shortened from its end until something fits (RFC 4647, 3.4): zh-Hant-TW, zh-Hant, zh.
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
    """The script with the lines of a table; what is missing there stays as it is. Ids and values are the same."""

    def translated(line: Line) -> str:
        found = table.lines.get(line.id)
        return line.text if found is None or found.is_missing else found.text.source

    return msgspec.structs.replace(_with_lines(script, translated), locale=table.locale, phrases=table.phrases)


def _with_lines(script: Script, change: Change) -> Script:
    texts = _Texts(change)
    shared = _declared(script.globals)
    session = shared | _declared(script.declare)
    phases = []
    for phase in script.phases:
        topics = []
        for topic in phase.topics:
            walker = _Walker(
                f"{phase.id}/{topic.id}", session | _declared(phase.declare) | _declared(topic.declare), texts
            )
            topics.append(msgspec.structs.replace(topic, actions=walker.actions(topic.actions)))
        phases.append(msgspec.structs.replace(phase, topics=tuple(topics)))
    return msgspec.structs.replace(
        script,
        phases=tuple(phases),
        skills=tuple(_with_skill(skill, shared, texts) for skill in script.skills),
        interrupts=tuple(_with_interrupt(each, session, texts) for each in script.interrupts),
        detectors=tuple(_with_detector(each, session, texts) for each in script.detectors),
        on_budget=_Walker("on_budget", session, texts).actions(script.on_budget),
        forms=tuple(_with_form(sheet, texts) for sheet in script.forms),
        repairs=tuple(_with_repair(repair, texts) for repair in script.repairs),
    )


def _declared(declarations: tuple[Declaration, ...]) -> dict[str, Declaration]:
    return {each.var: each for each in declarations}


class _Texts:
    """Changes texts, each under an id of its own."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._seen: set[str] = set()

    def text(self, id: str, text: Template, owner: Location) -> Template:
        """The changed text; `id` is empty where nothing stable names it."""
        if not text.source.strip():
            return text
        id = "" if id in self._seen else id  # ids may hold dots
        self._seen |= {id} - {""}
        changed = self._change(Line(id, text.source, text.at, owner))
        return text if changed == text.source else Template(changed, text.at)

    def maybe(self, id: str, text: Template | None, owner: Location) -> Template | None:
        """The same for a text that may be missing."""
        return None if text is None else self.text(id, text, owner)

    def labels(self, id: str, choices: tuple[str, ...], at: Location, owner: Location) -> Mapping[str, str]:
        """What is read for the choices that are called otherwise."""
        named = ((value, f"{id}.choices.{value}" if id else "") for value in choices)
        labels = {value: self.text(line, Template(value, at), owner).source for value, line in named}
        return {value: label for value, label in labels.items() if label != value}


def _with_skill(skill: Skill, shared: Mapping[str, Declaration], texts: _Texts) -> Skill:
    declared = {**shared, **_declared(skill.params), **_declared(skill.declare)}
    walker = _Walker(f"skill:{skill.id}", declared, texts)
    return msgspec.structs.replace(skill, actions=walker.actions(skill.actions))


def _with_interrupt(interrupt: Interrupt, session: Mapping[str, Declaration], texts: _Texts) -> Interrupt:
    home = f"interrupt:{interrupt.id}" if "interrupt" in interrupt.marks else ""
    walker = _Walker(home, session, texts)
    return msgspec.structs.replace(interrupt, actions=walker.actions(interrupt.actions))


def _with_detector(detector: Detector, session: Mapping[str, Declaration], texts: _Texts) -> Detector:
    home = f"detector:{detector.id}"
    return msgspec.structs.replace(
        detector,
        actions=_Walker(home, session, texts).actions(detector.actions),
        replace=texts.maybe(f"{home}.replace", detector.replace, detector.at),
    )


def _with_repair(repair: Repair, texts: _Texts) -> Repair:
    return msgspec.structs.replace(repair, say=texts.maybe(f"repair:{repair.kind}.say", repair.say, repair.at))


def _with_form(sheet: FormSheet, texts: _Texts) -> FormSheet:
    id = f"form:{sheet.id}"
    return msgspec.structs.replace(
        sheet,
        title=texts.maybe(f"{id}.title", sheet.title, sheet.at),
        text=texts.maybe(f"{id}.text", sheet.text, sheet.at),
        fields=tuple(_with_field(field, f"{id}/{field.name}", texts) for field in sheet.fields),
    )


def _with_field(field: FormField, id: str, texts: _Texts) -> FormField:
    return msgspec.structs.replace(
        field,
        label=texts.maybe(f"{id}.label", field.label, field.at),
        placeholder=texts.maybe(f"{id}.placeholder", field.placeholder, field.at),
        invalid=texts.maybe(f"{id}.invalid", field.invalid, field.at),
        labels=texts.labels(id, field.choices, field.mark("choices"), field.at),
        columns=tuple(_with_field(column, f"{id}/{column.name}", texts) for column in field.columns),
    )


class _Walker:
    """Goes through the actions of one topic or skill; this one place knows which of their texts are lines."""

    def __init__(self, home: str, declared: Mapping[str, Declaration], texts: _Texts) -> None:
        self._home = home
        self._declared = declared
        self._texts = texts

    def actions(self, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        return tuple(self.action(action) for action in actions)

    def action(self, action: Action) -> Action:
        replace = msgspec.structs.replace
        match action:
            case Say():
                numbered = (("say" if n == 1 else f"say.{n}", text) for n, text in enumerate(action.texts, 1))
                return replace(action, texts=tuple(self.text(action, what, text) for what, text in numbered))
            case AiSay():
                return replace(action, task=self.text(action, "ai_say", action.task))
            case Ask():
                return replace(
                    action,
                    question=self.text(action, "ask", action.question),
                    invalid=self.maybe(action, "invalid", action.invalid),
                    outputs=self.outputs(action, action.outputs),
                )
            case AiAsk():
                return replace(
                    action,
                    task=self.text(action, "ai_ask", action.task),
                    invalid=self.maybe(action, "invalid", action.invalid),
                    outputs=self.outputs(action, action.outputs),
                    **self.policies(action),
                )
            case Choose():
                return replace(
                    action,
                    question=self.maybe(action, "question", action.question),
                    invalid=self.maybe(action, "invalid", action.invalid),
                    choices=tuple(self.choice(action, choice) for choice in action.choices),
                )
            case UserSay():
                return replace(action, text=self.text(action, "user_say", action.text))
            case Show():
                caption = self.maybe(action, "caption", action.media.caption)
                return replace(action, media=replace(action.media, caption=caption))
            case If():
                then, otherwise = self.actions(action.then), self.actions(action.otherwise)
                return replace(action, then=then, otherwise=otherwise)
            case Experiment():
                return replace(action, arms={arm: self.actions(inner) for arm, inner in action.arms.items()})
            case Foreach() | Repeat():
                return replace(action, do=self.actions(action.do))
            case Chat():
                return replace(action, task=self.text(action, "chat", action.task), **self.policies(action))
            case Form():
                return replace(action, invalid=self.maybe(action, "invalid", action.invalid))
            case AiThink() | Set() | Call() | Emit() | Remember() | Recall() | Goto() | End() | Scene():
                return action  # nobody reads their texts
            case _:
                assert_never(action)

    def policies(self, action: AiAsk | Chat) -> Mapping[str, Policy]:
        return {
            key: msgspec.structs.replace(policy, say=self.maybe(action, key, policy.say))
            for key, policy in policies(action).items()
        }

    def choice(self, action: Choose, choice: ChoiceItem) -> ChoiceItem:
        text = self.text(action, f"choices.{choice.key}", choice.text)
        return msgspec.structs.replace(choice, text=text, actions=self.actions(choice.actions))

    def outputs(self, action: Ask | AiAsk, outputs: tuple[OutputItem, ...]) -> tuple[OutputItem, ...]:
        return tuple(self.item(action, item) for item in outputs)

    def item(self, action: Ask | AiAsk, item: OutputItem) -> OutputItem:
        match item:
            case Output():
                return self.output(action, item, f"output.{item.get}")
            case Records():
                fields = (self.output(action, field, f"output.{item.tolist}.{field.get}") for field in item.fields)
                return msgspec.structs.replace(item, fields=tuple(fields))
            case Assignment():
                return item
            case _:
                assert_never(item)

    def output(self, action: Ask | AiAsk, output: Output, what: str) -> Output:
        choices, at = output.choices, output.mark("choices")
        if output.type is None and not choices and output.get in self._declared:
            choices = self._declared[output.get].choices
        return msgspec.structs.replace(
            output,
            invalid=self.maybe(action, f"{what}.invalid", output.invalid),
            labels=self._texts.labels(self.id(action, what), choices, at, action.at),
        )

    def maybe(self, action: Action, what: str, text: Template | None) -> Template | None:
        return self._texts.maybe(self.id(action, what), text, action.at)

    def text(self, action: Action, what: str, text: Template) -> Template:
        return self._texts.text(self.id(action, what), text, action.at)

    def id(self, action: Action, what: str) -> str:
        is_stable = self._home and "id" in action.marks  # a derived id says only where the action stands
        return f"{self._home}/{action.id}.{what}" if is_stable else ""

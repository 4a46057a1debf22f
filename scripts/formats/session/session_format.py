"""The session format: ``session: {session_id, phases: [{phase_id, topics: [{topic_id, actions}]}]}``."""

from collections.abc import Callable
from collections.abc import Mapping as MappingType
from functools import cached_property, partial
from typing import Any, TypeVar, assert_never

from msgspec.structs import replace

from scripts.expressions.values import Value, shorten, texts_in
from scripts.formats import placeholders
from scripts.formats.condition_fixes import condition_fix, name_fix, report_worded_exit
from scripts.formats.condition_trees import CRITERIA
from scripts.formats.conditions import compares, is_computed, report_joined_words, to_condition
from scripts.formats.session import spellings
from scripts.formats.session.config import FIT_FOR, TEXT_KEYS, ActionType, ComputedOutput, Config
from scripts.formats.session.file_words import report_letters_in, report_meanings, variables_in, words_in
from scripts.formats.session.unused_keys import from_metadata, report_unused_keys
from scripts.formats.words import CONFIG_KEYS, FORM_KEYS, PHASE_KEYS, SESSION_KEYS, TOPIC_KEYS, TUNING
from scripts.model import actions
from scripts.model.actions import Exit
from scripts.model.base import Expression, Location, Node, Template, rebuild, unused_name
from scripts.model.diagnostics import Severity
from scripts.model.older_keys import exits_of, speech_of
from scripts.model.script import DefaultScope, FormDefinition, FormField, Locale, Phase, Role, Script, Topic
from scripts.model.variables import Assignment, Declaration, Output, OutputItem
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping, Sequence, keys_renamed

_N = TypeVar("_N", bound=Node)
_R = TypeVar("_R")


class _Action(Node, frozen=True, kw_only=True):
    action_type: ActionType
    action_id: str
    config: Config
    condition: Template | None = None
    action_name: str = ""
    description: str = ""


class TopicForm(Node, frozen=True, kw_only=True):
    """A topic of this format and of the technique format."""

    topic_id: str
    topic_name: str = ""
    topic_goal: str = ""
    strategy: str = ""
    condition: Template | None = None
    declare: tuple[Declaration, ...] = ()
    actions: tuple[_Action, ...]


class _Phase(Node, frozen=True, kw_only=True):
    phase_id: str
    phase_name: str = ""
    phase_goal: str = ""
    entry_condition: Template | None = None
    declare: tuple[Declaration, ...] = ()
    topics: tuple[TopicForm, ...]


class _Session(Node, frozen=True, kw_only=True):
    session_id: str
    session_name: str = ""
    session_goal: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    version: str = ""
    author: str = ""
    template_scheme: str = ""
    default_scope: DefaultScope = "session"
    locale: Locale | None = None
    use: tuple[str, ...] = ()
    declare: tuple[Declaration, ...] = ()
    roles: tuple[Role, ...] = ()
    forms: tuple[FormDefinition, ...] = ()
    phases: tuple[_Phase, ...]


class _Document(Node, frozen=True, kw_only=True):
    session: _Session
    metadata: MappingType[str, Value] = {}


def recognises(tree: Mapping) -> bool:
    """Return whether a file has this format."""
    session = tree.get("session")
    is_alone = session is None and (tree.get("session_id") is not None or spellings.has_phase_ids(tree))
    return isinstance(session, Mapping | Sequence) or is_alone or bool(spellings.listed_sessions(tree))


RESPELL: MappingType[Any, Callable[[Mapping], Mapping]] = {
    _Document: spellings.document,
    _Session: partial(spellings.part, keys=SESSION_KEYS),
    _Action: spellings.action,
    Declaration: spellings.declaration,
    Output: spellings.output,
    ComputedOutput: spellings.computed_output,
    TopicForm: partial(spellings.part, keys=TOPIC_KEYS, condition="condition"),
    _Phase: partial(spellings.part, keys=PHASE_KEYS),
    **CRITERIA,
    FormDefinition: partial(keys_renamed, names={**FORM_KEYS, "id": "form", "name": "title"}),
    FormField: spellings.form_field,
}
"""The functions that convert other spellings to the keys above, by type."""


def read(tree: Mapping, reader: Reader) -> Script | None:
    """Read the script, or None; the reader collects the problems."""
    for other in spellings.listed_sessions(tree)[1:]:
        message = "a script has only one session; this one would not run"
        reader.refuse("TYPE_MISMATCH", message, other.at, "Write each session to a separate file.")
    report_letters_in(tree, reader)
    report_meanings(tree, reader, frozenset(variables_in(tree)))
    for holder in (tree, tree.get("session")):
        placeholders.report_globals(reader, holder)
    document = reader.read(tree, _Document)
    return None if document is None else _Translator(reader, tree).script(document)


def translated_topic(topic: TopicForm, reader: Reader, tree: Mapping) -> tuple[Topic, tuple[FormDefinition, ...]]:
    """Convert a topic of this format, in a file's tree, to the model, with the forms that its actions define."""
    report_letters_in(tree, reader)
    translator = _Translator(reader, tree)
    return translator.topic(topic), tuple(translator.forms)


class _Translator:
    """Converts a file to the model."""

    def __init__(self, reader: Reader, tree: Mapping) -> None:
        self.reader = reader
        self.tree = tree
        self.forms: list[FormDefinition] = []  # forms defined within actions

    def script(self, document: _Document) -> Script:
        session = document.session
        about = {
            "title": session.session_name,
            "version": session.version,
            "description": session.description or session.session_goal,
            "author": session.author,
            "tags": session.tags,
            "locale": session.locale,
        }
        phases = tuple(self.inside(phase.phase_id, self.phase, phase) for phase in session.phases)
        return Script(
            id=session.session_id,
            **from_metadata(self.reader, self.tree.get("metadata"), about),
            default_scope=session.default_scope,
            template_scheme=session.template_scheme,
            use=session.use,
            declare=session.declare,
            phases=phases,
            roles=session.roles,
            forms=(*(self.sheet(each) for each in session.forms), *self.forms),
            form="session",
            at=session.at,
            marks=_rename_marks(session, session_id="script"),
        )

    def inside(self, name: str, translate: Callable[[_N], _R], node: _N) -> _R:
        with self.reader.inside(f"/{name}"):
            return translate(node)

    def phase(self, phase: _Phase) -> Phase:
        return Phase(
            id=phase.phase_id,
            title=phase.phase_name,
            goal=phase.phase_goal,
            when=self.condition(phase.entry_condition),
            declare=phase.declare,
            topics=tuple(self.inside(topic.topic_id, self.topic, topic) for topic in phase.topics),
            at=phase.at,
            marks=_rename_marks(phase, phase_id="phase"),
        )

    def topic(self, topic: TopicForm) -> Topic:
        read = [self.inside(action.action_id, self.action, action) for action in topic.actions]
        return Topic(
            id=topic.topic_id,
            title=topic.topic_name,
            goal=topic.topic_goal,
            strategy=topic.strategy,
            when=self.condition(topic.condition),
            declare=topic.declare,
            actions=tuple(action for action in read if action is not None),
            at=topic.at,
            marks=_rename_marks(topic, topic_id="topic", topic_goal="goal"),
        )

    def action(self, action: _Action) -> actions.Action | None:
        config = action.config
        common: dict[str, Any] = {
            "id": action.action_id,
            "when": self.condition(action.condition),
            "tone": config.tone,
            "role": config.ai_role,
            "at": action.at,
            "marks": _rename_marks(action, action_id="id"),
        }
        for key, at in config.marks.items():
            if key not in {*CONFIG_KEYS[action.action_type], "assignments"}:  # they are part of `output`
                waits = key == "require_acknowledgment" and action.action_type == "ai_ask"
                severity: Severity = "warning" if key in TUNING or waits else "error"
                message = f"`{key}` has no effect on `{action.action_type}`"
                fix = "Remove it: a question waits for its answer." if waits else FIT_FOR.get(key, "")
                self.reader.add("KEY_IGNORED", message, at, fix, severity=severity)
        match action.action_type:
            case "ai_say" | "ai_ask" | "ai_think":
                return self.model_action(action, common)
            case "show_pic":
                image, url, caption = map(self.text, (config.image, config.url, config.caption))
                media = actions.Media(image=image, url=url, caption=caption, at=config.at)
                return actions.Show(media=media, **common)
            case "use_skill":
                return self.use_skill(config, common)
            case "show_form":
                return self.show_form(config, common)
            case _:
                assert_never(action.action_type)

    def model_action(self, action: _Action, common: dict[str, Any]) -> actions.Action | None:
        """Return an action for a model, which needs a text."""
        kind, config = action.action_type, action.config
        task = self.content(config, config.think_goal if kind == "ai_think" else "")
        if task is None:
            return None
        items = self.outputs(config) if kind != "ai_say" else ()
        report_unused_keys(self.reader, kind, action, config, items, task.source)
        if kind == "ai_think":
            return actions.AiThink(task=task, outputs=items, **common)
        if kind == "ai_ask":
            rounds = config.max_rounds or actions.ROUNDS_DEFAULT
            return actions.AiAsk(task=task, outputs=items, exits=self.exits(config), max_rounds=rounds, **common)
        speech = speech_of(config.max_rounds, config.require_acknowledgment is not False)
        exits = exits_of(exit_criteria=config.exit_criteria)
        return actions.AiSay(task=task, **speech, exits=exits, **common)

    def exits(self, config: Config) -> tuple[Exit, ...]:
        """Return when a question ends: by words, by a condition if they compare variables, or by the criteria."""
        written = config.exit
        if written is not None and compares(written.source, lambda word: False):
            return exits_of(exit_when=self.condition(written), exit_criteria=config.exit_criteria)
        if written is not None:
            report_worded_exit(self.reader, written.source, written.at)
        return exits_of(exit=self.text(written), exit_criteria=config.exit_criteria)

    def use_skill(self, config: Config, common: dict[str, Any]) -> actions.Action | None:
        if config.skill is None:
            self.reader.missing("skill", config.at, "Add `skill:` with the id of the skill.")
            return None
        return actions.Call(
            skill=config.skill,
            input={name: self.value_expression(value, config.mark("input")) for name, value in config.input.items()},
            output=config.returns,
            **{**common, "marks": {**common["marks"], "call": config.mark("skill")}},
        )

    def show_form(self, config: Config, common: dict[str, Any]) -> actions.Action | None:
        """Return a form by name, or a form defined here, which is named after its action."""
        name = config.form or common["id"] or "form"
        if config.fields:
            name = unused_name(name, {sheet.id for sheet in self.forms})
            text = next((text for key in TEXT_KEYS if (text := getattr(config, key)) is not None), None)
            written = FormDefinition(id=name, title=config.title, text=text, fields=config.fields, at=config.at)
            self.forms.append(self.sheet(written))
        elif not config.form:
            self.reader.missing("form", config.at, "Add `form:` with the id of the form.")
            return None
        return actions.Form(sheet=name, max_rounds=config.max_rounds or actions.ROUNDS_DEFAULT, **common)

    def sheet(self, part: Any) -> Any:
        """Convert the placeholders and the formulas of a form, or of a part of it."""
        match part:
            case Template():
                return self.text(part)
            case Expression():
                return self.condition(Template(part.source, part.at))
            case FormDefinition() | FormField() | tuple():
                return rebuild(part, self.sheet)
            case _:
                return part

    def value_expression(self, value: Value, at: Location) -> Expression:
        """Convert the value of a parameter, in which texts may have placeholders, to an expression."""
        for text in texts_in(value):
            placeholders.report_placeholders(self.reader, text, at)
            placeholders.report_calculated(self.reader, text, at)
        return Expression(placeholders.to_value_expression(value, self.refer), at)

    def assignment(self, written: ComputedOutput) -> Assignment:
        value, at = written.value, written.mark("value")
        if isinstance(value, str) and is_computed(value, self.variables.__contains__):
            computed = self.condition(Template(value, at))
        else:
            computed = self.value_expression(value, at)
        return Assignment(
            set=written.set,
            value=computed or Expression("none", at),  # it is invalid, and reported
            when=self.condition(written.when),
            at=written.at,
            marks=written.marks,
        )

    def outputs(self, config: Config) -> tuple[OutputItem, ...]:
        named = [Output(get=name, at=config.mark("output_variables")) for name in config.output_variables]
        if config.target_variable is not None:
            meaning, at = config.extraction_prompt or "", config.mark("target_variable")
            named.append(Output(get=config.target_variable, define=meaning, required=config.required, at=at))
        written = {output.get for output in config.output}
        found = (*config.output, *(output for output in named if output.get not in written))
        taken = (self.with_older(each, config, alone=len(found) == 1) for each in found)
        return (*taken, *map(self.assignment, config.assignments))

    def with_older(self, output: Output, config: Config, *, alone: bool) -> Output:
        """Complete an output with settings of its action: `required`, and the meaning of a single output."""
        is_target = config.target_variable is not None and output.get != config.target_variable
        if output.required is None and config.required is not None and not is_target:
            output = replace(output, required=config.required)
        if not output.define and config.extraction_prompt and alone:
            output = replace(output, define=config.extraction_prompt)
        validate = tuple(replace(each, say=self.text(each.say)) for each in output.validate)
        return replace(output, invalid=self.text(output.invalid), validate=validate)

    def content(self, config: Config, goal_text: str) -> Template | None:
        """Return the text of an action, from any of its keys, with the goal of a thought."""
        written = [(key, getattr(config, key)) for key in TEXT_KEYS if getattr(config, key) is not None]
        for key, _ in written[1:]:
            message = f"`{key}` and `{written[0][0]}` both contain the text; `{written[0][0]}` is used"
            self.reader.slip("KEY_CONFLICT", message, config.mark(key))
        text = self.text(written[0][1]) if written else None
        goal = self.text(Template(goal_text, config.mark("think_goal"))) if goal_text else None
        if text is not None and goal is not None:
            return replace(text, source=f"{text.source.rstrip()}\n\n{goal.source}")
        if text is not None or goal_text:
            return text or goal
        if config.marks.keys().isdisjoint(TEXT_KEYS):  # else the reader has said what is wrong with it
            self.reader.missing("content", config.at)
        return None

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the keys and texts of the file, among them the names of its variables."""
        return frozenset(words_in(self.tree)) - placeholders.SCOPES

    @cached_property
    def variables(self) -> frozenset[str]:
        """Return the names of the variables of the file."""
        return frozenset(variables_in(self.tree))

    def refer(self, name: str) -> str:
        """Return the expression of a placeholder."""
        if "." not in name:
            return placeholders.reference(name)
        head, *parts = name.split(".")
        if name not in self.words and parts and head in self.words and not placeholders.is_built_in_member(name):
            return placeholders.member_reference(placeholders.variable_reference(head), parts)
        return placeholders.variable_reference(name) if name in self.words else placeholders.reference(name)

    def text(self, written: Template | None) -> Template | None:
        if written is None:
            return None
        placeholders.report_placeholders(self.reader, written.source, written.at)
        return Template(placeholders.to_template(written.source, self.refer), written.at)

    def condition(self, written: Template | None) -> Expression | None:
        if written is None or not written.source.strip():
            return None
        in_braces = "{" in written.source  # then a word without braces is a text: {mood} == calm

        def is_name(word: str) -> bool:
            return not in_braces and word not in placeholders.SCOPES

        try:
            source = to_condition(written.source, self.refer, is_name)
        except ValueError as error:
            self.reader.add("EXPRESSION_INVALID", str(error), written.at, condition_fix(written.source))
            return None
        if fix := name_fix(written.source, self.words.__contains__):
            self.reader.add("EXPRESSION_INVALID", f"there is no variable {shorten(written.source)}", written.at, fix)
            return None
        report_joined_words(self.reader, written.source, is_name, written.at)
        return Expression(source, written.at)


def _rename_marks(node: Node, **names: str) -> dict[str, Location]:
    return {names.get(key, key): at for key, at in node.marks.items()}

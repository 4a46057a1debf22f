"""The typed model of a script, the same for all formats. Frozen; a session never changes it.

The keys that authors write in the native format are the ``name=`` of each field; the reader (`scripts.yaml.decoder`)
reads YAML into these types, so they are the grammar as well. Their parts are in `scripts.model.base`,
`scripts.model.variables` and `scripts.model.actions`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal, TypeAlias, cast

from msgspec import Meta, field

from scripts.expressions.values import DeclaredType, Value
from scripts.model.actions import Action, Call, Expiry, OnInterrupted, Question, Reminder, walk
from scripts.model.base import Expression, Node, Reference, Template
from scripts.model.context_strategies import Context
from scripts.model.detectors import Example, Measure, Pattern, Rule, Sign
from scripts.model.experiments import ExperimentPlan, arm_variables
from scripts.model.memory_plan import DEFAULT_PLAN, MemoryPlan
from scripts.model.moments import QuietHours
from scripts.model.tools import ToolDefinition
from scripts.model.variables import Declaration, Limit, Output, Validation, constant

Scope: TypeAlias = Literal["global", "session", "phase", "topic"]
DefaultScope: TypeAlias = Literal["topic", "session"]
LOCALE = re.compile(r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,4}(?!\n)$")  # `$` alone would let a line break pass
Locale: TypeAlias = Annotated[
    str,
    Meta(
        pattern=LOCALE.pattern,
        description="A language tag (BCP 47): en, de, zh-Hant, pt-BR.",
        extra={"code": "LOCALE_INVALID", "kind": "a language tag"},
    ),
]


class Parameter(Declaration, frozen=True, kw_only=True):
    """A parameter of a skill; one without a `value` must be passed unless `required` is false."""

    required: bool = True


class Skill(Node, frozen=True, kw_only=True):
    """Actions that `call` runs by name. They read the parameters, the variables that they set, and global variables."""

    id: str = field(name="skill")
    title: str = ""
    goal: str = ""
    strategy: str = ""
    params: tuple[Parameter, ...] = ()
    returns: tuple[str, ...] = ()
    declare: tuple[Declaration, ...] = ()
    actions: tuple[Action, ...]


class Role(Node, frozen=True, kw_only=True):
    """A speaker."""

    id: str = field(name="role")
    type: Literal["AI", "HUMAN"] = "AI"
    name: str = ""
    tone: str = ""
    define: str = ""
    desc: str = ""
    pic: str = ""
    attributes: Mapping[str, Value] = {}  # additional data for the application


FieldType: TypeAlias = Literal[
    "text", "number", "boolean", "date", "time", "datetime", "timezone", "choice", "multichoice", "table", "file"
]


class FormField(Node, frozen=True, kw_only=True):
    """A field of a form. It sets the variable with its name; a `computed` field is not filled in by the user."""

    name: str = field(name="field")
    label: Template | None = None
    define: str = ""
    type: FieldType = "text"
    choice_list: tuple[str, ...] | Expression = field(name="choices", default=())
    required: bool = False
    placeholder: Template | None = None
    default: Value | Expression = None
    pattern: str | None = None
    min: Limit | Expression = None
    max: Limit | Expression = None
    validate: tuple[Validation, ...] = ()
    invalid: Template | None = None
    computed: Expression | None = None
    columns: "tuple[FormField, ...]" = ()  # of a table
    labels: Mapping[str, str] = {}  # as in an output

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The limits, defaults and choices of the field and its columns that are expressions."""
        fields = (self, *self.columns)
        values = (value for each in fields for value in (each.min, each.max, each.default, each.choice_list))
        return tuple(value for value in values if isinstance(value, Expression))

    @property
    def choices(self) -> tuple[str, ...]:
        """The choices, as in an output."""
        return constant(self.choice_list) or ()


LABELLED = (Declaration, Output, FormField)
"""The types whose choices may have labels."""


class FormDefinition(Node, frozen=True, kw_only=True):
    """A form: several typed fields that the user fills in at once."""

    id: str = field(name="form")
    title: Template | None = None
    text: Template | None = None  # message that shows the form
    fields: tuple[FormField, ...]


Match: TypeAlias = Literal["anywhere", "short", "whole"]
"""Where keywords match: in any message, in a short message, or as the whole message."""


class Trigger(Node, frozen=True, kw_only=True):
    """The trigger of an interrupt: words in the user's message, an intent that the model finds in it, or a detector."""

    keywords: tuple[str, ...] = ()
    match: Match = "short"  # older files: anywhere
    intent: str = ""
    detector: str = ""


class After(Node, frozen=True, kw_only=True):
    """Where the conversation continues after an interrupt."""

    policy: Literal["resume", "restart_topic", "leave_topic", "skip", "goto", "end"] = "resume"
    target: str = ""


class Interrupt(Node, frozen=True, kw_only=True):
    """Actions that run when the user's message matches a trigger, at any time; then the conversation continues.

    The actions read session variables, global variables, and their own, which end with the interrupt.
    """

    id: str = field(name="interrupt", default="")
    on: Trigger
    when: Expression | None = None
    priority: int = 0  # the highest that applies runs; of equals the first
    actions: tuple[Action, ...] = field(name="do", default=())
    then: After = After()


RepairKind: TypeAlias = Literal["repeat", "skip", "cancel", "correct", "hand_over"]


class Repair(Node, frozen=True, kw_only=True):
    """A predefined repair of a conversation; `on` and `say` replace the runtime's default texts."""

    kind: RepairKind = field(name="repair")
    on: tuple[str, ...] = ()
    say: Template | None = None
    then: After | None = None


COOLDOWN_MAX = 1_000
LOOK_BACK_MAX = 50


class Detector(Node, frozen=True, kw_only=True):
    """Watches messages with words, measures and, if configured, a model; runs actions on what it finds.

    Its actions read `detected`, session variables and global variables. Undeclared variables that they set have
    session scope.
    """

    id: str = field(name="detector")
    title: str = ""
    define: str = ""  # what a model looks for
    note: str = ""
    on: Literal["user", "assistant", "both"] = "user"
    when: Expression | None = None
    cooldown: Annotated[int, Meta(ge=0, le=COOLDOWN_MAX)] = 0  # messages of the user after it acted
    look_back: Annotated[int, Meta(ge=1, le=LOOK_BACK_MAX)] = 10  # messages, of both sides
    min_messages: Annotated[int, Meta(ge=1, le=LOOK_BACK_MAX)] = 1  # fewer are not enough for measures and models
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.7
    rules: tuple[Rule, ...] = ()
    measures: tuple[Measure, ...] = ()
    signs: tuple[Sign, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    on_failure: Literal["none", "use_previous"] = "none"  # result if the model fails
    actions: "tuple[Action, ...]" = field(name="do", default=())
    replace: Template | None = None  # text that replaces the message
    examples: tuple[Example, ...] = ()


ON_BUDGET = ":on_budget"  # no detector's id begins with a colon


class Topic(Node, frozen=True, kw_only=True):
    """A topic: a unit of conversation with variables of its own."""

    id: str = field(name="topic")
    title: str = ""
    goal: str = ""
    strategy: str = ""
    when: Expression | None = None
    interruptible: bool = True  # by words and intents; detectors always interrupt
    milestone: str = ""  # reached at the end of its actions
    remind: tuple[Reminder, ...] = ()  # of the questions without their own
    expire: Expiry | None = None
    declare: tuple[Declaration, ...] = ()
    actions: tuple[Action, ...] = ()


class Phase(Node, frozen=True, kw_only=True):
    """A phase of the conversation: an ordered list of topics."""

    id: str = field(name="phase")
    title: str = ""
    goal: str = ""
    when: Expression | None = None
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None
    declare: tuple[Declaration, ...] = ()
    topics: tuple[Topic, ...] = field()


def innermost_expiry(*holders: "Question | Topic | Phase | Script") -> Expiry | None:
    """Return the expiry that counts for a question; `holders` contain each other, the innermost first."""
    return next((each.expire for each in holders if each.expire is not None), None)


def timers_of(holder: "Question | Topic | Phase | Script") -> tuple[Reminder | Expiry, ...]:
    """Return the reminders of a question, or of all questions of a node, and their expiry, if there is one."""
    return (*holder.remind, *((holder.expire,) if holder.expire is not None else ()))


FormName: TypeAlias = Literal["native", "session", "stage", "technique", "consciousness", "detectors"]


class Translation(Node, frozen=True, kw_only=True):
    """A line in another language. `of` is the source text; `was` the older source text of a stale translation."""

    of: str | None = None
    was: str | None = None
    text: Template = Template("")

    @property
    def is_missing(self) -> bool:
        """Whether the translation has no text yet."""
        return not self.text.source.strip()


class StringTable(Node, frozen=True, kw_only=True):
    """The lines of a script in one language, by id, and translations of the runtime's default texts.

    `unused` retains translations of lines that the script no longer contains.
    """

    locale: Locale = field(name="strings")
    lines: Mapping[str, Translation] = {}
    phrases: Mapping[str, str] = {}
    unused: Mapping[str, Translation] = {}


class Migrations(Node, frozen=True, kw_only=True):
    """Renames since earlier versions, old id to new id, so that running sessions find their position."""

    phases: Mapping[str, Reference] = {}
    topics: Mapping[str, Reference] = {}
    actions: Mapping[str, Reference] = {}
    skills: Mapping[str, Reference] = {}
    interrupts: Mapping[str, Reference] = {}
    detectors: Mapping[str, Reference] = {}
    variables: Mapping[str, Reference] = {}


class Script(Node, frozen=True, kw_only=True):
    """A script. `locale` is the language of its own texts."""

    id: str = field(name="script")
    title: str = ""
    version: str = ""
    description: str = ""
    author: str = ""
    tags: tuple[str, ...] = ()
    locale: Locale | None = None
    default_scope: DefaultScope = "topic"
    template_scheme: str = ""
    model: str = ""  # the language model to use, by the name that the server configures
    on_interrupted: OnInterrupted = "retry"
    context: Context | None = None  # which part of the conversation the model sees
    memory: MemoryPlan = DEFAULT_PLAN
    timezone: str = ""  # an IANA name; of sessions and users without one
    quiet_hours: QuietHours | None = None
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None
    use: tuple[str, ...] = ()
    declare: tuple[Declaration, ...] = ()
    phases: tuple[Phase, ...] = field()
    # each of these: the script's own and those of its include files
    skills: tuple[Skill, ...] = ()
    roles: tuple[Role, ...] = ()
    forms: tuple[FormDefinition, ...] = ()
    experiments: tuple[ExperimentPlan, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    repairs: tuple[Repair, ...] = ()
    migrations: Migrations = Migrations()
    detectors: tuple[Detector, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    on_budget: tuple[Action, ...] = ()  # run when a language model budget is used up
    globals: tuple[Declaration, ...] = ()  # from include files, never written in the script itself
    strings: tuple[StringTable, ...] = ()  # also from include files
    phrases: Mapping[str, str] = {}  # replace the runtime's default texts in a translated script
    form: FormName = "native"

    @property
    def session_variables(self) -> tuple[Declaration, ...]:
        """The declarations of session scope, including the arm variables of experiments by session."""
        return (*self.declare, *arm_variables(self.experiments, "session"))

    @property
    def global_variables(self) -> tuple[Declaration, ...]:
        """The declarations of global scope, including the arm variables of experiments by user."""
        return (*self.globals, *arm_variables(self.experiments, "user"))

    @property
    def watchers(self) -> tuple[Detector, ...]:
        """The detectors, and `on_budget` as a detector: their actions run immediately, within a turn."""
        if not self.on_budget:
            return self.detectors
        return (*self.detectors, Detector(id=ON_BUDGET, actions=self.on_budget, at=self.mark("on_budget")))


Path: TypeAlias = tuple[str, ...]
"""Ids from the outside in: phase, topic, action. Nodes outside the phases are like topics of one of `BESIDE`."""

INTERRUPTS, DETECTORS = ":interrupts", ":detectors"  # as in a saved state
BESIDE: Mapping[str, Literal["skill", "interrupt", "detector"]] = {
    "": "skill",
    INTERRUPTS: "interrupt",
    DETECTORS: "detector",
}
ScriptNode: TypeAlias = Phase | Topic | Skill | Interrupt | Detector


def nodes(script: Script) -> Iterator[tuple[Path, ScriptNode]]:
    """Yield the phases, each before its topics, the skills, interrupts and detectors of a script by path."""
    for phase in script.phases:
        yield (phase.id,), phase
        yield from (((phase.id, topic.id), topic) for topic in phase.topics)
    yield from ((("", skill.id), skill) for skill in script.skills)
    yield from (((INTERRUPTS, interrupt.id), interrupt) for interrupt in script.interrupts)
    yield from (((DETECTORS, detector.id), detector) for detector in script.detectors)


def actions_of(node: ScriptNode) -> tuple[Action, ...]:
    """Return the actions of a node itself; none for a phase."""
    return () if isinstance(node, Phase) else node.actions


def declarations_of(node: ScriptNode) -> tuple[Declaration, ...]:
    """Return the declarations of a node, and the parameters of a skill."""
    match node:
        case Skill():
            return (*node.params, *node.declare)
        case Phase() | Topic():
            return node.declare
        case _:
            return ()


def all_actions(script: Script) -> Iterator[Action]:
    """Yield every action of a script, except those of detectors."""
    for _, node in nodes(script):
        if not isinstance(node, Detector):
            yield from walk(actions_of(node))


def skills_called(script: Script, *lists: tuple[Action, ...]) -> set[str]:
    """Return the skills that lists of actions call, themselves or in a skill that they call."""
    skills = {skill.id: skill for skill in script.skills}
    called: set[str] = set()
    waiting = [*lists]
    while waiting:
        names = {action.skill for action in walk(waiting.pop()) if isinstance(action, Call)} - called
        called |= names
        waiting += [skills[name].actions for name in names if name in skills]
    return called


def all_declarations(script: Script) -> Iterator[Declaration]:
    """Yield every declaration of a script, of all scopes, and the parameters of skills."""
    yield from (*script.globals, *script.declare)
    yield from (each for _, node in nodes(script) for each in declarations_of(node))


# -- targets ---------------------------------------------------------------------------------------------------------


TopicIds: TypeAlias = Mapping[str, Collection[str]]
"""The ids of the topics of each phase, in order."""


def topic_ids(script: Script) -> TopicIds:
    """Return the ids of the phases and topics of a script."""
    return {phase.id: dict.fromkeys(topic.id for topic in phase.topics) for phase in script.phases}


def resolve_target(ids: TopicIds, target: str, phase_id: str) -> tuple[str, str] | None:
    """Resolve a target seen from a phase to (phase, topic) ids; a phase means its first topic. None if unknown."""
    first, slash, second = target.partition("/")
    if slash:
        return (first, second) if second in ids.get(first, ()) else None
    if target in ids.get(phase_id, ()):
        return phase_id, target
    return next(((target, topic) for topic in ids.get(target, ())), None)


SHARED = ("skills", "roles", "forms", "experiments", "interrupts", "repairs", "detectors", "tools")
"""The keys that scripts and include files have."""


class IncludeFile(Node, frozen=True, kw_only=True):
    """The keys of an include file."""

    use: tuple[str, ...] = ()
    globals: tuple[Declaration, ...] = ()
    skills: tuple[Skill, ...] = ()
    roles: tuple[Role, ...] = ()
    forms: tuple[FormDefinition, ...] = ()
    experiments: tuple[ExperimentPlan, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    repairs: tuple[Repair, ...] = ()
    detectors: tuple[Detector, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    strings: tuple[StringTable, ...] = ()


REFERENCE_CHARS_MAX = 2_000  # of a file reference: a URL, a path or an id

_STORED_AS: Mapping[FieldType, DeclaredType] = {"multichoice": "list", "table": "list", "file": "text"}
"""The types of variables that store fields of types which variables do not have."""


def kind_of(field: FormField) -> FieldType:
    """Return the type of a field; `choices` of a text field imply the type choice."""
    return "choice" if field.choice_list and field.type == "text" else field.type


def as_output(field: FormField) -> Output:
    """Return a field as an output; several choices and the rows of a table are lists.

    A computed field without a specific type has the type of its expression.
    """
    kind = kind_of(field)
    stored = cast(DeclaredType, _STORED_AS.get(kind, kind))
    limit = REFERENCE_CHARS_MAX if kind == "file" and field.max is None else field.max
    return Output(
        get=field.name,
        define=field.define,
        type=None if field.computed is not None and kind == "text" else stored,
        choice_list=field.choice_list if kind in {"choice", "number"} else (),
        pattern=field.pattern,
        min=field.min,
        max=limit,
        required=field.required,
        default=field.default,
        validate=field.validate,
        invalid=field.invalid,
        labels=field.labels,
        at=field.at,
        marks={**field.marks, "get": field.mark("field")},
    )

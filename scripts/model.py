"""The one typed model of a script, whatever spelling it came in. Frozen; a session never changes it.

The field names that authors write in the native form are the ``name=`` of each field; the reader
(`scripts.reader`) reads YAML into these types, so they are the grammar as well. What they are made of stands in
`scripts.nodes`, `scripts.variables` and `scripts.actions`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from scripts.actions import Action, OnInterrupted, walk
from scripts.detectors.parts import Example, Measure, Pattern, Rule, Sign
from scripts.experiments import ExperimentPlan, arm_variables
from scripts.memories import DEFAULT_PLAN, MemoryPlan
from scripts.nodes import Expression, Node, Reference, Template
from scripts.values import Value
from scripts.variables import Declaration
from scripts.written_context import Context

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
    """What a skill is given; one without a `value` must be given unless it is not `required`."""

    required: bool = True


class Skill(Node, frozen=True, kw_only=True):
    """Actions to be called by name. They see the parameters, what they set themselves, and global variables."""

    id: str = field(name="skill")
    title: str = ""
    goal: str = ""
    strategy: str = ""
    params: tuple[Parameter, ...] = ()
    returns: tuple[str, ...] = ()
    declare: tuple[Declaration, ...] = ()
    actions: tuple[Action, ...]


class Role(Node, frozen=True, kw_only=True):
    """Someone who speaks."""

    id: str = field(name="role")
    type: Literal["AI", "HUMAN"] = "AI"
    name: str = ""
    tone: str = ""
    define: str = ""
    desc: str = ""
    pic: str = ""
    attributes: Mapping[str, Value] = {}  # what the application wants to know besides


FieldType: TypeAlias = Literal["text", "number", "boolean", "date", "choice", "multichoice", "table", "file"]


class FormField(Node, frozen=True, kw_only=True):
    """One field of a form. It fills the variable of its name; a `computed` one is worked out, not filled in."""

    name: str = field(name="field")
    label: Template | None = None
    define: str = ""
    type: FieldType = "text"
    choices: tuple[str, ...] = ()
    required: bool = False
    placeholder: Template | None = None
    default: Value = None
    pattern: str | None = None
    min: int | float | str | None = None
    max: int | float | str | None = None
    validate: Expression | None = None
    invalid: Template | None = None
    computed: Expression | None = None
    columns: "tuple[FormField, ...]" = ()  # of a table
    labels: Mapping[str, str] = {}  # as in an output


class FormSheet(Node, frozen=True, kw_only=True):
    """A form: several typed fields that are filled in at once."""

    id: str = field(name="form")
    title: Template | None = None
    text: Template | None = None  # said when the form is shown
    fields: tuple[FormField, ...]


class Trigger(Node, frozen=True, kw_only=True):
    """What an interrupt listens for: words in the user's message, an intent the model sees in it, or a detector."""

    keywords: tuple[str, ...] = ()
    intent: str = ""
    detector: str = ""


class After(Node, frozen=True, kw_only=True):
    """Where the conversation goes on after an interrupt."""

    policy: Literal["resume", "restart_topic", "leave_topic", "skip", "goto", "end"] = "resume"
    target: str = ""


class Interrupt(Node, frozen=True, kw_only=True):
    """What the user may bring up at any time: its actions run, then the conversation goes on.

    Its actions see the session's and global variables, and their own while they last.
    """

    id: str = field(name="interrupt", default="")
    on: Trigger
    when: Expression | None = None
    priority: int = 0  # the highest that applies is taken; of equals the first
    actions: tuple[Action, ...] = field(name="do", default=())
    then: After = After()


RepairKind: TypeAlias = Literal["repeat", "skip", "cancel", "correct", "hand_over"]


class Repair(Node, frozen=True, kw_only=True):
    """A way in which users mend a conversation, ready-made; `on` and `say` replace the runtime's own words."""

    kind: RepairKind = field(name="repair")
    on: tuple[str, ...] = ()
    say: Template | None = None
    then: After | None = None


COOLDOWN_MAX = 1_000
LOOK_BACK_MAX = 50


class Detector(Node, frozen=True, kw_only=True):
    """Watches what is said, by words, by measures and, where there is one, by a model; and acts on what it sees.

    Its actions see `detected` and the session's and global variables. What they set and nobody declares is the
    session's.
    """

    id: str = field(name="detector")
    title: str = ""
    define: str = ""  # what a model looks for
    note: str = ""
    on: Literal["user", "assistant", "both"] = "user"
    when: Expression | None = None
    cooldown: Annotated[int, Meta(ge=0, le=COOLDOWN_MAX)] = 0  # turns in which it stays silent after it acted
    look_back: Annotated[int, Meta(ge=1, le=LOOK_BACK_MAX)] = 10  # messages, of both sides
    min_messages: Annotated[int, Meta(ge=1, le=LOOK_BACK_MAX)] = 1  # fewer tell measures and models nothing
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.7
    rules: tuple[Rule, ...] = ()
    measures: tuple[Measure, ...] = ()
    signs: tuple[Sign, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    on_failure: Literal["none", "use_previous"] = "none"  # what counts where the model fails
    actions: "tuple[Action, ...]" = field(name="do", default=())
    replace: Template | None = None  # said instead of what would have been said
    examples: tuple[Example, ...] = ()

    @property
    def watches_user(self) -> bool:
        """Whether the user's messages are its business."""
        return self.on != "assistant"

    @property
    def watches_assistant(self) -> bool:
        """Whether what the session says is its business."""
        return self.on != "user"


ON_BUDGET = ":on_budget"  # no detector's id begins with a colon


class Topic(Node, frozen=True, kw_only=True):
    """A unit of conversation with variables of its own."""

    id: str = field(name="topic")
    title: str = ""
    goal: str = ""
    strategy: str = ""
    when: Expression | None = None
    declare: tuple[Declaration, ...] = ()
    actions: tuple[Action, ...] = ()


class Phase(Node, frozen=True, kw_only=True):
    """A stretch of the conversation."""

    id: str = field(name="phase")
    title: str = ""
    goal: str = ""
    when: Expression | None = None
    declare: tuple[Declaration, ...] = ()
    topics: tuple[Topic, ...] = field()


FormName: TypeAlias = Literal["native", "session", "stage", "technique", "consciousness", "detectors"]


class Translation(Node, frozen=True, kw_only=True):
    """A line in another language. `of` is the text it is made from; `was` an older such text, while it is stale."""

    of: str | None = None
    was: str | None = None
    text: Template = Template("")

    @property
    def is_missing(self) -> bool:
        """Whether there is nothing to say yet."""
        return not self.text.source.strip()


class StringTable(Node, frozen=True, kw_only=True):
    """The lines of a script in one language, by their ids, and the runtime's own sentences.

    `unused` keeps what was translated for lines that the script no longer has.
    """

    locale: Locale = field(name="strings")
    lines: Mapping[str, Translation] = {}
    phrases: Mapping[str, str] = {}
    unused: Mapping[str, Translation] = {}


class Migrations(Node, frozen=True, kw_only=True):
    """What was renamed since earlier versions, old id to new, so that running sessions find their way."""

    phases: Mapping[str, Reference] = {}
    topics: Mapping[str, Reference] = {}
    actions: Mapping[str, Reference] = {}
    skills: Mapping[str, Reference] = {}
    interrupts: Mapping[str, Reference] = {}
    detectors: Mapping[str, Reference] = {}
    variables: Mapping[str, Reference] = {}


class Script(Node, frozen=True, kw_only=True):
    """A whole conversation. `locale` is the language its own texts are in."""

    id: str = field(name="script")
    title: str = ""
    version: str = ""
    description: str = ""
    author: str = ""
    tags: tuple[str, ...] = ()
    locale: Locale | None = None
    default_scope: DefaultScope = "topic"
    template_scheme: str = ""
    model: str = ""  # the language model it wants, by the name the server knows it
    on_interrupted: OnInterrupted = "retry"
    context: Context | None = None  # what of the conversation the model sees
    memory: MemoryPlan = DEFAULT_PLAN
    use: tuple[str, ...] = ()
    declare: tuple[Declaration, ...] = ()
    phases: tuple[Phase, ...] = field()
    # each of these: its own and those of its side files
    skills: tuple[Skill, ...] = ()
    roles: tuple[Role, ...] = ()
    forms: tuple[FormSheet, ...] = ()
    experiments: tuple[ExperimentPlan, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    repairs: tuple[Repair, ...] = ()
    migrations: Migrations = Migrations()
    detectors: tuple[Detector, ...] = ()
    on_budget: tuple[Action, ...] = ()  # done when a budget for language models is used up
    globals: tuple[Declaration, ...] = ()  # from side files, never written in the script itself
    strings: tuple[StringTable, ...] = ()  # from side files as well
    phrases: Mapping[str, str] = {}  # what a translated script says in place of the runtime's own sentences
    form: FormName = "native"

    @property
    def session_variables(self) -> tuple[Declaration, ...]:
        """What is declared in session scope, with the experiments whose arms sessions keep."""
        return (*self.declare, *arm_variables(self.experiments, "session"))

    @property
    def global_variables(self) -> tuple[Declaration, ...]:
        """What is declared in global scope, with the experiments whose arms users keep."""
        return (*self.globals, *arm_variables(self.experiments, "user"))

    @property
    def watchers(self) -> tuple[Detector, ...]:
        """What acts at once in the middle of a turn: the detectors, and `on_budget`, which acts as they do."""
        if not self.on_budget:
            return self.detectors
        return (*self.detectors, Detector(id=ON_BUDGET, actions=self.on_budget, at=self.mark("on_budget")))


def all_actions(script: Script) -> Iterator[Action]:
    """Every action of a script, wherever it stands."""
    for phase in script.phases:
        for topic in phase.topics:
            yield from walk(topic.actions)
    for skill in script.skills:
        yield from walk(skill.actions)
    for interrupt in script.interrupts:
        yield from walk(interrupt.actions)


def all_declarations(script: Script) -> Iterator[Declaration]:
    """Every declaration of a script, whatever scope it is of; of a skill also its parameters."""
    yield from script.globals
    yield from script.declare
    for phase in script.phases:
        yield from phase.declare
        for topic in phase.topics:
            yield from topic.declare
    for skill in script.skills:
        yield from (*skill.params, *skill.declare)

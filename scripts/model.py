"""The one typed model of a script, whatever spelling it came in. Frozen; a session never changes it.

The field names that authors write in the native form are the ``name=`` of each field; the reader
(`scripts.reader`) reads YAML into these types, so they are the grammar as well.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from scripts.detectors.parts import Example, Measure, Pattern, Rule, Sign
from scripts.nodes import NOWHERE as NOWHERE
from scripts.nodes import Expression as Expression
from scripts.nodes import Location as Location
from scripts.nodes import Node as Node
from scripts.nodes import Template as Template
from scripts.values import DeclaredType, Value

ROUNDS_MAX = 10
ROUNDS_DEFAULT = 3
CHAT_ROUNDS_MAX = 100
LOOP_TURNS_MAX = 1_000
ID_CHARS_MAX = 200

Rounds: TypeAlias = Annotated[int, Meta(ge=0, le=ROUNDS_MAX)]
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


class Reference(Struct, frozen=True):
    """An id that stands in another place than its own node."""

    id: str
    at: Location = NOWHERE


class Declaration(Node, frozen=True, kw_only=True):
    """A variable that a scope owns."""

    var: str
    define: str = ""
    value: Value = None
    type: DeclaredType | None = None
    choices: tuple[str, ...] = ()
    pii: bool = False
    auto: bool = False  # kept up to date from what the user says, whatever is being asked

    @property
    def kind(self) -> DeclaredType | None:
        """Its type; choices alone make it a choice."""
        return "choice" if self.choices and self.type is None else self.type


class Output(Node, frozen=True, kw_only=True):
    """A value that an action takes from the conversation."""

    get: str
    define: str = ""
    type: DeclaredType | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    min: int | float | str | None = None
    max: int | float | str | None = None
    required: bool | None = None
    default: Value = None
    validate: Expression | None = None
    invalid: Template | None = None
    fallback: Literal["raw"] | None = None
    labels: Mapping[str, str] = {}  # what the user reads for a choice, by its value, in a translated script

    @property
    def kind(self) -> DeclaredType | None:
        """Its type; choices alone make it a choice."""
        return "choice" if self.choices and self.type is None else self.type


class Assignment(Node, frozen=True, kw_only=True):
    """A value that an action computes once its own outputs are taken."""

    set: str
    value: Expression
    when: Expression | None = None


class Records(Node, frozen=True, kw_only=True):
    """Fields that belong together: each time they are taken, a list gets one record more.

    A model may find several records in one reply.
    """

    tolist: str
    fields: tuple[Output, ...]
    define: str = ""
    required: bool | None = None


OutputItem: TypeAlias = Output | Assignment | Records


class CustomCondition(Node, frozen=True, kw_only=True):
    """One comparison of a variable, as exit criteria list them."""

    variable: str
    operator: Literal["==", "!=", ">", "<", ">=", "<=", "contains"]
    value: Value


class ExitCriteria(Node, frozen=True, kw_only=True):
    """When an action that leads a conversation may stop, beside `exit` and `exit_when`."""

    understanding_threshold: Annotated[int, Meta(ge=0, le=100)] | None = None
    has_questions: bool | None = None
    min_rounds: Rounds = 0
    custom_conditions: tuple[CustomCondition, ...] = ()


class OnFail(Node, frozen=True, kw_only=True):
    """What follows when no valid answer came within the rounds."""

    policy: Literal["default", "skip", "goto", "end"] = "default"
    target: str = ""


class Step(Node, frozen=True, kw_only=True):
    """What every action may have."""

    id: str = ""
    when: Expression | None = None
    tone: str = ""
    role: str = ""


class Say(Step, frozen=True, kw_only=True):
    """The text as written; of several texts one is chosen, and the choice recorded."""

    texts: tuple[Template, ...] = field(name="say")


class AiSay(Step, frozen=True, kw_only=True):
    """Guidance that the model puts into words, in one or more utterances."""

    task: Template = field(name="ai_say")
    max_rounds: Rounds | None = None
    require_acknowledgment: bool | None = None
    exit_criteria: ExitCriteria | None = None

    @property
    def utterances(self) -> int:
        """How many messages it may say; the session waits between two of them."""
        return self.max_rounds or 1

    @property
    def waits_after(self) -> bool:
        """Whether a single utterance is followed by a wait."""
        if self.utterances > 1:
            return False
        if self.require_acknowledgment is None:
            return self.max_rounds == 1
        return self.require_acknowledgment


class Ask(Step, frozen=True, kw_only=True):
    """A fixed question whose answers are typed and validated."""

    question: Template = field(name="ask")
    outputs: tuple[OutputItem, ...] = field(name="output", default=())
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()


class AiAsk(Step, frozen=True, kw_only=True):
    """A question that the model leads until it has what the task asks for."""

    task: Template = field(name="ai_ask")
    outputs: tuple[OutputItem, ...] = field(name="output", default=())
    exit: Template | None = None
    exit_when: Expression | None = None
    exit_criteria: ExitCriteria | None = None
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()


class AiThink(Step, frozen=True, kw_only=True):
    """Silent: fills its outputs from the conversation."""

    task: Template = field(name="ai_think")
    outputs: tuple[OutputItem, ...] = field(name="output", default=())


class Set(Step, frozen=True, kw_only=True):
    """Assigns variables, in the order written."""

    assignments: Mapping[str, Expression] = field(name="set")


class ChoiceItem(Node, frozen=True, kw_only=True):
    """One of a closed choice; `value` is what the variable becomes (the key where none is given)."""

    key: str
    text: Template
    value: Value = None
    actions: "tuple[Action, ...]" = ()


class Choose(Step, frozen=True, kw_only=True):
    """A closed choice, kept in a variable; a choice may carry its own actions."""

    variable: str = field(name="choose")
    choices: tuple[ChoiceItem, ...] = field()
    question: Template | None = None
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()


class UserSay(Step, frozen=True, kw_only=True):
    """A suggested reply, shown as a button; any text is accepted."""

    text: Template = field(name="user_say")


class Media(Node, frozen=True, kw_only=True):
    """A picture or link with an optional caption; at least one of image and url."""

    image: Template | None = None
    url: Template | None = None
    caption: Template | None = None


class Show(Step, frozen=True, kw_only=True):
    """A media message."""

    media: Media = field(name="show")


class If(Step, frozen=True, kw_only=True):
    """A branch."""

    condition: Expression = field(name="if")
    then: "tuple[Action, ...]" = field()
    otherwise: "tuple[Action, ...]" = field(name="else", default=())


class Loop(Node, frozen=True, kw_only=True):
    """The list a `foreach` walks and the name its items get."""

    items: Expression
    name: str


class Foreach(Step, frozen=True, kw_only=True):
    """Its actions once for each item of a list."""

    loop: Loop = field(name="foreach")
    do: "tuple[Action, ...]" = field()


class Until(Node, frozen=True, kw_only=True):
    """When a `repeat` stops: checked after each pass, and after `max` passes in any case."""

    until: Expression | None = None
    max: Annotated[int, Meta(ge=1, le=LOOP_TURNS_MAX)] = 100


class Repeat(Step, frozen=True, kw_only=True):
    """Its actions again and again until a condition holds."""

    until: Until = field(name="repeat")
    do: "tuple[Action, ...]" = field()


class Call(Step, frozen=True, kw_only=True):
    """Runs a skill, once or for each record of a list.

    `input` gives its parameters, `output` names the variable that each of its returns goes to; with `foreach` an
    output goes into the record at hand.
    """

    skill: str = field(name="call")
    input: Mapping[str, Expression] = {}
    output: Mapping[str, str] = {}
    loop: Loop | None = field(name="foreach", default=None)


class Signal(Node, frozen=True, kw_only=True):
    """What an `emit` tells the application: the name of an event and its data."""

    event: str
    data: Mapping[str, Expression] = {}


class Emit(Step, frozen=True, kw_only=True):
    """An event for the application; the user sees nothing of it."""

    signal: Signal = field(name="emit")


class Form(Step, frozen=True, kw_only=True):
    """A form of the script, shown to be filled in as a whole; its fields are variables."""

    sheet: str = field(name="form")
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()


class Chat(Step, frozen=True, kw_only=True):
    """Free conversation, until the model or a condition ends it or its rounds are used up."""

    task: Template = field(name="chat")
    exit: Template | None = None
    exit_when: Expression | None = None
    exit_criteria: ExitCriteria | None = None
    max_rounds: Annotated[int, Meta(ge=1, le=CHAT_ROUNDS_MAX)] = ROUNDS_MAX


class Speakers(Node, frozen=True, kw_only=True):
    """Who talks with whom, by their roles; empty leaves a side as it is."""

    ai: str = ""
    human: str = ""


class Scene(Step, frozen=True, kw_only=True):
    """Selects the speakers from here on."""

    speakers: Speakers = field(name="scene")


class Goto(Step, frozen=True, kw_only=True):
    """A jump to the beginning of a topic or phase."""

    target: str = field(name="goto")


class End(Step, frozen=True, kw_only=True):
    """The end of the conversation, with a reason for the record."""

    reason: str | None = field(name="end")


Action: TypeAlias = (
    Say
    | AiSay
    | Ask
    | AiAsk
    | AiThink
    | Set
    | Choose
    | UserSay
    | Show
    | If
    | Call
    | Foreach
    | Repeat
    | Emit
    | Form
    | Chat
    | Scene
    | Goto
    | End
)
"""Everything a script can do. Matched exhaustively, so that a new action breaks the type check until handled."""

ACTION_TYPES: Mapping[str, type[Action]] = {
    "say": Say,
    "ai_say": AiSay,
    "ask": Ask,
    "ai_ask": AiAsk,
    "ai_think": AiThink,
    "set": Set,
    "choose": Choose,
    "user_say": UserSay,
    "show": Show,
    "if": If,
    "call": Call,
    "foreach": Foreach,
    "repeat": Repeat,
    "emit": Emit,
    "form": Form,
    "chat": Chat,
    "scene": Scene,
    "goto": Goto,
    "end": End,
}
_TYPE_NAMES = {kind: name for name, kind in ACTION_TYPES.items()}


def action_type(action: Action) -> str:
    """The word that names an action in a script: ``say``, ``ai_ask`` …"""
    return _TYPE_NAMES[type(action)]


def arms(action: Action) -> Mapping[str, "tuple[Action, ...]"]:
    """The lists of actions inside an action by the name of the arm; empty for what holds none."""
    match action:
        case If():
            return {"then": action.then, "else": action.otherwise}
        case Foreach() | Repeat():
            return {"do": action.do}
        case Choose():
            return {choice.key: choice.actions for choice in action.choices if choice.actions}
        case _:
            return {}


def rounds_of(action: Ask | AiAsk | Choose | Form | Chat) -> int:
    """How many answers a question takes before it gives up."""
    return action.max_rounds or ROUNDS_DEFAULT


def walk(actions: "tuple[Action, ...]") -> Iterator["Action"]:
    """Every action of a list with those inside it, in the order written."""
    for action in actions:
        yield action
        for inner in arms(action).values():
            yield from walk(inner)


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
    use: tuple[str, ...] = ()
    declare: tuple[Declaration, ...] = ()
    phases: tuple[Phase, ...] = field()
    # each of these: its own and those of its side files
    skills: tuple[Skill, ...] = ()
    roles: tuple[Role, ...] = ()
    forms: tuple[FormSheet, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    repairs: tuple[Repair, ...] = ()
    migrations: Migrations = Migrations()
    detectors: tuple[Detector, ...] = ()
    globals: tuple[Declaration, ...] = ()  # from side files, never written in the script itself
    strings: tuple[StringTable, ...] = ()  # from side files as well
    phrases: Mapping[str, str] = {}  # what a translated script says in place of the runtime's own sentences
    form: FormName = "native"

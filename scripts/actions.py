"""Everything a script can do: its actions, as authors write them, and what they are made of."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from scripts.memories import K, Score
from scripts.nodes import Expression, Node, Template
from scripts.values import Value
from scripts.variables import OutputItem
from scripts.written_context import Context

ROUNDS_MAX = 10
ROUNDS_DEFAULT = 3
CHAT_ROUNDS_MAX = 100
LOOP_TURNS_MAX = 1_000

Rounds: TypeAlias = Annotated[int, Meta(ge=0, le=ROUNDS_MAX)]


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


PolicyKey: TypeAlias = Literal["on_blocked", "on_off_topic"]
"""Which replies a policy is for: those that show the user cannot or will not answer, and those about something else."""


class Onward(Node, frozen=True, kw_only=True):
    """Where an action goes on after replies that lead nowhere."""

    policy: Literal["continue", "skip", "goto", "end"] = "continue"
    target: str = ""


class Policy(Node, frozen=True, kw_only=True):
    """What follows when the model judges so many replies in a row to lead nowhere."""

    say: Template | None = None  # in place of what the model would say
    then: Onward = Onward()
    after: Annotated[int, Meta(ge=1, le=ROUNDS_MAX)] = 1


class Step(Node, frozen=True, kw_only=True):
    """What every action may have."""

    id: str = ""
    when: Expression | None = None
    tone: str = ""
    role: str = ""


OnInterrupted: TypeAlias = Literal["retry", "fail"]
"""Whether a call of a language model that a crash interrupted is made again, or fails visibly first."""


class ModelStep(Step, frozen=True, kw_only=True):
    """What every action that a language model carries out may have besides."""

    model: str = ""  # by the name the server knows it
    on_interrupted: OnInterrupted | None = None


class Say(Step, frozen=True, kw_only=True):
    """The text as written; of several texts one is chosen, and the choice recorded."""

    texts: tuple[Template, ...] = field(name="say")


class AiSay(ModelStep, frozen=True, kw_only=True):
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


class AiAsk(ModelStep, frozen=True, kw_only=True):
    """A question that the model leads until it has what the task asks for."""

    task: Template = field(name="ai_ask")
    outputs: tuple[OutputItem, ...] = field(name="output", default=())
    exit: Template | None = None
    exit_when: Expression | None = None
    exit_criteria: ExitCriteria | None = None
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()
    on_blocked: Policy | None = None
    on_off_topic: Policy | None = None


class AiThink(ModelStep, frozen=True, kw_only=True):
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


class Experiment(Step, frozen=True, kw_only=True):
    """Where the conversation meets an experiment: the arm is drawn and kept, and its actions, if any, are done."""

    plan: str = field(name="experiment")
    arms: Mapping[str, "tuple[Action, ...]"] = {}


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

    @property
    def assigned(self) -> tuple[str, ...]:
        """The variables that its outputs go to; with `foreach` there are none, its outputs are fields of records."""
        return () if self.loop is not None else tuple(self.output)


class Signal(Node, frozen=True, kw_only=True):
    """What an `emit` tells the application: the name of an event and its data."""

    event: str
    data: Mapping[str, Expression] = {}


class Emit(Step, frozen=True, kw_only=True):
    """An event for the application; the user sees nothing of it."""

    signal: Signal = field(name="emit")


class Remember(Step, frozen=True, kw_only=True):
    """Keeps a note in the user's memory. One `about` the same as an earlier note takes its place."""

    text: Template = field(name="remember")
    about: Template | None = None
    source: Template | None = None
    pinned: bool = False
    metadata: Mapping[str, Value] = {}


class Recall(Step, frozen=True, kw_only=True):
    """Fills a variable with what the user's memory holds of something; a variable of type text gets it as a text."""

    query: Template = field(name="recall")
    into: str = field()
    k: K | None = None
    filters: Mapping[str, Value] = {}
    min_score: Score | None = None


class Form(Step, frozen=True, kw_only=True):
    """A form of the script, shown to be filled in as a whole; its fields are variables."""

    sheet: str = field(name="form")
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()


class Chat(ModelStep, frozen=True, kw_only=True):
    """Free conversation, until the model or a condition ends it or its rounds are used up; `opens` says who begins."""

    task: Template = field(name="chat")
    opens: Literal["ai", "user"] = "ai"
    exit: Template | None = None
    exit_when: Expression | None = None
    exit_criteria: ExitCriteria | None = None
    max_rounds: Annotated[int, Meta(ge=1, le=CHAT_ROUNDS_MAX)] = ROUNDS_MAX
    context: Context | None = None
    on_blocked: Policy | None = None
    on_off_topic: Policy | None = None


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
    | Experiment
    | Call
    | Foreach
    | Repeat
    | Emit
    | Remember
    | Recall
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
    "experiment": Experiment,
    "call": Call,
    "foreach": Foreach,
    "repeat": Repeat,
    "emit": Emit,
    "remember": Remember,
    "recall": Recall,
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
        case Experiment():
            return action.arms
        case Foreach() | Repeat():
            return {"do": action.do}
        case Choose():
            return {choice.key: choice.actions for choice in action.choices if choice.actions}
        case _:
            return {}


def policies(action: Action) -> "Mapping[PolicyKey, Policy]":
    """What an action says of replies that lead nowhere, by the key it says it with."""
    if not isinstance(action, AiAsk | Chat):
        return {}
    found: Mapping[PolicyKey, Policy | None] = {"on_blocked": action.on_blocked, "on_off_topic": action.on_off_topic}
    return {key: policy for key, policy in found.items() if policy is not None}


def rounds_of(action: Ask | AiAsk | Choose | Form | Chat) -> int:
    """How many answers a question takes before it gives up."""
    return action.max_rounds or ROUNDS_DEFAULT


def walk(actions: "tuple[Action, ...]") -> Iterator["Action"]:
    """Every action of a list with those inside it, in the order written."""
    for action in actions:
        yield action
        for inner in arms(action).values():
            yield from walk(inner)

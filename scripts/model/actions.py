"""The actions of a script, as authors write them, and their parts."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, get_args

from msgspec import Meta, Struct, field
from msgspec.structs import FieldInfo, fields

from scripts.expressions.values import Value
from scripts.model.base import Assigned, Expression, Node, Results, Template, rebuild
from scripts.model.context_strategies import Context
from scripts.model.memory_plan import K, Score
from scripts.model.moments import Moment
from scripts.model.tools import Given, Timeout
from scripts.model.variables import OutputItem

ROUNDS_DEFAULT = 3
ROUNDS_MAX = 10
CHAT_ROUNDS_MAX = 100
LOOP_TURNS_MAX = 1_000
ON_FAIL = "on_fail"
"""The arm of the actions after a question without a valid answer, or a failed tool."""


Rounds: TypeAlias = Annotated[int, Meta(ge=0, le=ROUNDS_MAX)]
Percent: TypeAlias = Annotated[int, Meta(ge=0, le=100)]


class Exit(Node, frozen=True, kw_only=True):
    """Criteria of which all must be met for an action to end.

    `said` is for the model to judge; `understanding` and `no_questions` are about what the model says of the user.
    """

    said: Template | None = None
    when: Expression | None = None
    understanding: Percent | None = None
    no_questions: bool | None = None
    min_rounds: Rounds = 0

    @property
    def has_criteria(self) -> bool:
        """Whether it can be met; a minimum of rounds alone ends nothing."""
        return self.said is not None or self.when is not None or self.is_judged

    @property
    def is_judged(self) -> bool:
        """Whether the model must say how much the user understands."""
        return self.understanding is not None or self.no_questions is not None

    @property
    def has_only_words(self) -> bool:
        """Whether nothing but the model's judgement of `said` counts."""
        return self.said is not None and self.when is None and not self.is_judged and not self.min_rounds

    @property
    def has_only_condition(self) -> bool:
        """Whether nothing but `when` counts."""
        return self.when is not None and self.said is None and not self.is_judged and not self.min_rounds


class IfKnown(Node, frozen=True, kw_only=True):
    """What a question does if all its variables have values that are no defaults: ask, skip itself, or confirm them."""

    confirm: Template | None = None
    policy: Literal["ask", "skip", "confirm"] = "ask"


class AfterRounds(Node, frozen=True, kw_only=True):
    """Where the conversation continues without a valid answer; `default` and `skip`: with the next action."""

    policy: Literal["default", "skip", "goto", "end"] = "default"
    target: str = ""


class OnFail(Node, frozen=True, kw_only=True):
    """What to do if there is no valid answer within the rounds: say a text, run actions, then continue or leave."""

    say: Template | None = None
    actions: "tuple[Action, ...]" = field(name="do", default=())
    then: AfterRounds = AfterRounds()


PolicyKey: TypeAlias = Literal["on_blocked", "on_off_topic"]
"""The replies that a policy handles: the user cannot or will not answer, or talks about something else."""


class Onward(Node, frozen=True, kw_only=True):
    """Where the conversation continues after unproductive replies."""

    policy: Literal["continue", "skip", "goto", "end"] = "continue"
    target: str = ""


class Policy(Node, frozen=True, kw_only=True):
    """What to do after `after` consecutive replies that the model judges unproductive."""

    say: Template | None = None  # replaces the model's own reply
    then: Onward = Onward()
    after: Annotated[int, Meta(ge=1, le=ROUNDS_MAX)] = 1


class Reminder(Moment, frozen=True, kw_only=True):
    """What the session says or does at a moment while it waits for a reply; the wait goes on."""

    say: Template | None = None
    actions: "tuple[Action, ...]" = field(name="do", default=())


class Expiry(Moment, frozen=True, kw_only=True):
    """When a question expires, what is done then, and where the conversation continues."""

    actions: "tuple[Action, ...]" = field(name="do", default=())
    then: Onward = Onward(policy="skip")


class Step(Node, frozen=True, kw_only=True):
    """The keys that every action may have."""

    id: str = ""
    when: Expression | None = None
    tone: str = ""
    role: str = ""
    interruptible: bool = True  # by words and intents; detectors always interrupt
    milestone: str = ""  # reached when the action ends


OnInterrupted: TypeAlias = Literal["retry", "fail"]
"""Whether a language model call that a crash interrupted is retried, or fails with an error first."""


class Into(Node, frozen=True, kw_only=True):
    """The variables that store a result: each takes a field of it, or all of it if the field is empty."""

    variables: Mapping[str, str]


class ModelTool(Node, frozen=True, kw_only=True):
    """A tool that the model may call before it answers, and the variables that store the result."""

    tool: str
    into: Into | None = None


class ModelStep(Step, frozen=True, kw_only=True):
    """The additional keys of actions that call a language model."""

    model: str = ""  # the name that the server configures
    on_interrupted: OnInterrupted | None = None


class Acknowledgement(Node, frozen=True, kw_only=True):
    """The wait for any reply after a message; `text` is a reply that a button suggests."""

    text: Template | None = None


class Say(Step, frozen=True, kw_only=True):
    """Says a fixed text; of several texts one is chosen, and the choice is recorded."""

    texts: tuple[Template, ...] = field(name="say")
    acknowledge: Acknowledgement | None = None
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None


class AiSay(ModelStep, frozen=True, kw_only=True):
    """The model phrases one or more utterances from the instructions; the session waits between them."""

    task: Template = field(name="ai_say")
    utterances: Annotated[int, Meta(ge=1, le=ROUNDS_MAX)] = 1
    acknowledge: Acknowledgement | None = None
    exits: tuple[Exit, ...] = field(name="exit", default=())
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None


class Ask(Step, frozen=True, kw_only=True):
    """Asks a fixed question and validates the typed answers."""

    question: Template = field(name="ask")
    outputs: tuple[OutputItem, ...] = field(name="output", default=())
    if_known: IfKnown = IfKnown()
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None


class AiAsk(ModelStep, frozen=True, kw_only=True):
    """The model asks until it has the information that the task describes."""

    task: Template = field(name="ai_ask")
    outputs: tuple[OutputItem, ...] = field(name="output", default=())
    if_known: IfKnown = IfKnown()
    exits: tuple[Exit, ...] = field(name="exit", default=())
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()
    tools: tuple[ModelTool, ...] = ()
    on_blocked: Policy | None = None
    on_off_topic: Policy | None = None
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None


class AiThink(ModelStep, frozen=True, kw_only=True):
    """The model sets the outputs from the conversation, without a message."""

    task: Template = field(name="ai_think")
    outputs: tuple[OutputItem, ...] = field(name="output", default=())


class Set(Step, frozen=True, kw_only=True):
    """Assigns variables, in the order written."""

    assignments: Mapping[str, Assigned] = field(name="set")


class Add(Step, frozen=True, kw_only=True):
    """Appends a value to each list, in the order written; a list without a value begins with it."""

    additions: Mapping[str, Assigned] = field(name="add")


class Loop(Node, frozen=True, kw_only=True):
    """A list whose items are gone through, and the variable of the current item."""

    items: Expression
    name: str


class ChoiceItem(Node, frozen=True, kw_only=True):
    """One choice of a closed list; `value` is stored in the variable, by default the key."""

    key: str
    text: Template
    value: Value = None
    when: Expression | None = None
    once: bool = False  # offered until it is chosen once in a session
    actions: "tuple[Action, ...]" = ()


class ListedChoices(Node, frozen=True, kw_only=True):
    """A choice for each item of a list; `key`, `text` and `when` may use the item."""

    loop: Loop = field(name="each")
    key: Assigned
    text: Template
    when: Expression | None = None
    once: bool = False


class Choose(Step, frozen=True, kw_only=True):
    """Offers a closed list of choices and stores the chosen one; a choice may have actions of its own."""

    variable: str = field(name="choose")
    choices: tuple[ChoiceItem | ListedChoices, ...] = field()
    question: Template | None = None
    if_known: IfKnown = IfKnown()
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None

    @property
    def fixed(self) -> tuple[ChoiceItem, ...]:
        """The choices that do not come from a list."""
        return tuple(each for each in self.choices if isinstance(each, ChoiceItem))

    @property
    def is_fixed(self) -> bool:
        """Whether no choice comes from a list."""
        return len(self.fixed) == len(self.choices)


class UserSay(Step, frozen=True, kw_only=True):
    """Suggests a reply as a button; any text is accepted."""

    text: Template = field(name="user_say")
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None


class Media(Node, frozen=True, kw_only=True):
    """A picture or link with an optional caption; at least one of image and url."""

    image: Template | None = None
    url: Template | None = None
    caption: Template | None = None


class Show(Step, frozen=True, kw_only=True):
    """Sends a media message."""

    media: Media = field(name="show")
    acknowledge: Acknowledgement | None = None
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None


class If(Step, frozen=True, kw_only=True):
    """Runs one of two lists of actions, depending on a condition."""

    condition: Expression = field(name="if")
    then: "tuple[Action, ...]" = field()
    otherwise: "tuple[Action, ...]" = field(name="else", default=())


class Experiment(Step, frozen=True, kw_only=True):
    """Assigns an arm of an experiment, stores it, and runs the actions of the arm, if any."""

    plan: str = field(name="experiment")
    arms: Mapping[str, "tuple[Action, ...]"] = {}


class Foreach(Step, frozen=True, kw_only=True):
    """Runs its actions once for each item of a list."""

    loop: Loop = field(name="foreach")
    do: "tuple[Action, ...]" = field()


class Until(Node, frozen=True, kw_only=True):
    """When a `repeat` stops: the condition is checked after each iteration; it stops after `max` in any case."""

    until: Expression | None = None
    max: Annotated[int, Meta(ge=1, le=LOOP_TURNS_MAX)] = 100


class Repeat(Step, frozen=True, kw_only=True):
    """Repeats its actions until a condition is true."""

    until: Until = field(name="repeat")
    do: "tuple[Action, ...]" = field()


class Call(Step, frozen=True, kw_only=True):
    """Runs a skill with values for its parameters, once or for each record of a list.

    The variables for its results, or one for all of them, are named beside it; with `foreach` they are fields of the
    current record.
    """

    skill: str = field(name="call")
    input: Mapping[str, Assigned] = {}
    output: Results = field(default_factory=dict)
    loop: Loop | None = field(name="foreach", default=None)

    @property
    def assigned(self) -> tuple[str, ...]:
        """The variables that store its outputs; empty with `foreach`, whose outputs are fields of records."""
        return () if self.loop is not None else tuple(self.output)


HAND_OVER = "hand_over"
"""The event that asks for a person."""


class Signal(Node, frozen=True, kw_only=True):
    """The event that `emit` sends to the application: its name and its data."""

    event: str
    data: Mapping[str, Assigned] = {}


class Emit(Step, frozen=True, kw_only=True):
    """Sends an event to the application; the user does not see it."""

    signal: Signal = field(name="emit")


class Remember(Step, frozen=True, kw_only=True):
    """Stores a note in the user's memory. A note replaces an earlier note with the same `about`."""

    text: Template = field(name="remember")
    about: Template | None = None
    source: Template | None = None
    pinned: bool = False
    metadata: Mapping[str, Value] = {}


class Recall(Step, frozen=True, kw_only=True):
    """Searches the user's memory and stores the results in a variable; in one of type text, as a text."""

    query: Template = field(name="recall")
    into: str = field()
    k: K | None = None
    filters: Mapping[str, Value] = {}
    min_score: Score | None = None


class FailureExit(Node, frozen=True, kw_only=True):
    """Where the conversation continues after a failed tool; `skip`: with the next action."""

    policy: Literal["skip", "goto", "end"] = "skip"
    target: str = ""


class OnToolFailure(Node, frozen=True, kw_only=True):
    """What to do if a tool fails: say a text, run actions, which may read `failure`, and then continue or leave."""

    say: Template | None = None
    actions: "tuple[Action, ...]" = field(name="do", default=())
    then: FailureExit = FailureExit()


class CallTool(Step, frozen=True, kw_only=True):
    """Calls a tool of the script and stores its result.

    `with` sets the parameters. Without `on_fail` a failure ends the turn with an error, and the session does not
    change.
    """

    tool: str
    given: Mapping[str, Given] = field(name="with", default={})
    into: Into | None = None
    timeout: Timeout | None = None
    on_fail: OnToolFailure | None = None
    on_interrupted: OnInterrupted | None = None


class Form(Step, frozen=True, kw_only=True):
    """Shows a form of the script, which the user fills in as a whole; its fields are variables."""

    sheet: str = field(name="form")
    max_rounds: Rounds = ROUNDS_DEFAULT
    invalid: Template | None = None
    on_fail: OnFail = OnFail()
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None


class Chat(ModelStep, frozen=True, kw_only=True):
    """Leads a free conversation until the model, a condition or its rounds ends it; `opens` says who starts."""

    task: Template = field(name="chat")
    opens: Literal["ai", "user"] = "ai"
    exits: tuple[Exit, ...] = field(name="exit", default=())
    max_rounds: Annotated[int, Meta(ge=1, le=CHAT_ROUNDS_MAX)] = ROUNDS_MAX
    context: Context | None = None
    tools: tuple[ModelTool, ...] = ()
    on_blocked: Policy | None = None
    on_off_topic: Policy | None = None
    remind: tuple[Reminder, ...] = ()
    expire: Expiry | None = None


class Speakers(Node, frozen=True, kw_only=True):
    """The roles of both sides; an empty role leaves that side unchanged."""

    ai: str = ""
    human: str = ""


class Scene(Step, frozen=True, kw_only=True):
    """Sets the speakers from here on."""

    speakers: Speakers = field(name="scene")


class Sleep(Step, frozen=True, kw_only=True):
    """Waits for a moment. `on_message` is what a message does meanwhile: `hold`, `resume`, or a topic that answers."""

    moment: Moment = field(name="wait")
    on_message: str = "hold"


class Goto(Step, frozen=True, kw_only=True):
    """Jumps to the beginning of a topic or phase."""

    target: str = field(name="goto")


class Ending(Node, frozen=True, kw_only=True):
    """How a conversation ends: a reason for analysts, and an outcome such as completed, refused or transferred."""

    reason: str = ""
    outcome: str = ""


class End(Step, frozen=True, kw_only=True):
    """Ends the conversation, with a reason and an outcome that are stored."""

    ending: Ending | None = field(name="end")


class OwnAction(Step, frozen=True, kw_only=True):
    """An action of an installed package: a subclass with its fields, of which the first required one names it."""


Action: TypeAlias = (
    Say
    | AiSay
    | Ask
    | AiAsk
    | AiThink
    | Set
    | Add
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
    | CallTool
    | Form
    | Chat
    | Scene
    | Sleep
    | Goto
    | End
    | OwnAction
)
"""All actions. Matched exhaustively, so that a new action breaks the type check until it is handled."""


@cache
def key_field(kind: type[Struct]) -> FieldInfo:
    """Return the field whose key names an action: the first required one."""
    return next(each for each in fields(kind) if each.required)


ACTION_TYPES: Mapping[str, type[Action]] = {
    key_field(kind).encode_name: kind for kind in get_args(Action) if kind is not OwnAction
}
Question: TypeAlias = Say | AiSay | Show | Ask | AiAsk | Choose | UserSay | Form | Chat
"""The actions that may wait for a reply, and may remind of it or expire."""
Asking: TypeAlias = Ask | AiAsk | Choose | Form
"""The actions that require a valid answer within their rounds."""
Leading: TypeAlias = AiSay | AiAsk | Chat
"""The actions in which the model leads, which have exits."""

_TYPE_NAMES = {kind: name for name, kind in ACTION_TYPES.items()}
REMINDED, EXPIRED = "remind ", "expire"  # beginnings of the arms with the actions of reminders and expiry


def action_type(action: Action) -> str:
    """Return the key that names an action in a script: ``say``, ``ai_ask`` …"""
    return _TYPE_NAMES.get(type(action)) or key_field(type(action)).encode_name


def arms(action: Action) -> Mapping[str, "tuple[Action, ...]"]:
    """Return the lists of actions inside an action, by arm; empty for an action without arms."""
    match action:
        case If():
            return {"then": action.then, "else": action.otherwise}
        case Experiment():
            return action.arms
        case Foreach() | Repeat():
            return {"do": action.do}
        case Choose():
            chosen = {choice_arm(choice.key): choice.actions for choice in action.fixed if choice.actions}
            return {**chosen, **_side_arms(action)}
        case Say() | AiSay() | Show() | Ask() | AiAsk() | UserSay() | Form() | Chat():
            return _side_arms(action)
        case CallTool() if action.on_fail is not None and action.on_fail.actions:
            return {ON_FAIL: action.on_fail.actions}
        case _:
            return {}


def choice_arm(key: str) -> str:
    """Return the arm of a choice's actions: its key, unless another arm of a question may have that name."""
    return f"choice {key}" if key in {ON_FAIL, EXPIRED} or key.startswith(REMINDED) else key


def timed_arms(action: Question) -> Mapping[str, "tuple[Action, ...]"]:
    """Return the actions of reminders and expiry, by arm."""
    found = {f"{REMINDED}{each.text}": each.actions for each in action.remind if each.actions}
    return found | ({EXPIRED: action.expire.actions} if action.expire is not None and action.expire.actions else {})


def _side_arms(action: Question) -> Mapping[str, "tuple[Action, ...]"]:
    """Return the actions of reminders and expiry, and those without a valid answer, by arm."""
    timed = timed_arms(action) if action.remind or action.expire is not None else {}
    failing = action.on_fail.actions if isinstance(action, Asking) else ()
    return {**timed, ON_FAIL: failing} if failing else timed


def outputs_of(action: Action) -> tuple[OutputItem, ...]:
    """Return the outputs of an action."""
    return action.outputs if isinstance(action, Ask | AiAsk | AiThink) else ()


def policies(action: Action) -> "Mapping[PolicyKey, Policy]":
    """Return the policies of an action, by their keys."""
    if not isinstance(action, AiAsk | Chat):
        return {}
    found: Mapping[PolicyKey, Policy | None] = {"on_blocked": action.on_blocked, "on_off_topic": action.on_off_topic}
    return {key: policy for key, policy in found.items() if policy is not None}


def tools_of(action: Action) -> tuple[ModelTool, ...]:
    """Return the tools that the model of an action may call."""
    return action.tools if isinstance(action, AiAsk | Chat) else ()


def rounds_of(action: Asking | Chat) -> int:
    """Return the maximum number of answers to a question."""
    return action.max_rounds or ROUNDS_DEFAULT


def with_arms(action: Action, change: "Callable[[tuple[Action, ...]], tuple[Action, ...]]") -> Action:
    """Return an action with each of its inner lists replaced; `change` returns an empty list for an empty one."""

    def change_lists(part: Any) -> Any:
        match part:
            case (Step(), *_):
                return change(part)
            case ChoiceItem() | Reminder() | Expiry() | OnFail() | OnToolFailure() | tuple() | dict():
                return rebuild(part, change_lists)
            case _:
                return part

    changed: Action = rebuild(action, change_lists) if arms(action) else action
    return changed


def walk(actions: "tuple[Action, ...]") -> Iterator["Action"]:
    """Yield every action of a list and the actions inside it, in the order written."""
    for action in actions:
        yield action
        for inner in arms(action).values():
            yield from walk(inner)

"""The events of a turn, in order: the single source of answers, streams and stored rows."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from runtime.state.recall_types import By, RecalledUnit, Trust
from runtime.state.state import Source, Wait
from runtime.state.tool_ports import ToolFailure
from scripts.expressions.values import Value, ValueType
from scripts.model.experiments import Unit
from scripts.model.script import RepairKind, Scope

HISTORY_MAX = 50  # messages that a template or a model sees

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
"""The speaker of a message; `system` and `tool` occur only in messages that an application added."""


Advance: TypeAlias = Literal["continue_needed", "completed", "blocked", "off_topic"]
"""The effect of a reply on an action that leads a conversation, as the model judges it."""


class Message(Struct, frozen=True, tag_field="kind", tag="message"):
    """A message. `number` counts the session's messages from 1."""

    number: int
    message_id: str
    role: Role
    content: str
    action_id: str
    metadata: Mapping[str, Value] = {}


class VariableChanged(Struct, frozen=True, tag_field="kind", tag="variable"):
    """A write of a variable; null means unset."""

    scope: Scope
    name: str
    old: Value
    new: Value
    type: ValueType
    source: Source
    action_id: str
    phase_id: str
    topic_id: str


class ScopeEntered(Struct, frozen=True, tag_field="kind", tag="scope_entered"):
    """A phase or topic begins."""

    scope: Literal["phase", "topic"]
    id: str
    entry: int


class ScopeLeft(Struct, frozen=True, tag_field="kind", tag="scope_left"):
    """A phase or topic ends; its variables are deleted."""

    scope: Literal["phase", "topic"]
    id: str
    entry: int


class ScopeSkipped(Struct, frozen=True, tag_field="kind", tag="scope_skipped"):
    """A phase or topic whose `when` did not hold."""

    scope: Literal["phase", "topic"]
    id: str


class ActionEntered(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="action_entered"):
    """An action begins."""

    action_id: str
    action_type: str
    skill: str = ""  # the skill that contains the action, if any
    interrupt: str = ""  # or the interrupt
    detector: str = ""  # or the detector


class ActionLeft(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="action_left"):
    """An action ends after this many rounds."""

    action_id: str
    rounds: int
    skill: str = ""  # the skill that contains the action, if any
    interrupt: str = ""  # or the interrupt
    detector: str = ""  # or the detector


class ActionSkipped(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="action_skipped"):
    """An action whose `when` did not hold."""

    action_id: str
    action_type: str
    skill: str = ""  # the skill that contains the action, if any
    interrupt: str = ""  # or the interrupt
    detector: str = ""  # or the detector


class VariantChosen(Struct, frozen=True, tag_field="kind", tag="variant"):
    """The text selected from several ones, counted from 0."""

    action_id: str
    index: int


class Exited(Struct, frozen=True, tag_field="kind", tag="exit"):
    """Why an action that leads a conversation ended."""

    action_id: str
    source: str
    reason: str


class Judged(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="judged"):
    """The judgement of a reply in an action that leads a conversation."""

    action_id: str
    round: int
    progress: Advance
    understanding: int | None = None  # percent
    has_questions: bool | None = None
    exit: bool = False
    reason: str = ""


class Jumped(Struct, frozen=True, tag_field="kind", tag="jump"):
    """A `goto` was executed."""

    action_id: str
    phase_id: str
    topic_id: str


class Waiting(Struct, frozen=True, tag_field="kind", tag="wait"):
    """The turn ends and the session waits for the user."""

    action_id: str
    wait: Wait


class Warned(Struct, frozen=True, tag_field="kind", tag="warning"):
    """A warning for the script's author; the session continues."""

    code: str
    message: str
    action_id: str


class Interrupted(Struct, frozen=True, tag_field="kind", tag="interrupted"):
    """An interrupt was triggered while an action waited."""

    interrupt: str
    action_id: str


class Repaired(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="repaired"):
    """The user repaired the conversation: had something repeated, skipped, cancelled, corrected, or handed over."""

    repair: RepairKind
    action_id: str
    variables: tuple[str, ...] = ()  # the corrected variables


class Detected(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="detected"):
    """A detector fired on a message and ran its actions."""

    detector: str
    label: str
    score: float
    severity: float
    by: Literal["rule", "measure", "model"]
    message: int  # the number of the message
    words: tuple[str, ...] = ()
    note: str = ""


class Emitted(Struct, frozen=True, tag_field="kind", tag="emitted"):
    """A custom event that the script sends to the application."""

    action_id: str
    event: str
    data: Mapping[str, Value]


class Exposed(Struct, frozen=True, tag_field="kind", tag="exposed"):
    """The session's first exposure to an experiment, or its change to another arm."""

    action_id: str
    experiment: str
    arm: str
    by: Unit  # whether the user or the session is assigned to the arm


class Remembered(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="remembered"):
    """A note for the user's memory. It replaces an earlier note with the same `about`."""

    unit_id: str
    action_id: str
    text: str
    source: str
    trust: Trust = "own"
    about: str = ""
    pinned: bool = False
    metadata: Mapping[str, Value] = {}


class Recollected(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="recalled"):
    """A search of the user's memory: who made it, and the units with their scores, as the session received them."""

    action_id: str
    query: str
    by: By
    k: int
    filters: Value = None
    units: tuple[RecalledUnit, ...] = ()
    failed: str = ""  # why the search failed


class ToolCalled(Struct, frozen=True, tag_field="kind", tag="tool_call"):
    """A tool is called, with its arguments."""

    action_id: str
    tool: str
    arguments: Mapping[str, Value]


class ToolAnswered(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="tool_result"):
    """The result of a tool, or why it failed."""

    action_id: str
    tool: str
    result: Value = None
    failure: ToolFailure | None = None


class Migrated(Struct, frozen=True, tag_field="kind", tag="migrated"):
    """The session migrated to another version of its script; places are phase/topic/action."""

    verdict: str
    why: tuple[str, ...]
    old_place: str
    new_place: str


class Intervened(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="intervention"):
    """An intervention of the application; it is the first event of its turn.

    `first` and `last` are the numbers of the messages that were added, removed from the conversation, or summarised.
    """

    what: Literal[
        "pause",
        "resume",
        "end",
        "set_variables",
        "rewind",
        "clear",
        "append",
        "compress",
        "take_over",
        "speak",
        "give_back",
        "use_model",
    ]
    reason: str = ""  # to end
    scope: Scope | None = None  # to set variables: the requested scope
    turn: int | None = None  # to rewind: the turn whose state was restored
    first: int | None = None
    last: int | None = None
    keep: int | None = None  # to compress: how many messages are not summarised
    instruct: str = ""  # to compress: what the summary must contain
    model: str = ""  # to use a model: its name; empty: those that the script names
    operator: str = ""  # to take over, speak or give back: the person


class Resized(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="resized"):
    """The conversation as models see it became shorter; all messages stay in the database."""

    strategy: str
    type: str  # `lite`, `deep`, `summary`, `memo`, `compress`, or the name that a handler gives
    reason: str
    after: int = 0  # the window begins after this message
    summary_to: int = 0  # the last message that the summary covers
    memo_to: int = 0  # the last message that the memo covers
    by: Literal["model", "extract", ""] = ""  # the origin of the new summary or memo, if there is one
    tokens: int = 0  # estimated number of tokens of summary and memo


class TimerFired(Struct, frozen=True, tag_field="kind", tag="timer"):
    """A moment of the script has come: the first event of its turn, which no message and no application caused.

    `missed` are the moments of the reminders that were due before and did not speak.
    """

    action_id: str
    timer_id: str
    timer: Literal["wait", "remind", "expire"]
    due: datetime
    moment: str = ""  # empty if all reminders that were due are missed
    missed: tuple[str, ...] = ()
    is_by_hand: bool = False  # the application fired it, perhaps before it was due
    source: Literal["timer"] = "timer"


EndedBy: TypeAlias = Literal["script", "end_action", "user", "application", "rounds", "expired"]
"""What ended a conversation: the end of the script; an `end` action; the user, by an interrupt or a repair; the
application; a question without a usable reply in its rounds; or a question that expired.
"""


class MilestoneReached(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="milestone"):
    """The conversation reached a milestone of the script: an action or topic that has it ended."""

    name: str
    action_id: str = ""  # empty for that of a topic


class Ended(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="ended"):
    """The conversation is over."""

    reason: str
    by: EndedBy | None = None  # null in rows of versions that did not store it
    action_id: str = ""  # the action that ended it, if one did
    outcome: str = ""  # of the script's `end`; completed at the end of the script, abandoned if a question expired


Body: TypeAlias = (
    Message
    | VariableChanged
    | ScopeEntered
    | ScopeLeft
    | ScopeSkipped
    | ActionEntered
    | ActionLeft
    | ActionSkipped
    | VariantChosen
    | Judged
    | Exited
    | Jumped
    | Waiting
    | Warned
    | Interrupted
    | Repaired
    | Detected
    | Emitted
    | Exposed
    | Remembered
    | Recollected
    | ToolCalled
    | ToolAnswered
    | Migrated
    | Intervened
    | Resized
    | TimerFired
    | MilestoneReached
    | Ended
)


class Event(Struct, frozen=True):
    """An event, numbered without gaps within its session from 1."""

    seq: int
    body: Body

"""What happens in a turn, in order: the one account that answers, streams and the record are made from."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from runtime.recalled import By, RecalledUnit, Trust
from runtime.state import Source, Wait
from scripts.experiments import Unit
from scripts.model import RepairKind, Scope
from scripts.values import Value, ValueType

HISTORY_MAX = 50  # messages a template or a model sees

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
"""Who said something; `system` and `tool` only where an application put it there."""


Advance: TypeAlias = Literal["continue_needed", "completed", "blocked", "off_topic"]
"""What a reply did for an action that leads a conversation, as the model judges it."""


class Message(Struct, frozen=True, tag_field="kind", tag="message"):
    """Something said. `number` counts the session's messages from 1."""

    number: int
    message_id: str
    role: Role
    content: str
    action_id: str
    metadata: Mapping[str, Value] = {}


class VariableChanged(Struct, frozen=True, tag_field="kind", tag="variable"):
    """A write; null means unset."""

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
    """A phase or topic ends, and its variables with it."""

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
    skill: str = ""  # the skill it stands in, if it does
    interrupt: str = ""  # or the interrupt
    detector: str = ""  # or the detector


class ActionLeft(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="action_left"):
    """An action ends after this many rounds."""

    action_id: str
    rounds: int
    skill: str = ""  # the skill it stands in, if it does
    interrupt: str = ""  # or the interrupt
    detector: str = ""  # or the detector


class ActionSkipped(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="action_skipped"):
    """An action whose `when` did not hold."""

    action_id: str
    action_type: str
    skill: str = ""  # the skill it stands in, if it does
    interrupt: str = ""  # or the interrupt
    detector: str = ""  # or the detector


class VariantChosen(Struct, frozen=True, tag_field="kind", tag="variant"):
    """Which of several texts was taken, counted from 0."""

    action_id: str
    index: int


class Exited(Struct, frozen=True, tag_field="kind", tag="exit"):
    """Why an action that leads a conversation stopped."""

    action_id: str
    source: str
    reason: str


class Judged(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="judged"):
    """What a reply came to for an action that leads a conversation."""

    action_id: str
    round: int
    progress: Advance
    understanding: int | None = None  # percent
    has_questions: bool | None = None
    exit: bool = False
    reason: str = ""


class Jumped(Struct, frozen=True, tag_field="kind", tag="jump"):
    """A `goto` was taken."""

    action_id: str
    phase_id: str
    topic_id: str


class Waiting(Struct, frozen=True, tag_field="kind", tag="wait"):
    """The turn ends and the session waits for the user."""

    action_id: str
    wait: Wait


class Warned(Struct, frozen=True, tag_field="kind", tag="warning"):
    """Something the script's author should know; the session goes on."""

    code: str
    message: str
    action_id: str


class Interrupted(Struct, frozen=True, tag_field="kind", tag="interrupted"):
    """An interrupt came up while an action waited."""

    interrupt: str
    action_id: str


class Repaired(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="repaired"):
    """The user mended the conversation: had something repeated, skipped, cancelled, corrected, or handed over."""

    repair: RepairKind
    action_id: str
    variables: tuple[str, ...] = ()  # what was corrected


class Detected(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="detected"):
    """A detector saw something in a message, and acted."""

    detector: str
    label: str
    score: float
    severity: float
    by: Literal["rule", "measure", "model"]
    message: int  # the number of the message
    words: tuple[str, ...] = ()
    note: str = ""


class Emitted(Struct, frozen=True, tag_field="kind", tag="emitted"):
    """What the script tells the application."""

    action_id: str
    event: str
    data: Mapping[str, Value]


class Exposed(Struct, frozen=True, tag_field="kind", tag="exposed"):
    """The session met an experiment for the first time, or in another arm than before."""

    action_id: str
    experiment: str
    arm: str
    by: Unit  # what keeps the arm


class Remembered(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="remembered"):
    """A note for the user's memory. One `about` the same as an earlier note takes its place."""

    unit_id: str
    action_id: str
    text: str
    source: str
    trust: Trust = "own"
    about: str = ""
    pinned: bool = False
    metadata: Mapping[str, Value] = {}


class Recollected(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="recalled"):
    """What was called up from the user's memory, and why: the units with their scores, as the session got them."""

    action_id: str
    query: str
    by: By
    k: int
    filters: Value = None
    units: tuple[RecalledUnit, ...] = ()
    failed: str = ""  # why nothing could be called up


class Migrated(Struct, frozen=True, tag_field="kind", tag="migrated"):
    """The session went over to another version of its script; places are phase/topic/action."""

    verdict: str
    why: tuple[str, ...]
    old_place: str
    new_place: str


class Intervened(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="intervention"):
    """The application did something to the session besides talking to it; it stands first in its turn.

    `first` and `last` are the numbers of the messages that were added, taken out of the conversation, or summed up.
    """

    what: Literal["pause", "resume", "end", "set_variables", "rewind", "clear", "append", "compress"]
    reason: str = ""  # to end
    scope: Scope | None = None  # to set variables: the one that was asked for
    turn: int | None = None  # to rewind: the turn it went back to
    first: int | None = None
    last: int | None = None
    keep: int | None = None  # to compress: how many messages stay as they are
    instruct: str = ""  # to compress: what matters in the summary


class Resized(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="resized"):
    """What a model sees of the conversation was made shorter; the messages all stay in the record."""

    strategy: str
    type: str  # `lite`, `deep`, `summary`, `memo`, `compress`, or what a handler calls it
    reason: str
    after: int = 0  # the window begins after this message
    summary_to: int = 0  # the last message the summary tells of
    memo_to: int = 0  # the last message the memo was made with
    by: Literal["model", "extract", ""] = ""  # who made the account, where there is a new one
    tokens: int = 0  # about how many the account has


EndedBy: TypeAlias = Literal["script", "end_action", "user", "application", "rounds"]
"""What ended a conversation: the script came to its end; an `end` of it; the user, by an interrupt or a repair; the
application; or a question that got no usable reply in the rounds it has.
"""


class Ended(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="ended"):
    """The conversation is over."""

    reason: str
    by: EndedBy | None = None  # null in records of versions that did not write it
    action_id: str = ""  # the action that ended it, where one did


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
    | Migrated
    | Intervened
    | Resized
    | Ended
)


class Event(Struct, frozen=True):
    """Something that happened, numbered without gaps within its session from 1."""

    seq: int
    body: Body

"""All that a session must remember between two turns, as one versioned value.

Ids stand for places in the script, never list positions, so that a saved state can follow its script to a new
version. `encode` then `decode` then going on is indistinguishable from never having stopped.
"""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from runtime.answers import Choice
from runtime.context.memory import ContextMemory
from runtime.sheets import DrawnForm
from scripts.contexts import ContextSettings
from scripts.model import Locale
from scripts.values import Value, ValueType

STATE_VERSION = 1
STATE_VERSION_MIN = 1  # the oldest version that `decode` still reads

Status: TypeAlias = Literal["active", "paused", "completed"]
ExecutionStatus: TypeAlias = Literal["running", "waiting_input", "paused", "completed", "error"]
Source: TypeAlias = Literal["script", "user", "model", "api", "default", "migrated"]
WaitKind: TypeAlias = Literal["text", "choice", "form", "acknowledge", "suggestion"]


class Cell(Struct, omit_defaults=True):
    """A variable's value in one scope, with its type, time and origin."""

    value: Value
    type: ValueType
    last_updated: datetime
    source: Source
    by: tuple[str, str, str] | None = None  # the action that wrote it: its home (see `State.home`) and id


class Progress(Struct, omit_defaults=True):
    """How far the current action is, from being entered until it is left."""

    round: int = 0
    prompt: str = ""  # the question as it was last put
    values: dict[str, Value] = {}
    replies: list[str] = []  # what the user answered to this action, for extraction at its end
    astray: dict[str, int] = {}  # by policy, how many of the last replies in a row it is for
    visit: int = 0  # the number of this visit among those in which the model was asked; 0: not asked yet
    errors: dict[str, str] = {}  # what was wrong with the form as it was last sent, by field
    asked: dict[str, int] = {}  # by purpose, how often it was asked in this visit
    complaint: str = ""  # why the last answer did not do, if it was said since the question was put

    @property
    def said_last(self) -> str:
        """What to say again after a blank reply: why the question is still open, else the question."""
        return self.complaint or self.prompt

    @property
    def question(self) -> str:
        """What to say again after something else was talked about; where no question was put, what is open."""
        return self.prompt or self.complaint


class Spent(Struct, frozen=True, omit_defaults=True):
    """What calls of language models took so far."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


class Wait(Struct, frozen=True, omit_defaults=True):
    """What the session waits for."""

    kind: WaitKind
    choices: tuple[Choice, ...] = ()
    suggestion: str = ""
    form: DrawnForm | None = None
    begins: bool = False  # a budget kept the action from beginning; it does so after the next message


class Held(Struct, frozen=True, omit_defaults=True):
    """How far an action was when an interrupt came up."""

    wait: Wait
    progress: Progress | None = None


INTERRUPTS = ":interrupts"
"""Stands for the phase where an interrupt's own actions are looked up; no phase's id holds a colon."""


DETECTORS = ":detectors"
"""Stands for the phase where a detector's own actions are looked up."""


class Watch(Struct, frozen=True, omit_defaults=True):
    """What a detector remembers: the turn in which it last acted, and what a model last saw for it."""

    acted: int = -1
    score: float = 0.0
    label: str = ""


class Frame(Struct, omit_defaults=True):
    """A list of actions being worked through: the topic's own, or an arm of a block inside it."""

    action: str  # the action that is current in this list
    block: str = ""  # the action that holds the list; empty for the topic's own list
    arm: str = ""
    passes: int = 0  # how often the list has been worked through, in a loop
    items: list[Value] | None = None  # what a foreach goes through, taken when it was entered
    item_name: str = ""
    skill: str = ""  # the skill whose own list this is; its variables are `cells`
    interrupt: str = ""  # or the interrupt
    detector: str = ""  # or the detector, while it acts; never between two turns
    cells: dict[str, Cell] = {}
    held: Held | None = None  # for an interrupt, how far the action below it was

    @property
    def home(self) -> tuple[str, str] | None:
        """Where the actions of a skill's, interrupt's or detector's own list are looked up; None for any other."""
        if self.skill:
            return "", self.skill
        if self.detector:
            return DETECTORS, self.detector
        return (INTERRUPTS, self.interrupt) if self.interrupt else None


class State(Struct, omit_defaults=True):
    """A session between two turns. `turn` is the number of the last turn; -1 before the first.

    A session whose first turn failed has not `begun`; it keeps the variables it was created with, to begin later.
    """

    seed: int
    locale: Locale
    user_id: str = ""
    version: int = field(default_factory=lambda: STATE_VERSION)  # a plain default would be left out when saved
    turn: int = -1
    begun: bool = False
    start_variables: dict[str, Value] = {}
    status: Status = "active"
    phase: str = ""
    topic: str = ""
    phase_entry: int = 0  # how many phases were entered so far; names this entry in the record
    topic_entry: int = 0
    frames: list[Frame] = []
    progress: Progress | None = None
    wait: Wait | None = None
    global_cells: dict[str, Cell] = {}  # the user's, as this turn left them; the record holds the truth
    session_cells: dict[str, Cell] = {}
    phase_cells: dict[str, Cell] = {}
    topic_cells: dict[str, Cell] = {}
    event_seq: int = 0  # the number of the last event
    message_seq: int = 0
    heard: int = 0  # messages of the user's
    draws: int = 0  # random choices made so far
    ai_role: str = ""  # who speaks, as the last scene has it
    human_role: str = ""  # who is spoken to
    visits: dict[str, int] = {}  # by action id, in how many visits the model was asked
    watches: dict[str, Watch] = {}  # by detector
    exposed: dict[str, str] = {}  # by experiment, the arm it met
    spent: Spent = Spent()  # by the calls of language models in all its turns
    end_reason: str = ""
    gaps: tuple[tuple[int, int], ...] = ()  # first and last number of messages that were taken out of the conversation
    context: ContextMemory | None = None  # what its context strategy keeps
    context_settings: ContextSettings | None = None  # its own, before those of its script
    condensed: int = 0  # how often an account of the conversation was asked for

    def home(self, depth: int | None = None) -> tuple[str, str]:
        """Where the actions of the innermost (of `depth`) frames stand: phase and topic, or a skill's home or an
        interrupt's.
        """
        call = self.call(depth)
        return (call.home if call is not None else None) or (self.phase, self.topic)

    def call(self, depth: int | None = None) -> Frame | None:
        """The innermost skill or interrupt under way (within `depth` frames), whose variables are the ones in sight."""
        for frame in reversed(self.frames if depth is None else self.frames[:depth]):
            if frame.home is not None:
                return frame
        return None

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt is under way; none comes up within another."""
        return any(frame.interrupt for frame in self.frames)

    @property
    def execution_status(self) -> ExecutionStatus:
        """What the session is doing between two turns."""
        if self.status == "active":
            return "waiting_input" if self.wait is not None else "running"
        return self.status


class StateUnreadable(ValueError):
    """A saved state that this version cannot go on from; the message says why."""


class _Header(Struct):
    version: int


_encoder = msgspec.json.Encoder()
_header_decoder = msgspec.json.Decoder(_Header)
_decoder = msgspec.json.Decoder(State)


def encode(state: State) -> bytes:
    """The state as JSON."""
    return _encoder.encode(state)


def decode(saved: bytes | str) -> State:
    """The state that `encode` saved. Raises StateUnreadable."""
    try:
        version = _header_decoder.decode(saved).version
        if STATE_VERSION_MIN <= version <= STATE_VERSION:
            return _decoder.decode(saved)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise StateUnreadable(f"the saved state cannot be read: {error}") from error
    raise StateUnreadable(
        f"the saved state has version {version}; this program reads {STATE_VERSION_MIN} to {STATE_VERSION}"
    )

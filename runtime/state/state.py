"""The state of a session between two turns, as one versioned value.

Positions are stored as ids of the script, never as list indices, so that a saved state can be migrated to a new
version of its script. A session continues from `decode(encode(state))` exactly as from `state`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from runtime.state.form_view import RenderedForm
from scripts.expressions.values import INTEGER_ABS_MAX, Value, ValueType
from scripts.model.context_strategies import ContextSettings
from scripts.model.script import DETECTORS, INTERRUPTS, Locale, Scope

STATE_VERSION = 1
STATE_VERSION_MIN = 1  # the oldest version that `decode` reads

Number: TypeAlias = Annotated[int, Meta(ge=-1, le=INTEGER_ABS_MAX)]
"""A count, or the number of a turn, message or event; -1: there is none yet."""

Status: TypeAlias = Literal["active", "paused", "completed"]
ExecutionStatus: TypeAlias = Literal["running", "waiting_input", "paused", "completed", "error"]
Source: TypeAlias = Literal["script", "user", "model", "api", "default", "migrated"]
Opener: TypeAlias = Literal["user", "assistant"]
WaitKind: TypeAlias = Literal["text", "choice", "form", "acknowledge", "suggestion", "time"]


class Cell(Struct, omit_defaults=True):
    """A variable's value in one scope, with its type, time and origin."""

    value: Value
    type: ValueType
    last_updated: datetime
    source: Source
    by: tuple[str, str, str] | None = None  # the action that wrote it: its home (see `State.home`) and id


class Progress(Struct, omit_defaults=True):
    """The progress of the current action, from its start to its end."""

    round: Number = 0
    prompt: str = ""  # the question as it was last asked
    values: dict[str, Value] = {}
    replies: list[str] = []  # the user's replies to this action, for extraction at its end
    astray: dict[str, int] = {}  # by policy, the number of last replies in a row that it applies to
    visit: Number = 0  # the number of this visit among those that asked the model; 0: not asked yet
    errors: dict[str, str] = {}  # the errors of the form as last submitted, by field
    asked: dict[str, int] = {}  # by purpose, the number of requests in this visit
    is_confirmation: bool = False  # whether the session asks if the known values are right (`if_known`)
    complaint: str = ""  # why the last answer was refused, if that was said after the question

    @property
    def said_last(self) -> str:
        """Return the text to repeat after a blank reply: why the question is still open, else the question."""
        return self.complaint or self.prompt

    @property
    def question(self) -> str:
        """Return the text to repeat after an interrupt or repair: the question, else why it is still open."""
        return self.prompt or self.complaint


class Spent(Struct, frozen=True, omit_defaults=True):
    """The usage of language model calls so far."""

    calls: Number = 0
    tokens: Number = 0
    cost: Annotated[float, Meta(ge=0)] = 0.0


class Choice(Struct, frozen=True):
    """One choice of a script: the key, which becomes the variable's value, and the text shown to the user."""

    key: str
    text: str


class Wait(Struct, frozen=True, omit_defaults=True):
    """The input that the session waits for."""

    kind: WaitKind
    choices: tuple[Choice, ...] = ()
    suggestion: str = ""
    form: RenderedForm | None = None
    begins: bool = False  # a budget prevented the start of the action; it begins after the next message
    until: datetime | None = None  # for a time: when the session continues by itself

    @property
    def is_acknowledgement(self) -> bool:
        """Return whether any reply will do."""
        return self.kind in {"acknowledge", "suggestion"}


class Timing(Struct, frozen=True, omit_defaults=True):
    """What the timers of a wait are counted from; only scripts with moments have it."""

    began: datetime
    heard: datetime | None = None  # the user's last message since
    reminded: tuple[str, ...] = ()  # the moments of the reminders that have spoken, or were missed
    dates: Mapping[str, str] = {}  # the values of the dates of its moments, by kind and moment
    is_announced: bool = False  # of a `wait`: the user knows when the session is back


class SuspendedAction(Struct, frozen=True, omit_defaults=True):
    """The wait and progress of an action that an interrupt suspended."""

    wait: Wait
    progress: Progress | None = None
    timing: Timing | None = None
    is_answered: bool = False  # its answer was in the message that interrupted it
    arm: str = ""  # the actions of the choice that was the answer


class Watch(Struct, frozen=True, omit_defaults=True):
    """The stored data of a detector: after how many messages of the user it last acted, and the last
    verdict of a model."""

    acted: Number = -1
    score: float = 0.0
    label: str = ""


class Frame(Struct, omit_defaults=True):
    """The position in a list of actions: the topic's own list, or an arm of a block inside it."""

    action: str  # the current action of the list
    block: str = ""  # the action that contains the list; empty for the topic's own list
    arm: str = ""
    passes: Number = 0  # number of finished passes, in a loop
    items: list[Value] | None = None  # the items of a foreach, as evaluated on entry
    item_name: str = ""
    skill: str = ""  # the skill whose list this is; its variables are `cells`
    interrupt: str = ""  # or the interrupt
    detector: str = ""  # or the detector, while it acts; never set between two turns
    cells: dict[str, Cell] = {}
    held: SuspendedAction | None = None  # for an interrupt, the suspended action below it

    @property
    def home(self) -> tuple[str, str] | None:
        """Return where the actions of a skill, interrupt or detector are looked up; None for any other list."""
        if self.skill:
            return "", self.skill
        if self.detector:
            return DETECTORS, self.detector
        return (INTERRUPTS, self.interrupt) if self.interrupt else None


class LastResize(Struct, frozen=True):
    """The last reduction of a window: how, in which turn of the assistant, and why."""

    type: str
    turn: Number
    reason: str


class ContextMemory(Struct, frozen=True, omit_defaults=True):
    """The data that a context strategy derives from the transcript, which it never changes: a summary, a memo, where
    its window begins. It refers to messages by their numbers, survives a restart and is restored by a rewind.
    """

    after: Number = 0  # the window begins after this message
    summary: str = ""
    summary_to: Number = 0  # the last message that the summary covers
    memo: Mapping[str, Value] = {}
    memo_to: Number = 0  # the last message that the memo covers
    seen: Number = 0  # the last message that was counted
    turns: Number = 0  # number of messages of the assistant
    resized_at: Number = 0  # `turns` at the last resize
    resized_to: Number = 0  # the last message at the last resize
    last_resize: LastResize | None = None
    opener: Opener | None = None  # the role that opened the conversation, and so opens each exchange
    failed: Number = 0  # consecutive failures to make a summary or memo
    retry_in: Number = 0  # turns to wait until the next attempt


class HandOver(Struct, frozen=True, omit_defaults=True):
    """A person was asked to join the conversation, or talks in place of the script."""

    since: datetime
    action_id: str = ""  # the action that asked for a person; empty: nothing asked
    operator: str = ""  # the person who has taken the session over; empty: nobody yet

    @property
    def status(self) -> Literal["requested", "taken"]:
        """Return whether somebody talks, or is still asked to."""
        return "taken" if self.operator else "requested"


class State(Struct, omit_defaults=True):
    """A session between two turns. `turn` is the number of the last turn; -1 before the first.

    A session whose first turn failed has not `begun`; it retains its start variables for another attempt.
    """

    seed: Number
    locale: Locale
    user_id: str = ""
    version: int = field(default_factory=lambda: STATE_VERSION)  # omit_defaults would not save a plain default
    turn: Number = -1
    begun: bool = False
    start_variables: dict[str, Value] = {}
    status: Status = "active"
    phase: str = ""
    topic: str = ""
    phase_entry: Number = 0  # number of phases entered so far; identifies this entry in the database
    topic_entry: Number = 0
    frames: list[Frame] = []
    progress: Progress | None = None
    wait: Wait | None = None
    timezone: str = ""  # of this session; empty: that of the user, the script or the server
    timing: Timing | None = None
    global_cells: dict[str, Cell] = {}  # the user's, as of this turn; the database is authoritative
    session_cells: dict[str, Cell] = {}
    phase_cells: dict[str, Cell] = {}
    topic_cells: dict[str, Cell] = {}
    event_seq: Number = 0  # the number of the last event
    message_seq: Number = 0
    heard: Number = 0  # number of messages of the user
    draws: Number = 0  # number of random choices so far
    ai_role: str = ""  # the speaker, as the last scene sets it
    human_role: str = ""  # the role of the user
    visits: dict[str, Number] = {}  # by action id, the number of visits that asked the model
    watches: dict[str, Watch] = {}  # by detector
    taken: dict[str, list[str]] = {}  # by `phase/topic/action`, the keys of its chosen choices with `once`
    is_jump: bool = False  # whether the current topic was entered by a jump
    entered: dict[str, int] = {}  # by phase and `phase/topic`, its visits, if the script reads them
    awake: dict[str, float] = {}  # by phase, the seconds without those of waits for a time, if the script reads them
    last_at: datetime | None = None  # the time of the last turn, if the script reads `awake`
    exposed: dict[str, str] = {}  # by experiment, the arm of the last exposure
    spent: Spent = Spent()  # the usage of language models over all turns
    end_reason: str = ""
    outcome: str = ""  # how it ended, such as completed
    gaps: tuple[tuple[int, int], ...] = ()  # first and last number of messages removed from the conversation
    context: ContextMemory | None = None  # the data of its context strategy
    context_settings: ContextSettings | None = None  # its own settings, which override those of its script
    condensed: Number = 0  # number of requests to condense the conversation
    hand_over: HandOver | None = None
    model: str = ""  # asked in place of those that the script names

    def home(self, depth: int | None = None) -> tuple[str, str]:
        """Return where the actions of the innermost (of `depth`) frames are looked up: phase and topic, or the home of
        a skill or interrupt.
        """
        call = self.call(depth)
        return (self.phase, self.topic) if call is None or call.home is None else call.home

    def call(self, depth: int | None = None) -> Frame | None:
        """Return the innermost running skill or interrupt (within `depth` frames), whose variables are visible."""
        for frame in reversed(self.frames if depth is None else self.frames[:depth]):
            if frame.skill or frame.interrupt or frame.detector:
                return frame
        return None

    @property
    def layers(self) -> dict[Scope, dict[str, Cell]]:
        """Return the cells of each scope; those of skills and interrupts are in `frames`."""
        return {
            "session": self.session_cells,
            "phase": self.phase_cells,
            "topic": self.topic_cells,
            "global": self.global_cells,
        }

    @property
    def interrupted(self) -> bool:
        """Return whether an interrupt is running; interrupts do not nest."""
        return any(frame.interrupt for frame in self.frames)

    @property
    def operator(self) -> str:
        """Return the person who talks in place of the script; empty if the script talks."""
        return self.hand_over.operator if self.hand_over is not None else ""

    @property
    def execution_status(self) -> ExecutionStatus:
        """Return the session's execution status between two turns; `error` if its first turn failed."""
        if self.status != "active":
            return self.status
        if not self.begun:
            return "error"
        return "waiting_input" if self.wait is not None else "running"


def copy_of(state: State) -> State:
    """Return a working copy, so that a failed turn does not change the state from before it."""
    return msgspec.structs.replace(
        state,
        frames=[msgspec.structs.replace(frame, cells=dict(frame.cells)) for frame in state.frames],
        progress=own_copy(state.progress),
        global_cells=dict(state.global_cells),
        session_cells=dict(state.session_cells),
        phase_cells=dict(state.phase_cells),
        watches=dict(state.watches),
        topic_cells=dict(state.topic_cells),
        visits=dict(state.visits),
        exposed=dict(state.exposed),
        taken=dict(state.taken),
    )


def own_copy(progress: Progress | None) -> Progress | None:
    """Return an independent copy of the progress."""
    if progress is None:
        return None
    return msgspec.structs.replace(
        progress,
        values=dict(progress.values),
        replies=list(progress.replies),
        asked=dict(progress.asked),
        astray=dict(progress.astray),
    )


def restore_state(state: State, earlier: State) -> None:
    """Restore an earlier state in place, but for the usage since then. `earlier` must not be used afterwards."""
    spent = state.spent
    for name in state.__struct_fields__:
        setattr(state, name, getattr(earlier, name))
    state.spent = spent


class StateUnreadable(ValueError):
    """A saved state that this version cannot read; the message says why."""


class _Header(Struct):
    version: int


_encoder = msgspec.json.Encoder()
_header_decoder = msgspec.json.Decoder(_Header)
_decoder = msgspec.json.Decoder(State)


def encode(state: State) -> bytes:
    """Return the state as JSON."""
    return _encoder.encode(state)


def decode(saved: bytes | str) -> State:
    """Return the state that `encode` saved. Raises StateUnreadable."""
    try:
        version = _header_decoder.decode(saved).version
        if STATE_VERSION_MIN <= version <= STATE_VERSION:
            return _decoder.decode(saved)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise StateUnreadable(f"the saved state cannot be read: {error}") from error
    raise StateUnreadable(
        f"the saved state has version {version}; this program reads {STATE_VERSION_MIN} to {STATE_VERSION}"
    )

"""What the machine needs from outside, as small protocols; a test or an edge hands them in."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from runtime.events import Message
from scripts.model import Locale, Role
from scripts.values import Value
from scripts.variables import Output, Records

Clock: TypeAlias = Callable[[], datetime]
"""The time in UTC."""

Ids: TypeAlias = Callable[[], str]
"""A new id, unique for ever."""

Purpose: TypeAlias = Literal["say", "ask", "extract", "think", "chat", "route", "detect"]


class Watched(Struct, frozen=True):
    """What a detector looks for, put to a model: in words, and the labels it may answer with."""

    define: str
    labels: tuple[str, ...] = ()


class Verdict(Struct, frozen=True):
    """What a model makes of a message for one detector: how sure it is, from 0 to 1, and what it saw."""

    score: float
    label: str = ""


class ModelRequest(Struct, frozen=True, kw_only=True):
    """What an action wants of a model; how it is put to the model is the adapter's business."""

    purpose: Purpose
    action_id: str
    round: int  # 0: open the conversation; n: judge the nth reply
    visit: int = 0  # in how many earlier visits of this action the model was asked
    asked: int = 0  # how often it was asked for the same purpose in this visit
    task: str
    locale: Locale
    phrases: Mapping[str, str] = {}  # what the script says in place of the runtime's own sentences
    now: datetime
    outputs: tuple[Output, ...] = ()
    records: tuple[Records, ...] = ()  # which of the outputs are fields of records; one reply may give several
    exit: str = ""
    reply: str | None = None  # the reply to judge
    known: Mapping[str, Value] = {}  # what earlier replies to this action gave
    replies: tuple[str, ...] = ()  # all replies to this action so far, the one to judge last
    history: tuple[Message, ...] = ()
    role: str = ""
    speaker: Role | None = None  # what the script says of the role
    listener: Role | None = None
    intents: Mapping[str, str] = {}  # to route: what the reply may mean, by the name to answer with
    detectors: Mapping[str, Watched] = {}  # to detect: what to look for in the reply, by the detector's id
    tone: str = ""
    goal: str = ""
    strategy: str = ""


class ModelReply(Struct, frozen=True, kw_only=True):
    """What a model gives back: words to say, values taken, and its verdict on whether the action is done."""

    text: str = ""
    values: Mapping[str, Value] = {}
    reasons: Mapping[str, str] = {}  # why a value is missing, by its name
    exit: bool | None = None
    exit_reason: str = ""
    understanding: int | None = None  # percent
    has_questions: bool | None = None
    intent: str = ""  # to route: which of the intents the reply has
    detected: Mapping[str, Verdict] = {}  # to detect: of each detector that sees something
    raw: str = ""  # what the model literally said


class ModelFailed(Exception):
    """The model gave no usable reply; the session stays where it is. `retryable`: trying again may help."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class Model(Protocol):
    """Something a session talks through."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answers one request. Raises ModelFailed."""

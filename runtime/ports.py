"""What the machine needs from outside, as small protocols; a test or an edge hands them in."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from runtime.events import Advance as Advance
from runtime.events import Message
from runtime.recalled import MemoryLine, Recalled, RecallWish
from runtime.state import Spent
from scripts.expressions import Spans
from scripts.model import Locale, Role
from scripts.values import Value
from scripts.variables import Output, Records

Clock: TypeAlias = Callable[[], datetime]
"""The time in UTC."""

Ids: TypeAlias = Callable[[], str]
"""A new id, unique for ever."""

Purpose: TypeAlias = Literal["say", "ask", "extract", "think", "chat", "route", "detect", "summarise", "memo"]

SPEAKING: frozenset[Purpose] = frozenset({"say", "ask", "chat"})
"""The purposes whose replies hold words for the user."""

CONDENSING: frozenset[Purpose] = frozenset({"summarise", "memo"})
"""The purposes that make an account of the conversation, for the requests that come after."""


class Watched(Struct, frozen=True):
    """What a detector looks for, put to a model: in words, and the labels it may answer with."""

    define: str
    labels: tuple[str, ...] = ()


class Verdict(Struct, frozen=True):
    """What a model makes of a message for one detector: how sure it is, from 0 to 1, and what it saw."""

    score: float
    label: str = ""


class Account(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a request holds of a conversation beside its messages."""

    summary: str = ""  # of the messages before the first of them; to condense: what explains them, told already
    memo: Mapping[str, Value] = {}  # what is to be kept in mind of it all
    previous: Value = None  # to condense: the account that the new one takes the place of
    instruct: str = ""  # to condense: what matters


NO_ACCOUNT = Account()


class ModelRequest(Struct, frozen=True, kw_only=True):
    """What an action wants of a model; how it is put to the model is the adapter's business."""

    purpose: Purpose
    action_id: str
    round: int  # 0: open the conversation; n: judge the nth reply; to detect: of the session's, 0 before the first
    visit: int = 0  # in how many earlier visits of this action the model was asked
    # how often it was asked for the same purpose in this visit; to detect: which message of the turn; to condense: how
    # often in the session
    asked: int = 0
    model: str = ""  # the model the script wants, by the name the server knows it; empty: the server's own
    task: str
    task_spans: Spans = ()
    locale: Locale
    phrases: Mapping[str, str] = {}  # what the script says in place of the runtime's own sentences
    now: datetime
    outputs: tuple[Output, ...] = ()
    records: tuple[Records, ...] = ()  # which of the outputs are fields of records; one reply may give several
    exit: str = ""
    exit_spans: Spans = ()
    criteria: bool = False  # whether the exit depends on how much the user understands, and on questions left
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
    scheme: str = ""  # the prompts the script is written for
    # unset where there is none, so that the digests of requests without one are those of records that know of none
    account: Account | UnsetType = UNSET
    memories: tuple[MemoryLine, ...] | UnsetType = UNSET  # what the user's memory holds of what is being said

    @property
    def told(self) -> Account:
        """What it holds of the conversation beside its messages."""
        return NO_ACCOUNT if self.account is UNSET else self.account


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one call of a language model took. Times are milliseconds."""

    model: str  # as the endpoint calls it
    prompt_digest: str = ""
    parameters: Mapping[str, Value] = {}
    input_tokens: int = 0
    cached_tokens: int = 0  # of the input tokens, those the endpoint had kept
    output_tokens: int = 0
    counted: bool = True  # by the endpoint; else estimated
    cost: float | None = None  # in the currency of the prices that are set; none are: None
    latency_ms: int = 0
    first_words_ms: int | None = None
    attempts: int = 1
    failures: tuple[str, ...] = ()  # of the attempts that failed: what went wrong
    degraded: str = ""  # why the reply had to be taken as plain text


class ModelReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model gives back: words to say, values taken, and its verdict on whether the action is done."""

    text: str = ""
    values: Mapping[str, Value] = {}
    reasons: Mapping[str, str] = {}  # why a value is missing, by its name
    exit: bool | None = None
    exit_reason: str = ""
    understanding: int | None = None  # percent
    has_questions: bool | None = None
    progress: Advance | None = None
    intent: str = ""  # to route: which of the intents the reply has
    detected: Mapping[str, Verdict] = {}  # to detect: of each detector that sees something
    extracted: bool = False  # to condense: made of the messages' own sentences, without any model
    raw: str = ""  # what the model literally said
    usage: Usage | None = None  # none: no language model was asked


class ModelFailed(Exception):
    """The model gave no usable reply; the session stays where it is. `retryable`: trying again may help.

    The message is read by clients: it names no address, key or text of the endpoint's.
    """

    def __init__(self, message: str, *, retryable: bool = True, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.usage = usage


class GivenUp(Exception):
    """The cause of what ended a call from outside, such as a time limit: what the call had taken by then."""

    def __init__(self, usage: Usage) -> None:
        super().__init__("a call of a model was given up before its end")
        self.usage = usage


Hear: TypeAlias = Callable[[ModelReply], None]
"""Hears a reply as it grows: everything but the words is settled by then, `text` is what is there of them."""


class Model(Protocol):
    """Something a session talks through."""

    def goes_to(self, request: ModelRequest) -> str:
        """The language model that a request goes to, by the server's name for it; empty where none is needed."""

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        """Answers one request; a model that can tells `hear` of its words as they come. Raises ModelFailed.

        Where something else ends the call, that has GivenUp as its cause, if anything was spent.
        """


class Intent(Struct, frozen=True, kw_only=True):
    """A call of a language model that is about to be made."""

    call_id: str
    digest: str  # of the request, see `runtime.calls.digest_of`
    purpose: Purpose
    action_id: str
    round: int
    model: str
    started_at: datetime


class Ended(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a call: a reply, or why there is none."""

    reply: ModelReply | None = None
    error: str = ""
    usage: Usage | None = None
    ended_at: datetime


class Known(Struct, frozen=True):
    """A call that an earlier attempt at this turn made. Without an end it was interrupted: nobody knows what came of
    it.
    """

    intent: Intent
    ended: Ended | None


class Journal(Protocol):
    """Keeps the calls of one turn while it runs, so that none that was completed is ever made again."""

    def spent(self) -> Spent:
        """What all calls of earlier attempts at the turn took."""

    def known(self, digest: str) -> Known | None:
        """The next call for the same request that an earlier attempt made; each is given once."""

    async def begin(self, request: ModelRequest, digest: str, model: str) -> Intent:
        """Keeps durably that a call is about to be made."""

    async def end(self, intent: Intent, reply: ModelReply | None, error: str = "", usage: Usage | None = None) -> Ended:
        """Keeps durably what came of it. A reply that cannot be kept is none: then there is an error instead."""

    async def told(self, intent: Intent) -> None:
        """Keeps durably that a call of an earlier attempt was interrupted, and that the user was told."""


class Meter(Protocol):
    """Counts what calls of language models take beyond one turn and session: by user, by day."""

    def exceeded(self) -> str | None:
        """The name of a budget that is used up, or None."""

    def count(self, usage: Usage | None) -> None:
        """Counts a call that was made, also one that failed; None where it told nothing of its usage."""


class MemoryFailed(Exception):
    """Memory could not be asked; `retryable`: trying again may help. The message is read by clients: it names no place
    or text of the memory's.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class Memory(Protocol):
    """The memory of one user, as a session asks it. What a turn remembers stands in its events."""

    async def recall(self, wish: RecallWish) -> Recalled:
        """What it holds of something, the best first. Raises MemoryFailed."""


class Words(Struct, frozen=True):
    """More words of a message that is being said; `number` is the one the message will have."""

    number: int
    action_id: str
    text: str


class Unsaid(Struct, frozen=True):
    """The words so far of a message are taken back: it begins anew, or is not said at all."""

    number: int


Live: TypeAlias = Callable[[Words | Unsaid], None]
"""Hears what is being said while a turn still runs."""

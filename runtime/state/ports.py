"""The protocols through which the engine uses the outside world; a test or the API layer supplies them."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from runtime.state.events import Advance as Advance
from runtime.state.events import Message
from runtime.state.recall_types import MemoryLine, RecallResult, RecallWish
from runtime.state.state import Spent
from runtime.state.tool_ports import ToolFailure
from scripts.expressions.expressions import Spans
from scripts.expressions.values import Value
from scripts.model.script import Locale, Role
from scripts.model.tools import JsonSchema
from scripts.model.variables import Output, Records

Clock: TypeAlias = Callable[[], datetime]
"""A function that returns the time in UTC."""

Ids: TypeAlias = Callable[[], str]
"""A function that returns a new unique id."""

Purpose: TypeAlias = Literal["say", "ask", "extract", "think", "chat", "route", "detect", "summarise", "memo"]

SPEAKING: frozenset[Purpose] = frozenset({"say", "ask", "chat"})
"""The purposes whose replies contain text for the user."""

CONDENSING: frozenset[Purpose] = frozenset({"summarise", "memo"})
"""The purposes that condense the conversation for later requests."""


class DetectorQuestion(Struct, frozen=True):
    """What a detector looks for, as a question to a model: a description, and the allowed labels."""

    define: str
    labels: tuple[str, ...] = ()


class Verdict(Struct, frozen=True):
    """A model's verdict on a message for one detector: a score from 0 to 1, and a label."""

    score: float
    label: str = ""


class ToolOffer(Struct, frozen=True, kw_only=True):
    """A tool that the model may call instead of answering; `required` are the parameters that have no default."""

    id: str
    define: str
    params: Mapping[str, JsonSchema]
    required: tuple[str, ...]


class ToolCall(Struct, frozen=True):
    """A call of an offered tool that the model wants."""

    tool: str
    arguments: Mapping[str, Value] = {}


class ToolOutcome(Struct, frozen=True, omit_defaults=True):
    """A call that the model wanted, with its result or failure."""

    call: ToolCall
    result: Value = None
    failure: ToolFailure | None = None


class ConversationSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a request contains of a conversation besides its messages."""

    summary: str = ""  # of the messages before the first one; to condense: context that explains the messages
    memo: Mapping[str, Value] = {}  # facts to remember from the whole conversation
    previous: Value = None  # to condense: the summary or memo that the new one replaces
    instruct: str = ""  # to condense: what the result must contain


NO_SUMMARY = ConversationSummary()


class ModelRequest(Struct, frozen=True, kw_only=True):
    """A request to a model, independent of its wire format, which the adapter determines."""

    purpose: Purpose
    action_id: str
    round: int  # 0: open the conversation; n: judge the nth reply; to detect: of the session's, 0 before the first
    visit: int = 0  # in how many earlier visits of this action the model was asked
    # number of earlier requests for the same purpose in this visit; to detect: index of the message in the turn; to
    # condense: number of earlier requests in the session
    asked: int = 0
    model: str = ""  # the model that the script requests, by the server's name for it; empty: the server's default
    task: str
    task_spans: Spans = ()
    locale: Locale
    phrases: Mapping[str, str] = {}  # the script's replacements of default texts
    now: datetime
    outputs: tuple[Output, ...] = ()
    records: tuple[Records, ...] = ()  # which outputs are fields of records; one reply may give several records
    exit: str = ""
    exit_spans: Spans = ()
    # only the offline model reads these, and the digest does not contain them: whether conditions alone end the action,
    # so that a valid reply does not; whether the action ends after this reply in any case
    ends_by_condition: bool | UnsetType = UNSET
    is_last: bool | UnsetType = UNSET
    criteria: bool = False  # whether the exit depends on how much the user understands, and on questions left
    reply: str | None = None  # the reply to judge
    known: Mapping[str, Value] = {}  # the values of earlier replies to this action
    replies: tuple[str, ...] = ()  # all replies to this action, the one to judge last
    history: tuple[Message, ...] = ()
    role: str = ""
    speaker: Role | None = None  # the script's description of the role
    listener: Role | None = None
    intents: Mapping[str, str] = {}  # to route: the possible meanings of the reply, by the name to answer with
    detectors: Mapping[str, DetectorQuestion] = {}  # to detect: what to look for in the reply, by the detector's id
    tone: str = ""
    goal: str = ""
    strategy: str = ""
    scheme: str = ""  # the prompt templates that the script is written for
    # unset if empty, so that requests without a summary keep the digests that were recorded before the field existed
    account: ConversationSummary | UnsetType = UNSET
    memories: tuple[MemoryLine, ...] | UnsetType = UNSET  # relevant units of the user's memory
    tools: tuple[ToolOffer, ...] | UnsetType = UNSET
    tool_outcomes: tuple[ToolOutcome, ...] | UnsetType = UNSET  # of the calls that the model wanted before its reply

    @property
    def conversation_summary(self) -> ConversationSummary:
        """Return the summary of the older part of the conversation, NO_SUMMARY if there is none."""
        return NO_SUMMARY if self.account is UNSET else self.account

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        """Return the tools that the model may call."""
        return () if self.tools is UNSET else self.tools

    @property
    def outcomes(self) -> tuple[ToolOutcome, ...]:
        """Return the calls of tools that the model wanted before its reply."""
        return () if self.tool_outcomes is UNSET else self.tool_outcomes


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The usage of one language model call. Times are milliseconds."""

    model: str  # as the endpoint calls it
    prompt_digest: str = ""
    prompt: str | None = None  # as it was sent, in JSON; None: unknown, or dropped
    parameters: Mapping[str, Value] = {}
    input_tokens: int = 0
    cached_tokens: int = 0  # the input tokens that the endpoint read from its cache
    output_tokens: int = 0
    counted: bool = True  # by the endpoint; else estimated
    cost: float | None = None  # in the currency of the configured prices; None without prices
    latency_ms: int = 0
    first_words_ms: int | None = None
    attempts: int = 1
    failures: tuple[str, ...] = ()  # the errors of the failed attempts
    degraded: str = ""  # why the reply had to be used as plain text


class ModelReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's reply: the text to say, values, and the verdict whether the action is done."""

    text: str = ""
    values: Mapping[str, Value] = {}
    reasons: Mapping[str, str] = {}  # why a value is missing, by its name
    exit: bool | None = None
    exit_reason: str = ""
    understanding: int | None = None  # percent
    has_questions: bool | None = None
    progress: Advance | None = None
    intent: str = ""  # to route: the intent of the reply
    detected: Mapping[str, Verdict] = {}  # to detect: the verdict of each detector that found something
    tool_call: ToolCall | None = None  # what the model wants to know before it replies; the other fields do not count
    extracted: bool = False  # to condense: built from the messages' own sentences, without a model
    raw: str = ""  # the model's literal output
    usage: Usage | None = None  # None: no language model was asked


class ModelFailed(Exception):
    """The model gave no usable reply; the session's state is unchanged. `retryable`: another attempt may succeed.

    The message is shown to clients, so it must not contain an address, key or text of the endpoint.
    """

    def __init__(self, message: str, *, retryable: bool = True, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.usage = usage


class GivenUp(Exception):
    """The cause of an exception that ended a call from outside, such as a time limit: the call's usage until then."""

    def __init__(self, usage: Usage) -> None:
        super().__init__("a call of a model was given up before its end")
        self.usage = usage


OnReply: TypeAlias = Callable[[ModelReply], None]
"""A callback for a growing reply: all fields but `text` are final, `text` is the part received so far."""


class Model(Protocol):
    """A language model, or a replacement of one, as the engine uses it."""

    def goes_to(self, request: ModelRequest) -> str:
        """Return the language model that a request goes to, by the server's name; empty if it needs none."""

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        """Answer one request; a streaming model calls `hear` with the growing reply. Raises ModelFailed.

        If something else ends the call and it had usage, the exception has GivenUp as its cause.
        """


class Intent(Struct, frozen=True, kw_only=True):
    """A language model call that is about to be made."""

    call_id: str
    digest: str  # of the request, see `digest_of`
    purpose: Purpose
    action_id: str
    round: int
    model: str
    started_at: datetime


class CallResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a call: a reply, or the error."""

    reply: ModelReply | None = None
    error: str = ""
    usage: Usage | None = None
    ended_at: datetime


class RecordedResult(Struct, frozen=True):
    """A call that an earlier attempt at this turn made. `ended` is None if the call was interrupted, so that its
    result is unknown.
    """

    intent: Intent
    ended: CallResult | None


class Journal(Protocol):
    """Stores the calls of one turn while it runs, so that no completed call is repeated."""

    @property
    def spent(self) -> Spent:
        """The usage of all calls of earlier attempts at the turn."""

    def take_recorded(self, digest: str) -> RecordedResult | None:
        """Return the next unused call that an earlier attempt made for the same request."""

    async def begin(self, request: ModelRequest, digest: str, model: str) -> Intent:
        """Store durably that a call is about to be made."""

    async def end(
        self, intent: Intent, reply: ModelReply | None, error: str = "", usage: Usage | None = None
    ) -> CallResult:
        """Store the result of a call durably. A reply that cannot be stored is replaced by an error."""

    async def note_interruption(self, intent: Intent) -> None:
        """Store durably that a call of an earlier attempt was interrupted, and that the user knows."""


class Meter(Protocol):
    """Counts language model usage over several turns and sessions: by user, by day."""

    def exhausted_budget(self) -> str | None:
        """Return the name of a budget that is used up, or None."""

    def count(self, usage: Usage | None) -> None:
        """Count a call, including one that failed; None if it reported no usage."""


class MemoryFailed(Exception):
    """A memory search failed; `retryable`: another attempt may succeed. The message is shown to clients, so it must not
    contain a path or text of the memory.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class Memory(Protocol):
    """The memory of one user, as a session searches it. New notes are part of a turn's events."""

    async def recall(self, wish: RecallWish) -> RecallResult:
        """Return the search results, the best first. Raises MemoryFailed."""


class MessageDelta(Struct, frozen=True):
    """More text of a message that is being streamed; `number` is the number that the message will have."""

    number: int
    action_id: str
    text: str


class MessageReset(Struct, frozen=True):
    """The streamed text of a message is void: the message starts again, or is not said."""

    number: int


OnDelta: TypeAlias = Callable[[MessageDelta | MessageReset], None]
"""A callback for the text that a turn streams while it runs."""


_NO_TIME = datetime.fromtimestamp(0, UTC)
_encoder = msgspec.json.Encoder(order="deterministic")


def digest_of(request: ModelRequest) -> str:
    """Return the digest of a request. It does not depend on the time, the attempt at the turn, and the results of
    memory searches.
    """
    said = tuple(msgspec.structs.replace(message, message_id="") for message in request.history)
    plain = msgspec.structs.replace(
        request, now=_NO_TIME, history=said, memories=UNSET, ends_by_condition=UNSET, is_last=UNSET
    )
    return hashlib.sha256(_encoder.encode(plain)).hexdigest()

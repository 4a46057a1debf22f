"""The model calls of a turn: each is counted, and recorded in the journal before and after, so that none is repeated.

Budgets limit the calls per turn and per session; the meter counts them per user and per day. A budget is checked
before a call, so the last call may exceed it. A turn starts with the usage of its earlier failed attempts, because the
state that counted it was discarded; the meter has counted it already.

A call that an earlier attempt at the same turn completed is answered from the journal. The result of an interrupted
call is unknown: the endpoint may have carried it out. It is repeated, or fails if the script says so.
"""

import math
from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from runtime.state.deadlines import until
from runtime.state.events import Message
from runtime.state.limits import Bounds
from runtime.state.ports import (
    SPEAKING,
    CallResult,
    GivenUp,
    Intent,
    Journal,
    Meter,
    Model,
    ModelFailed,
    ModelReply,
    ModelRequest,
    OnReply,
    RecordedResult,
    Usage,
    digest_of,
)
from runtime.state.state import Spent, State
from runtime.state.tool_ports import ToolResult, Tools
from scripts.model.actions import OnInterrupted

GIVEN_UP = "given up before its end"  # the recorded error of a call that a time limit ended
OUT_OF_TIME = "no reply came before the turn's time was over; see turn_s, and timeout_s and attempts of the model"


class BudgetExceeded(Exception):
    """A call was not made because a budget is used up; `name` is the budget."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the budget `{name}` is used up")
        self.name = name


def add_call(spent: Spent, usage: Usage | None) -> Spent:
    """Return the usage with one more call; a call without reported usage still counts as a call."""
    if usage is None:
        return Spent(spent.calls + 1, spent.tokens, spent.cost)
    if not usage.attempts:  # no request was sent to the endpoint
        return spent
    tokens = usage.input_tokens + usage.output_tokens
    return Spent(spent.calls + 1, spent.tokens + tokens, spent.cost + (usage.cost or 0.0))


def add_up(one: Spent, other: Spent) -> Spent:
    """Return the sum of both."""
    return Spent(one.calls + other.calls, one.tokens + other.tokens, one.cost + other.cost)


class BudgetTracker(Struct):
    """The usage of one turn, checked against its budgets; `spent` begins with the usage of the turn's earlier attempts.

    `meter` counts per user and per day.
    """

    state: State
    turn: Bounds
    session: Bounds
    meter: Meter | None
    spent: Spent

    def check(self) -> None:
        """Raise BudgetExceeded if a budget is used up."""
        for name, bounds, spent in (("turn", self.turn, self.spent), ("session", self.session, self.state.spent)):
            what = bounds.first_exhausted(spent)
            if what:
                raise BudgetExceeded(f"{name}_{what}")
        wider = self.meter.exhausted_budget() if self.meter is not None else None
        if wider is not None:
            raise BudgetExceeded(wider)

    def count(self, usage: Usage | None) -> None:
        """Count a call, including one that failed."""
        self.recount(usage)
        if self.meter is not None:
            self.meter.count(usage)

    def recount(self, usage: Usage | None) -> None:
        """Count a call that the meter has counted already."""
        self.spent = add_call(self.spent, usage)
        self.state.spent = add_call(self.state.spent, usage)


class CallInterrupted(Exception):
    """A call was interrupted, and the script forbids to repeat it automatically."""


class ModelCall(Struct, frozen=True, kw_only=True):
    """A request to the model and its result; `intent` is None if the model's calls are not recorded."""

    request: ModelRequest
    reply: ModelReply | None = None
    intent: Intent | None = None
    ended: CallResult | None = None
    is_reused: bool = False  # made by an earlier attempt at the turn
    is_withheld: bool = False  # its text was not said in the end and is not stored


class NoJournal:
    """A journal that stores nothing, for conversations that are not recorded."""

    spent = Spent()

    def take_recorded(self, digest: str) -> RecordedResult | None:
        """Return None."""
        return None

    async def begin(self, request: ModelRequest, digest: str, model: str) -> Intent:
        """Return an intent without storing it."""
        return Intent(
            call_id="",
            digest=digest,
            purpose=request.purpose,
            action_id=request.action_id,
            round=request.round,
            model=model,
            started_at=request.now,
        )

    async def end(
        self, intent: Intent, reply: ModelReply | None, error: str = "", usage: Usage | None = None
    ) -> CallResult:
        """Return a result without storing it."""
        return CallResult(reply=reply, error=error, usage=usage, ended_at=intent.started_at)

    async def note_interruption(self, intent: Intent) -> None:
        """Do nothing."""


class ToolCalls(Struct):
    """The tools of one turn, and the calls that were finished over all its restarts, by digest: none is made again."""

    tools: Tools
    finished: dict[str, ToolResult] = {}

    @property
    def call_ids(self) -> tuple[str, ...]:
        """The ids of the recorded calls."""
        return tuple(each.call_id for each in self.finished.values() if each.call_id)


class Calls(Struct):
    """The model calls of one turn. At `ends_at`, by the event loop's clock, each call is stopped."""

    model: Model
    journal: Journal
    budget: BudgetTracker
    ends_at: float = math.inf
    made: list[ModelCall] = []
    answered: list[ModelCall] = []  # all calls as they were made, over all restarts of the turn
    before: list[ModelCall] = []  # of these, the calls not reached again since the last restart

    def restart(self, budget: BudgetTracker) -> None:
        """Restart the turn with a new budget tracker; calls made before the restart are not repeated."""
        self.made, self.before, self.budget = [], list(self.answered), budget

    async def make(
        self, request: ModelRequest, on_interrupted: OnInterrupted = "retry", hear: OnReply | None = None
    ) -> ModelReply:
        """Return the model's reply. Raises ModelFailed, CallInterrupted, BudgetExceeded."""
        name = self.model.goes_to(request)
        if not name:
            reply = await self.model.complete(request, hear)
            self.made.append(ModelCall(request=request, reply=reply))
            return reply
        digest = digest_of(request)
        before = next((each for each in self.before if each.intent is not None and each.intent.digest == digest), None)
        if before is not None:
            return self._reuse(before, request)
        known = self.journal.take_recorded(digest)
        if known is not None and known.ended is not None and known.ended.reply is not None:
            self._add(request, known.intent, known.ended, is_reused=True)
            return known.ended.reply
        if known is not None and known.ended is None and on_interrupted == "fail":
            await self.journal.note_interruption(known.intent)
            raise CallInterrupted(
                "a call of the model was interrupted, and may have been carried out; send the message again"
            )
        self.budget.check()
        return await self._make(request, await self.journal.begin(request, digest, name), hear)

    def _reuse(self, call: ModelCall, request: ModelRequest) -> ModelReply:
        """Return the reply of a call made for the same request before the turn restarted. Raises ModelFailed."""
        self.before.remove(call)
        self.made.append(replace(call, request=request))
        usage = _usage(call.ended)
        if not call.is_reused:
            self.budget.recount(usage)
        if call.reply is None:
            raise ModelFailed(call.ended.error if call.ended is not None else GIVEN_UP, usage=usage)
        return call.reply

    async def _make(self, request: ModelRequest, intent: Intent, hear: OnReply | None) -> ModelReply:
        usage: Usage | None = None
        try:
            async with until(self.ends_at) as limit:
                return await self._complete(request, intent, hear)
        except TimeoutError as error:
            if not limit.expired():  # a TimeoutError of the model's
                raise
            usage = _usage_of_cancelled(error.__cause__)
        raise ModelFailed(OUT_OF_TIME, usage=usage)

    async def _complete(self, request: ModelRequest, intent: Intent, hear: OnReply | None) -> ModelReply:
        try:
            reply = await self.model.complete(request, hear)
        except ModelFailed as failed:
            self._add(request, intent, await self.journal.end(intent, None, str(failed), failed.usage))
            raise
        except BaseException as reason:  # a time limit of the turn, or an error while the reply was streamed
            self._add(request, intent, await self.journal.end(intent, None, GIVEN_UP, _usage_of_cancelled(reason)))
            raise
        ended = await self.journal.end(intent, reply, usage=reply.usage)
        self._add(request, intent, ended)
        if ended.reply is None:
            raise ModelFailed(ended.error, usage=ended.usage)
        return reply

    def _add(self, request: ModelRequest, intent: Intent, ended: CallResult, *, is_reused: bool = False) -> None:
        usage = _usage(ended)
        if not is_reused:  # the usage of earlier attempts is included already
            self.budget.count(usage)
        call = ModelCall(request=request, reply=ended.reply, intent=intent, ended=ended, is_reused=is_reused)
        self.made.append(call)
        self.answered.append(call)

    def withhold(self, said: Message, instead: Message) -> None:
        """Remove the text of a withheld message from the calls made after it."""
        self.made = [_without(call, said, instead) for call in self.made]

    def forget_unsaid(self, said: Collection[str]) -> None:
        """Remove the texts of all replies except those in `said`."""
        self.made = [_unsaid(call) if _has_words_besides(call, said) else call for call in self.made]


def _without(call: ModelCall, said: Message, instead: Message) -> ModelCall:
    history = tuple(instead if each is said else each for each in call.request.history)
    request = replace(call.request, history=history)
    if request.task == said.content:  # a model that says its task verbatim
        request = replace(request, task="", task_spans=())
    if request.purpose == "detect" and request.reply == said.content:
        request = replace(request, reply=instead.content)
        call = _wordless(call)  # a model may quote the message it examines
    return replace(call, request=request) if request == call.request else replace(_promptless(call), request=request)


def _has_words_besides(call: ModelCall, said: Collection[str]) -> bool:
    if call.request.purpose not in SPEAKING or call.reply is None:
        return False
    return bool(call.reply.text.strip()) and call.reply.text not in said


def _unsaid(call: ModelCall) -> ModelCall:
    request = call.request
    if call.reply is not None and request.task == call.reply.text:
        request = replace(request, task="", task_spans=())
    return replace(_wordless(call), request=request)


def _wordless(call: ModelCall) -> ModelCall:
    reply = replace(call.reply, text="", raw="") if call.reply is not None else None
    ended = replace(call.ended, reply=reply) if call.ended is not None else None
    return _promptless(replace(call, reply=reply, ended=ended, is_withheld=True))


def _promptless(call: ModelCall) -> ModelCall:
    """Return the call without its prompt, which may contain a text that was not said."""
    if call.ended is None or call.ended.usage is None:
        return call
    return replace(call, ended=replace(call.ended, usage=replace(call.ended.usage, prompt=None)))


def _usage_of_cancelled(reason: BaseException | None) -> Usage | None:
    """Return the usage of a call that was ended from outside."""
    cause = reason.__cause__ if reason is not None else None
    return cause.usage if isinstance(cause, GivenUp) else None


def _usage(ended: CallResult | None) -> Usage | None:
    """Return the usage of a call, as far as it is known."""
    if ended is None or ended.usage is not None or ended.reply is None:
        return ended.usage if ended is not None else None
    return ended.reply.usage

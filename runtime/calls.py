"""A turn's calls of the model: each one counted, kept in the journal before and after it is made, and never made twice.

A call that an earlier attempt at the same turn completed is answered from the journal. One that was interrupted is in
doubt: nobody knows whether the endpoint carried it out. It is made again, or fails where the script says so.
"""

import hashlib
import math
from collections.abc import Collection
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from runtime.budgets import Purse
from runtime.deadlines import until
from runtime.events import Message
from runtime.ports import (
    SPEAKING,
    Ended,
    GivenUp,
    Hear,
    Intent,
    Journal,
    Known,
    Model,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Usage,
)
from runtime.state import Spent
from scripts.actions import OnInterrupted

GIVEN_UP = "given up before its end"  # what is kept of a call that a time limit ended
OUT_OF_TIME = "no reply came before the turn's time was over; see turn_s, and timeout_s and attempts of the model"

_NO_TIME = datetime.fromtimestamp(0, UTC)
_encoder = msgspec.json.Encoder(order="deterministic")


class CallInterrupted(Exception):
    """A call was interrupted, and the script does not want it made again unasked."""


class ModelCall(Struct, frozen=True, kw_only=True):
    """A request to the model and what came of it; there is no `intent` where the model's calls are not kept."""

    request: ModelRequest
    reply: ModelReply | None = None
    intent: Intent | None = None
    ended: Ended | None = None
    is_reused: bool = False  # an earlier attempt at the turn had made it
    is_withheld: bool = False  # its words were not said after all; they are not kept


class NoJournal:
    """Keeps nothing: for conversations that nobody records."""

    def spent(self) -> Spent:
        """Nothing."""
        return Spent()

    def known(self, digest: str) -> Known | None:
        """None."""
        return None

    async def begin(self, request: ModelRequest, digest: str, model: str) -> Intent:
        """Keeps nothing."""
        return Intent(
            call_id="",
            digest=digest,
            purpose=request.purpose,
            action_id=request.action_id,
            round=request.round,
            model=model,
            started_at=request.now,
        )

    async def end(self, intent: Intent, reply: ModelReply | None, error: str = "", usage: Usage | None = None) -> Ended:
        """Keeps nothing."""
        return Ended(reply=reply, error=error, usage=usage, ended_at=intent.started_at)

    async def told(self, intent: Intent) -> None:
        """Keeps nothing."""


def digest_of(request: ModelRequest) -> str:
    """The same for two requests that ask the same, whenever and in whichever attempt at a turn they are made, whatever
    memory has to say to it by then.
    """
    said = tuple(msgspec.structs.replace(message, message_id="") for message in request.history)
    plain = msgspec.structs.replace(request, now=_NO_TIME, history=said, memories=msgspec.UNSET)
    return hashlib.sha256(_encoder.encode(plain)).hexdigest()


class Calls:
    """The calls of one turn."""

    def __init__(self, model: Model, journal: Journal, purse: Purse, ends_at: float = math.inf) -> None:
        """Stop each call at the moment `ends_at` of the event loop's clock."""
        self.made: list[ModelCall] = []
        self._answered: list[ModelCall] = []  # all of them as they were, however often the turn begins
        self._before: list[ModelCall] = []  # of these, what was not come to again since it last began
        self._model = model
        self._journal = journal
        self._purse = purse
        self._ends_at = ends_at

    def begin_again(self, purse: Purse) -> None:
        """The turn begins anew, with another purse: what was asked since it began is not asked again."""
        self.made, self._before, self._purse = [], list(self._answered), purse

    async def make(
        self, request: ModelRequest, on_interrupted: OnInterrupted = "retry", hear: Hear | None = None
    ) -> ModelReply:
        """The model's reply. Raises ModelFailed, CallInterrupted, BudgetExceeded."""
        name = self._model.goes_to(request)
        if not name:
            reply = await self._model.complete(request, hear)
            self.made.append(ModelCall(request=request, reply=reply))
            return reply
        digest = digest_of(request)
        before = next((each for each in self._before if each.intent is not None and each.intent.digest == digest), None)
        if before is not None:
            return self._come_to_again(before, request)
        known = self._journal.known(digest)
        if known is not None and known.ended is not None and known.ended.reply is not None:
            self._add(request, known.intent, known.ended, is_reused=True)
            return known.ended.reply
        if known is not None and known.ended is None and on_interrupted == "fail":
            await self._journal.told(known.intent)
            raise CallInterrupted("a call of the model was interrupted, and may have been carried out; say it again")
        self._purse.check()
        return await self._made(request, await self._journal.begin(request, digest, name), hear)

    def _come_to_again(self, call: ModelCall, request: ModelRequest) -> ModelReply:
        """The reply of a call that was made for the same request before the turn began anew. Raises ModelFailed."""
        self._before.remove(call)
        self.made.append(msgspec.structs.replace(call, request=request))
        usage = _usage(call.ended)
        if not call.is_reused:
            self._purse.recount(usage)
        if call.reply is None:
            raise ModelFailed(call.ended.error if call.ended is not None else GIVEN_UP, usage=usage)
        return call.reply

    async def _made(self, request: ModelRequest, intent: Intent, hear: Hear | None) -> ModelReply:
        usage: Usage | None = None
        try:
            async with until(self._ends_at) as limit:
                return await self._completed(request, intent, hear)
        except TimeoutError as error:
            if not limit.expired():  # the model's own
                raise
            usage = _given_up(error.__cause__)
        raise ModelFailed(OUT_OF_TIME, usage=usage)

    async def _completed(self, request: ModelRequest, intent: Intent, hear: Hear | None) -> ModelReply:
        try:
            reply = await self._model.complete(request, hear)
        except ModelFailed as failed:
            self._add(request, intent, await self._journal.end(intent, None, str(failed), failed.usage))
            raise
        except BaseException as reason:  # a time limit of ours, or something that went wrong as the words were heard
            self._add(request, intent, await self._journal.end(intent, None, GIVEN_UP, _given_up(reason)))
            raise
        ended = await self._journal.end(intent, reply, usage=reply.usage)
        self._add(request, intent, ended)
        if ended.reply is None:
            raise ModelFailed(ended.error, usage=ended.usage)
        return reply

    def _add(self, request: ModelRequest, intent: Intent, ended: Ended, *, is_reused: bool = False) -> None:
        usage = _usage(ended)
        if not is_reused:  # it is among what earlier attempts took
            self._purse.count(usage)
        call = ModelCall(request=request, reply=ended.reply, intent=intent, ended=ended, is_reused=is_reused)
        self.made.append(call)
        self._answered.append(call)

    def withhold(self, said: Message, instead: Message) -> None:
        """Forgets the text of a message that is not said after all, in what was asked since."""
        self.made = [_without(call, said, instead) for call in self.made]

    def forget_unsaid(self, said: Collection[str]) -> None:
        """Forgets the words of all replies but those that were `said`."""
        self.made = [_unsaid(call) if _has_words_besides(call, said) else call for call in self.made]


def _without(call: ModelCall, said: Message, instead: Message) -> ModelCall:
    replace = msgspec.structs.replace
    history = tuple(instead if each is said else each for each in call.request.history)
    request = replace(call.request, history=history)
    if request.task == said.content:  # a model that says its task word for word
        request = replace(request, task="", task_spans=())
    if request.purpose == "detect" and request.reply == said.content:
        request = replace(request, reply=instead.content)
        call = _wordless(call)  # a model may quote what it looks at
    return replace(call, request=request)


def _has_words_besides(call: ModelCall, said: Collection[str]) -> bool:
    if call.request.purpose not in SPEAKING or call.reply is None:
        return False
    return bool(call.reply.text.strip()) and call.reply.text not in said


def _unsaid(call: ModelCall) -> ModelCall:
    request = call.request
    if call.reply is not None and request.task == call.reply.text:
        request = msgspec.structs.replace(request, task="", task_spans=())
    return msgspec.structs.replace(_wordless(call), request=request)


def _wordless(call: ModelCall) -> ModelCall:
    replace = msgspec.structs.replace
    reply = replace(call.reply, text="", raw="") if call.reply is not None else None
    ended = replace(call.ended, reply=reply) if call.ended is not None else None
    return replace(call, reply=reply, ended=ended, is_withheld=True)


def _given_up(reason: BaseException | None) -> Usage | None:
    """What a call took that was ended from outside."""
    cause = reason.__cause__ if reason is not None else None
    return cause.usage if isinstance(cause, GivenUp) else None


def _usage(ended: Ended | None) -> Usage | None:
    """What a call took, as far as it is known."""
    if ended is None or ended.usage is not None or ended.reply is None:
        return ended.usage if ended is not None else None
    return ended.reply.usage

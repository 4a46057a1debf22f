"""Models that answer from a record: each request of a turn by its digest, or, on another script, by its place."""

from collections.abc import Sequence

from msgspec import Struct

from runtime.calls import digest_of
from runtime.models.offline import OfflineModel
from runtime.models.scripted import ScriptedModel
from runtime.ports import SPEAKING, Hear, Model, ModelFailed, ModelReply, ModelRequest, Purpose, Usage

_NAME = "recorded"


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A call that a turn was taken with, and what came of it."""

    digest: str
    purpose: Purpose
    action_id: str
    round: int
    reply: ModelReply | None
    error: str = ""
    usage: Usage | None = None
    is_withheld: bool = False  # the words of the reply are not in the record


class NotRecorded(Exception):
    """A request that the record has no reply to; the message says for what. No turn goes on after it."""

    def __init__(self, request: ModelRequest, why: str) -> None:
        super().__init__(f"{why} ({request.purpose}, round {request.round})")
        self.action_id = request.action_id


class NotKept(NotRecorded):
    """A request whose reply was withheld from the user, and is not kept."""


class RecordedModel:
    """Says in one turn what was said then. A turn that called no model was taken without one, unless a `budget` was
    used up in it. It is also the meter of that turn: the budget is used up again after the last call that was made.
    """

    def __init__(self, calls: Sequence[RecordedCall], budget: str = "") -> None:
        self._calls = list(calls)
        self._budget = budget
        self._offline = OfflineModel() if not calls and not budget else None

    def goes_to(self, request: ModelRequest) -> str:
        """The record stands for one, where it holds any reply."""
        return "" if self._offline is not None else _NAME

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        """The reply to this very request; one made twice is answered twice. Raises ModelFailed, NotRecorded."""
        if self._offline is not None:
            return await self._offline.complete(request)
        digest = digest_of(request)
        for call in self._calls:
            if call.digest == digest:
                self._calls.remove(call)
                if call.is_withheld and call.purpose in SPEAKING:
                    raise NotKept(request, "what the model said here was withheld, and is not kept")
                if call.reply is None:
                    raise ModelFailed(call.error, usage=call.usage)
                return call.reply
        raise NotRecorded(request, self._why(request))

    def exceeded(self) -> str | None:
        """The budget that was used up, once all calls are made that were made before it was."""
        return None if self._calls else self._budget or None

    def count(self, usage: Usage | None) -> None:
        """Counts nothing: it knows what comes."""

    def _why(self, request: ModelRequest) -> str:
        same = [call for call in self._calls if (call.action_id, call.purpose) == (request.action_id, request.purpose)]
        if same:
            return "the model is asked something else than it was: the task, what was said before, or what is wanted"
        return "the model is asked where it was not asked"


class ShadowModel:
    """Says what was said at the same action, visit and round; for the rest it asks a further model, if there is one."""

    def __init__(self, recorded: ScriptedModel, further: Model | None) -> None:
        self._recorded = recorded
        self._further = further

    def goes_to(self, request: ModelRequest) -> str:
        """The record, or the model that is asked in its place."""
        if self._further is None or self._recorded.holds(request):
            return _NAME
        return self._further.goes_to(request)

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        """A reply. Raises ModelFailed, NotRecorded."""
        if self._recorded.holds(request) or (self._further is None and self._recorded.can_pass(request)):
            return await self._recorded.complete(request)
        if self._further is None:
            raise NotRecorded(request, f"nothing is recorded that {request.action_id} could say")
        return await self._further.complete(request, hear)

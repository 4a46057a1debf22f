"""Replay of a recorded turn: its model calls, by the digest of a request, or, on another script, by its position; and
its memory searches.
"""

from collections.abc import Sequence

from msgspec import Struct

from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import ScriptedModel
from runtime.state.events import Recollected
from runtime.state.ports import (
    SPEAKING,
    MemoryFailed,
    Model,
    ModelFailed,
    ModelReply,
    ModelRequest,
    OnReply,
    Purpose,
    Usage,
    digest_of,
)
from runtime.state.recall_types import RecallResult, RecallWish

_NAME = "recorded"


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A call of a recorded turn, with its result."""

    number: int  # in its turn, over all attempts at the turn, from 1
    digest: str
    purpose: Purpose
    action_id: str
    round: int
    reply: ModelReply | None
    error: str = ""
    usage: Usage | None = None
    is_withheld: bool = False  # the text of the reply is not stored


class NotRecorded(Exception):
    """A request without a recorded reply; the message names its purpose and round. It ends the turn."""

    def __init__(self, request: ModelRequest, why: str) -> None:
        super().__init__(f"{why} ({request.purpose}, round {request.round})")
        self.action_id = request.action_id


class ReplyRedacted(NotRecorded):
    """A request whose reply was withheld from the user and is not stored."""


class RecordedModel:
    """Replays one turn. A turn without calls is replayed without a language model, unless a `budget` was used up in it.
    It is also the meter of that turn: after the last recorded call, the budget is used up again.
    """

    def __init__(self, calls: Sequence[RecordedCall], budget: str = "") -> None:
        self._calls = list(calls)
        self._budget = budget
        self.requests: dict[str, ModelRequest] = {}  # that were made so far, by digest
        self._offline = OfflineModel() if not calls and not budget else None

    def goes_to(self, request: ModelRequest) -> str:
        """Return a name if there are recorded replies, else an empty one."""
        return "" if self._offline is not None else _NAME

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        """Return the recorded reply to the same request; each is used once. Raises ModelFailed, NotRecorded."""
        if self._offline is not None:
            return await self._offline.complete(request)
        digest = digest_of(request)
        self.requests[digest] = request
        for call in self._calls:
            if call.digest == digest:
                self._calls.remove(call)
                if call.is_withheld and call.purpose in SPEAKING:
                    raise ReplyRedacted(request, "the reply of the model was withheld and is not stored")
                if call.reply is None:
                    raise ModelFailed(call.error, usage=call.usage)
                return call.reply
        raise NotRecorded(request, self._why(request))

    def exhausted_budget(self) -> str | None:
        """Return the budget that was used up, after all recorded calls have been replayed."""
        return None if self._calls else self._budget or None

    def count(self, usage: Usage | None) -> None:
        """Do nothing, because the recorded usage is known."""

    def _why(self, request: ModelRequest) -> str:
        same = [call for call in self._calls if (call.action_id, call.purpose) == (request.action_id, request.purpose)]
        if same:
            return "the request differs from the recorded one in the task, the earlier messages or the outputs"
        return "the recorded turn has no such request"


class ShadowModel:
    """Replays the reply of the same action, visit and round; other requests go to a further model, if there is one."""

    def __init__(self, recorded: ScriptedModel, further: Model | None) -> None:
        self._recorded = recorded
        self._further = further

    def goes_to(self, request: ModelRequest) -> str:
        """Return a fixed name for a recorded reply, or the name of the further model."""
        if self._further is None or self._recorded.holds(request):
            return _NAME
        return self._further.goes_to(request)

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        """Return a reply. Raises ModelFailed, NotRecorded."""
        if self._recorded.holds(request) or (self._further is None and self._recorded.can_pass(request)):
            return await self._recorded.complete(request)
        if self._further is None:
            raise NotRecorded(request, f"there is no recorded reply for {request.action_id}")
        return await self._further.complete(request, hear)


# -- memory searches --------------------------------------------------------------------------------------------------


class NotRecalled(Exception):
    """A search without a recorded result. It ends the turn."""


class RecordedMemory:
    """Returns the recorded results of one turn, whatever happened to the units since."""

    def __init__(self, recorded: Sequence[Recollected]) -> None:
        self._recorded = list(recorded)

    async def recall(self, wish: RecallWish) -> RecallResult:
        """Return the recorded result of the same search. Raises MemoryFailed, NotRecalled."""
        for each in self._recorded:
            if (each.query, each.k, each.filters) == (wish.query, wish.k, wish.filters):
                self._recorded.remove(each)
                if each.failed:
                    raise MemoryFailed(each.failed)
                return RecallResult(units=each.units)
        raise NotRecalled("the turn makes a memory search that was not recorded")

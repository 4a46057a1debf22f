"""A model that listens to another one and keeps what it says, in the form that the scripted model reads."""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import structs

from runtime.models.cassette import ASIDES, Replies, ScriptedReply, Written
from runtime.ports import Hear, Model, ModelFailed, ModelReply, ModelRequest, Verdict

_Kept: TypeAlias = dict[int, dict[int, ScriptedReply]]
"""By visit and round, or number of the call; of a detector, by turn and message."""


class RecordingModel:
    """Asks the model behind it. A call that is made again (its turn had failed) replaces what was kept of it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._kept: dict[str, _Kept] = {}

    def goes_to(self, request: ModelRequest) -> str:
        """The one behind it."""
        return self._model.goes_to(request)

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        """What the model says. Raises ModelFailed, which is kept too."""
        try:
            reply = await self._model.complete(request, hear)
        except ModelFailed as failed:
            fail = str(failed) or "the model failed"
            self._keep(request, ScriptedReply(fail=fail, retryable=failed.retryable, usage=failed.usage), {})
            raise
        self._keep(
            request,
            ScriptedReply(
                text=reply.text,
                values=dict(reply.values),
                reasons=dict(reply.reasons),
                exit=reply.exit,
                exit_reason=reply.exit_reason,
                understanding=reply.understanding,
                has_questions=reply.has_questions,
                progress=reply.progress,
                intent=reply.intent,
                extracted=reply.extracted,
                usage=reply.usage,
            ),
            reply.detected,
        )
        return reply

    @property
    def replies(self) -> Replies:
        """Everything that was said so far, by action in the order they were first asked."""
        return {name: _listed(name, kept) for name, kept in self._kept.items()}

    def _keep(self, request: ModelRequest, reply: ScriptedReply, detected: Mapping[str, Verdict]) -> None:
        if request.purpose == "detect":
            self._keep_seen(request, reply, detected)
            return
        aside = request.purpose in ASIDES
        name = f"{request.action_id}.{request.purpose}" if aside else request.action_id
        number = request.asked if aside else request.round
        self._kept.setdefault(name, {}).setdefault(request.visit, {})[number] = reply

    def _keep_seen(self, request: ModelRequest, reply: ScriptedReply, detected: Mapping[str, Verdict]) -> None:
        """By turn and message. What the call took stands with the first of the detectors it was made for."""
        usage = reply.usage
        for name in request.detectors:
            verdict = detected.get(name, Verdict(0.0))
            seen = ScriptedReply(score=verdict.score, label=verdict.label)
            each = structs.replace(reply if reply.fail else seen, usage=usage)
            self._kept.setdefault(f"{name}.detect", {}).setdefault(request.round, {})[request.asked] = each
            usage = None


def _listed(name: str, kept: _Kept) -> list[Written] | list[list[Written]]:
    """The replies of the only visit, or of each; a round or visit that was not asked about keeps its place."""
    if name.endswith(".detect") and 0 not in kept and all(set(looks) == {0} for looks in kept.values()):
        return _rounds({turn - 1: looks[0] for turn, looks in kept.items()})  # it looked at the user's messages only
    visits = [_rounds(kept.get(visit, {})) for visit in range(max(kept) + 1)]
    return visits if len(visits) > 1 or name.endswith(".detect") else visits[0]


def _rounds(kept: Mapping[int, ScriptedReply]) -> list[Written]:
    rounds = [kept.get(number, ScriptedReply()) for number in range(max(kept, default=-1) + 1)]
    return [each.text if each.text and each == ScriptedReply(text=each.text) else each for each in rounds]

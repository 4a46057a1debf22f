"""A model that listens to another one and keeps what it says, in the form that the scripted model reads."""

from collections.abc import Mapping
from typing import TypeAlias

from runtime.models.cassette import ASIDES, Replies, ScriptedReply, Written, heard
from runtime.ports import Hear, Model, ModelFailed, ModelReply, ModelRequest, Verdict

_Kept: TypeAlias = dict[int, dict[int, ScriptedReply]]
"""By visit and round, or number of the call."""


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
            kept = ScriptedReply(fail=str(failed) or "the model failed", retryable=failed.retryable)
            self._keep(request, kept, {})
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
                intent=reply.intent,
            ),
            reply.detected,
        )
        return reply

    @property
    def replies(self) -> Replies:
        """Everything that was said so far, by action in the order they were first asked."""
        return {name: _listed(kept) for name, kept in self._kept.items()}

    def _keep(self, request: ModelRequest, reply: ScriptedReply, detected: Mapping[str, Verdict]) -> None:
        if request.purpose == "detect":
            for name in request.detectors:
                verdict = detected.get(name, Verdict(0.0))
                each = reply if reply.fail else ScriptedReply(score=verdict.score, label=verdict.label)
                self._kept.setdefault(f"{name}.detect", {}).setdefault(0, {})[heard(request)] = each
            return
        aside = request.purpose in ASIDES
        name = f"{request.action_id}.{request.purpose}" if aside else request.action_id
        number = request.asked if aside else request.round
        self._kept.setdefault(name, {}).setdefault(request.visit, {})[number] = reply


def _listed(kept: _Kept) -> list[Written] | list[list[Written]]:
    """The replies of the only visit, or of each; a round or visit that was not asked about keeps its place."""
    visits = [_rounds(kept.get(visit, {})) for visit in range(max(kept) + 1)]
    return visits if len(visits) > 1 else visits[0]


def _rounds(kept: Mapping[int, ScriptedReply]) -> list[Written]:
    rounds = [kept.get(number, ScriptedReply()) for number in range(max(kept, default=-1) + 1)]
    return [each.text if each.text and each == ScriptedReply(text=each.text) else each for each in rounds]

"""Models of cassettes (`cassette_file`): one replays the replies of a file, for tests, demonstrations and replays;
another records the replies of any model in the same form.
"""

import asyncio
import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct, structs

from runtime.models.cassette_file import ASIDES, Replies, ScriptedCall, ScriptedReply, Written, read_cassette
from runtime.models.offline_model import extract_summary
from runtime.state.ports import (
    CONDENSING,
    Model,
    ModelFailed,
    ModelReply,
    ModelRequest,
    OnReply,
    ToolCall,
    Usage,
    Verdict,
)
from scripts.expressions.values import count_text

# -- replaying --------------------------------------------------------------------------------------------------------


_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"  # scripts without blanks between words
_PIECE = re.compile(rf"\s*(?:[{_WIDE}]{{1,3}}|[^\s{_WIDE}]+)\s*|\s+")


class _Visits(Struct, frozen=True):
    """The replies of one action: a list for each visit, or a single list for `every` visit."""

    lists: tuple[tuple[Written, ...], ...]
    every: bool

    def of(self, visit: int) -> tuple[Written, ...] | None:
        """Return the replies of a visit, counted from 0; None if there are none."""
        if self.every:
            return self.lists[0]
        return self.lists[visit] if visit < len(self.lists) else None


class ScriptedModel:
    """Replies by action id, visit and round. A request without a reply fails; the message names the nearest existing
    id.

    A plain list of replies serves every visit.
    """

    def __init__(self, replies: Replies) -> None:
        self._replies = {name: _visits(each) for name, each in replies.items()}

    @classmethod
    def from_file(cls, path: Path) -> "ScriptedModel":
        """Read a YAML file of replies. Raises ScriptedFileInvalid."""
        return cls(read_cassette(path))

    def goes_to(self, request: ModelRequest) -> str:
        """Return a fixed name."""
        return "scripted"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        """Return the reply for this action, visit and round, streamed word by word. Raises ModelFailed."""
        reply = self._reply(request)
        if hear is not None:
            await _speak(reply, hear)
        return reply

    def _reply(self, request: ModelRequest) -> ModelReply:
        name = request.action_id
        if request.purpose == "detect":
            return self._detect(request)
        if request.purpose in ASIDES:
            return self._aside(request)
        if name not in self._replies:
            raise ModelFailed(f"no reply is written for {name}{self._nearest(name)}", retryable=False)
        visits = self._replies[name]
        replies = visits.of(request.visit)
        if replies is None:
            there = f"{name} has replies for {count_text(len(visits.lists), 'visit')}"
            raise ModelFailed(f"{there}; none is written for visit {request.visit + 1}", retryable=False)
        if request.round >= len(replies):
            which = "" if visits.every else f" of visit {request.visit + 1}"
            message = f"{name} has {len(replies)} replies{which}; none is written for round {request.round}"
            raise ModelFailed(message, retryable=False)
        return _next(replies[request.round], request)

    def holds(self, request: ModelRequest) -> bool:
        """Return whether there is a reply for this request."""
        if request.purpose == "detect":
            return all(self._detector_reply(name, request) for name in request.detectors)
        aside = request.purpose in ASIDES
        visits = self._replies.get(f"{request.action_id}.{request.purpose}" if aside else request.action_id)
        replies = visits.of(request.visit) if visits is not None else None
        if not replies:
            return False
        return aside or (request.round < len(replies) and replies[request.round] != ScriptedReply())

    def can_pass(self, request: ModelRequest) -> bool:
        """Return whether a request may have no reply: one beside the conversation."""
        return request.purpose in ASIDES or request.purpose == "detect"

    def _aside(self, request: ModelRequest) -> ModelReply:
        """Return the reply to a request beside the conversation, or an empty one."""
        visits = self._replies.get(f"{request.action_id}.{request.purpose}")
        replies = visits.of(request.visit) if visits is not None else None
        if replies:
            return _reply(replies[min(request.asked, len(replies) - 1)])
        return extract_summary(request) if request.purpose in CONDENSING else ModelReply()

    def _detect(self, request: ModelRequest) -> ModelReply:
        """Return the verdicts of the detectors for their message."""
        detected: dict[str, Verdict] = {}
        usage: Usage | None = None
        for name in request.detectors:
            for each in self._detector_reply(name, request):
                if isinstance(each, str):
                    detected[name] = Verdict(1.0, each)
                    continue
                usage = usage or each.usage
                if each.fail:
                    raise ModelFailed(each.fail, retryable=each.retryable, usage=usage)
                if each.score:
                    detected[name] = Verdict(each.score, each.label)
        return ModelReply(detected=detected, usage=usage)

    def _detector_reply(self, name: str, request: ModelRequest) -> tuple[Written, ...]:
        """Return the reply for a detector and a message, or none."""
        visits = self._replies.get(f"{name}.detect")
        if visits is None:
            return ()
        if visits.every:
            at = max(request.round, 1) - 1
            return visits.lists[0][at : at + 1]
        return (visits.of(request.round) or ())[request.asked : request.asked + 1]

    def _nearest(self, name: str) -> str:
        close = difflib.get_close_matches(name, list(self._replies), 1, 0)
        return f"; the nearest is {close[0]}" if close else ""


class ModelWithCassettes:
    """A model, and cassettes that answer the requests that name them in its place."""

    def __init__(self, model: Model, cassettes: Mapping[str, ScriptedModel]) -> None:
        self.model = model
        self.cassettes = cassettes

    def goes_to(self, request: ModelRequest) -> str:
        """Return the name of the cassette, or of the model."""
        return request.model if request.model in self.cassettes else self.model.goes_to(request)

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        """Return the reply of the cassette or of the model. Raises ModelFailed."""
        return await self.cassettes.get(request.model, self.model).complete(request, hear)


def _visits(replies: Sequence[Written] | Sequence[Sequence[Written]]) -> _Visits:
    plain = tuple(each for each in replies if isinstance(each, str | ScriptedReply))
    if plain or not replies:
        return _Visits((plain,), every=True)
    return _Visits(tuple(tuple(each) for each in replies if not isinstance(each, str | ScriptedReply)), every=False)


def _next(written: Written, request: ModelRequest) -> ModelReply:
    """Return the next call of a tool before a reply, or the reply after them. Raises ModelFailed."""
    calls = written.calls if isinstance(written, ScriptedReply) else ()
    done = len(request.outcomes)
    if done >= len(calls):
        return _reply(written)
    wanted = calls[done]
    if wanted.tool not in {offer.id for offer in request.offers}:
        message = f"the reply written for {request.action_id} calls {wanted.tool}, which the action does not offer here"
        raise ModelFailed(message, retryable=False)
    raw = msgspec.json.encode(wanted).decode()
    return ModelReply(tool_call=ToolCall(wanted.tool, wanted.arguments), usage=wanted.usage, raw=raw)


async def _speak(reply: ModelReply, hear: OnReply) -> None:
    for piece in _PIECE.finditer(reply.text):
        hear(msgspec.structs.replace(reply, text=reply.text[: piece.end()]))
        await asyncio.sleep(0)  # the listener can run now


def _reply(written: Written) -> ModelReply:
    if isinstance(written, str):
        return ModelReply(text=written, raw=written)
    if written.fail:
        raise ModelFailed(written.fail, retryable=written.retryable, usage=written.usage)
    done = None if written.exit is None else str(written.exit).strip().lower() in {"true", "yes", "1", "y", "是"}
    reply = msgspec.convert(structs.replace(written, exit=done), ModelReply, from_attributes=True)
    return structs.replace(reply, raw=msgspec.json.encode(written).decode())


# -- recording --------------------------------------------------------------------------------------------------------


_Replies: TypeAlias = dict[int, dict[int, ScriptedReply]]
"""By visit and round, or index of the call; for a detector, by turn and message."""


class RecordingModel:
    """Passes requests on and records the replies. A repeated call, after a failed turn, replaces its recorded reply.

    `model` is the recorded model; it may change between turns.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._replies: dict[str, _Replies] = {}

    def goes_to(self, request: ModelRequest) -> str:
        """Return the name of the recorded model."""
        return self.model.goes_to(request)

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        """Return the model's reply. Raises ModelFailed, which is recorded too."""
        try:
            reply = await self.model.complete(request, hear)
        except ModelFailed as failed:
            fail = str(failed) or "the model failed"
            self._keep(request, ScriptedReply(fail=fail, retryable=failed.retryable, usage=failed.usage), {})
            raise
        written = msgspec.convert(reply, ScriptedReply, from_attributes=True)
        if reply.tool_call is not None:
            call = ScriptedCall(reply.tool_call.tool, reply.tool_call.arguments, reply.usage)
            written = ScriptedReply(calls=(call,))
        self._keep(request, written, reply.detected)
        return reply

    @property
    def replies(self) -> Replies:
        """Return all recorded replies, by action in the order of their first request."""
        return {name: _replies_of_visits(name, replies_of_action) for name, replies_of_action in self._replies.items()}

    def _keep(self, request: ModelRequest, reply: ScriptedReply, detected: Mapping[str, Verdict]) -> None:
        if reply.usage is not None:  # a cassette contains what a model says, not what it is sent
            reply = structs.replace(reply, usage=structs.replace(reply.usage, prompt=None))
        if request.purpose == "detect":
            self._keep_seen(request, reply, detected)
            return
        aside = request.purpose in ASIDES
        name = f"{request.action_id}.{request.purpose}" if aside else request.action_id
        number = request.asked if aside else request.round
        replies = self._replies.setdefault(name, {}).setdefault(request.visit, {})
        earlier = replies[number].calls if request.outcomes else ()
        replies[number] = structs.replace(reply, calls=(*earlier, *reply.calls))

    def _keep_seen(self, request: ModelRequest, reply: ScriptedReply, detected: Mapping[str, Verdict]) -> None:
        """Record verdicts by turn and message. The usage is stored with the first detector of the call."""
        usage = reply.usage
        for name in request.detectors:
            verdict = detected.get(name, Verdict(0.0))
            seen = ScriptedReply(score=verdict.score, label=verdict.label)
            each = structs.replace(reply if reply.fail else seen, usage=usage)
            self._replies.setdefault(f"{name}.detect", {}).setdefault(request.round, {})[request.asked] = each
            usage = None


def _replies_of_visits(name: str, replies_of_action: _Replies) -> list[Written] | list[list[Written]]:
    """Return the replies of the only visit, or of each; a round or visit without a request gets an empty reply."""
    of_user = {turn - 1: looks[0] for turn, looks in replies_of_action.items() if set(looks) == {0}}
    if name.endswith(".detect") and 0 not in replies_of_action and len(of_user) == len(replies_of_action):
        return _rounds(of_user)  # it watches only the user's messages
    visits = [_rounds(replies_of_action.get(visit, {})) for visit in range(max(replies_of_action) + 1)]
    return visits if len(visits) > 1 or name.endswith(".detect") else visits[0]


def _rounds(replies_of_action: Mapping[int, ScriptedReply]) -> list[Written]:
    count = max(replies_of_action, default=-1) + 1
    rounds = [replies_of_action.get(number, ScriptedReply()) for number in range(count)]
    return [each.text if each.text and each == ScriptedReply(text=each.text) else each for each in rounds]

"""A model that says what a file says (`runtime.models.cassette`): for tests, demonstrations and replays."""

import asyncio
import difflib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from runtime.models.cassette import ASIDES, Replies, ScriptedReply, Written, read_cassette
from runtime.models.offline import extracted
from runtime.ports import CONDENSING, Hear, ModelFailed, ModelReply, ModelRequest, Usage, Verdict

_YES = {"true", "yes", "1", "y", "是"}
_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"  # scripts that put no blanks between words
_PIECE = re.compile(rf"\s*(?:[{_WIDE}]{{1,3}}|[^\s{_WIDE}]+)\s*|\s+")


class _Visits(Struct, frozen=True):
    """The replies of one action: a list for each visit, or a single one for `every` visit."""

    lists: tuple[tuple[Written, ...], ...]
    every: bool

    def of(self, visit: int) -> tuple[Written, ...] | None:
        """The replies of a visit, counted from 0; None where none are written."""
        if self.every:
            return self.lists[0]
        return self.lists[visit] if visit < len(self.lists) else None


class ScriptedModel:
    """Replies by action id, visit and round. A call nobody wrote a reply for fails and names the nearest that exists.

    A plain list of replies serves every visit.
    """

    def __init__(self, replies: Replies) -> None:
        self._replies = {name: _visits(each) for name, each in replies.items()}

    @classmethod
    def from_file(cls, path: Path) -> "ScriptedModel":
        """Reads a YAML file of replies. Raises ScriptedFileInvalid."""
        return cls(read_cassette(path))

    def goes_to(self, request: ModelRequest) -> str:
        """The file stands for one."""
        return "scripted"

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        """The reply written for this action, visit and round, heard word by word. Raises ModelFailed."""
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
            there = f"{name} has replies for {_counted(len(visits.lists), 'visit')}"
            raise ModelFailed(f"{there}; none is written for visit {request.visit + 1}", retryable=False)
        if request.round >= len(replies):
            which = "" if visits.every else f" of visit {request.visit + 1}"
            message = f"{name} has {len(replies)} replies{which}; none is written for round {request.round}"
            raise ModelFailed(message, retryable=False)
        return _reply(replies[request.round])

    def holds(self, request: ModelRequest) -> bool:
        """Whether a reply is written for this very request."""
        if request.purpose == "detect":
            return all(self._seen(name, request) for name in request.detectors)
        aside = request.purpose in ASIDES
        visits = self._replies.get(f"{request.action_id}.{request.purpose}" if aside else request.action_id)
        replies = visits.of(request.visit) if visits is not None else None
        if not replies:
            return False
        return aside or (request.round < len(replies) and replies[request.round] != ScriptedReply())

    def can_pass(self, request: ModelRequest) -> bool:
        """Whether the file need not say anything to a request: what is asked beside the conversation."""
        return request.purpose in ASIDES or request.purpose == "detect"

    def _aside(self, request: ModelRequest) -> ModelReply:
        """What is asked beside the conversation; the file need not say anything to it."""
        visits = self._replies.get(f"{request.action_id}.{request.purpose}")
        replies = visits.of(request.visit) if visits is not None else None
        if replies:
            return _reply(replies[min(request.asked, len(replies) - 1)])
        return extracted(request) if request.purpose in CONDENSING else ModelReply()

    def _detect(self, request: ModelRequest) -> ModelReply:
        """What is written for each of the detectors, for the message they look at."""
        detected: dict[str, Verdict] = {}
        usage: Usage | None = None
        for name in request.detectors:
            for each in self._seen(name, request):
                if isinstance(each, str):
                    detected[name] = Verdict(1.0, each)
                    continue
                usage = usage or each.usage
                if each.fail:
                    raise ModelFailed(each.fail, retryable=each.retryable, usage=usage)
                if each.score:
                    detected[name] = Verdict(each.score, each.label)
        return ModelReply(detected=detected, usage=usage)

    def _seen(self, name: str, request: ModelRequest) -> tuple[Written, ...]:
        """The one reply that is written for a detector and a message, or none."""
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


def _visits(replies: Sequence[Written] | Sequence[Sequence[Written]]) -> _Visits:
    plain = tuple(each for each in replies if isinstance(each, str | ScriptedReply))
    if plain or not replies:
        return _Visits((plain,), every=True)
    return _Visits(tuple(tuple(each) for each in replies if not isinstance(each, str | ScriptedReply)), every=False)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


async def _speak(reply: ModelReply, hear: Hear) -> None:
    for piece in _PIECE.finditer(reply.text):
        hear(msgspec.structs.replace(reply, text=reply.text[: piece.end()]))
        await asyncio.sleep(0)  # whoever listens gets it now


def _reply(written: Written) -> ModelReply:
    if isinstance(written, str):
        return ModelReply(text=written, raw=written)
    if written.fail:
        raise ModelFailed(written.fail, retryable=written.retryable, usage=written.usage)
    return ModelReply(
        text=written.text,
        values=written.values,
        reasons=written.reasons,
        exit=None if written.exit is None else str(written.exit).strip().lower() in _YES,
        exit_reason=written.exit_reason,
        understanding=written.understanding,
        has_questions=written.has_questions,
        progress=written.progress,
        intent=written.intent,
        extracted=written.extracted,
        usage=written.usage,
        raw=msgspec.json.encode(written).decode(),
    )

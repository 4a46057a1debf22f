"""A model that says what a file says: for tests, demonstrations and replays.

The file lists the replies of each action by its id, one a round; a bare text is what to say::

    replies:
      ask_name:
        - What should I call you?
        - {exit: true, values: {user_name: Ana}}
      ask_name.extract:
        - {values: {user_name: Ana}}
"""

import difflib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml
from msgspec import Struct

from runtime.ports import ModelFailed, ModelReply, ModelRequest
from scripts.values import Value

FILE_BYTES_MAX = 4_000_000
_YES = {"true", "yes", "1", "y", "是"}


class ScriptedReply(Struct, frozen=True, forbid_unknown_fields=True):
    """One reply as a file gives it; `fail` makes the call fail instead."""

    text: str = ""
    values: Mapping[str, Value] = {}
    exit: bool | str | int | None = None
    exit_reason: str = ""
    understanding: int | None = None
    has_questions: bool | None = None
    intent: str = ""
    fail: str = ""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    replies: Mapping[str, list[str | ScriptedReply]]


class ScriptedFileInvalid(ValueError):
    """A file of replies that cannot be used; the message names file and place."""


class ScriptedModel:
    """Replies by action id and round. A call nobody wrote a reply for fails and names the nearest that exists."""

    def __init__(self, replies: Mapping[str, list[str | ScriptedReply]]) -> None:
        self._replies = replies

    @classmethod
    def from_file(cls, path: Path) -> "ScriptedModel":
        """Reads a YAML file of replies. Raises ScriptedFileInvalid."""
        try:
            if path.stat().st_size > FILE_BYTES_MAX:
                raise ScriptedFileInvalid(f"{path}: larger than {FILE_BYTES_MAX:,} bytes")
            data = yaml.safe_load(path.read_text("utf-8"))
            return cls(msgspec.convert(data, _File).replies)
        except OSError as error:
            raise ScriptedFileInvalid(f"{path}: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
            raise ScriptedFileInvalid(f"{path}: {error}") from error

    async def complete(self, request: ModelRequest) -> ModelReply:
        """The reply written for this action and round. Raises ModelFailed."""
        if request.purpose in {"extract", "route"}:
            return self._aside(request)
        replies = self._replies.get(request.action_id)
        if replies is None:
            raise ModelFailed(f"no reply is written for {request.action_id}{self._nearest(request)}", retryable=False)
        if request.round >= len(replies):
            raise ModelFailed(
                f"{request.action_id} has {len(replies)} replies; none is written for round {request.round}",
                retryable=False,
            )
        return _reply(replies[request.round])

    def _aside(self, request: ModelRequest) -> ModelReply:
        """What is asked beside the conversation; the file need not say anything to it."""
        replies = self._replies.get(f"{request.action_id}.{request.purpose}", [])
        return _reply(replies[max(min(request.round, len(replies)), 1) - 1]) if replies else ModelReply()

    def _nearest(self, request: ModelRequest) -> str:
        close = difflib.get_close_matches(request.action_id, list(self._replies), 1, 0)
        return f"; the nearest is {close[0]}" if close else ""


def _reply(written: str | ScriptedReply) -> ModelReply:
    if isinstance(written, str):
        return ModelReply(text=written, raw=written)
    if written.fail:
        raise ModelFailed(written.fail)
    return ModelReply(
        text=written.text,
        values=written.values,
        exit=None if written.exit is None else str(written.exit).strip().lower() in _YES,
        exit_reason=written.exit_reason,
        understanding=written.understanding,
        has_questions=written.has_questions,
        intent=written.intent,
        raw=msgspec.json.encode(written).decode(),
    )

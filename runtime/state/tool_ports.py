"""The protocol through which the engine calls tools; the API layer or a test supplies it."""

import hashlib
from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from scripts.expressions.values import Value
from scripts.model.actions import OnInterrupted
from scripts.model.tools import ToolDefinition

FailureReason: TypeAlias = Literal[
    "timeout", "unreachable", "refused", "error", "arguments", "result", "forbidden", "unavailable"
]
"""Why a tool failed: no answer in time; no connection; the service refused the request (a status 4xx); it failed;
invalid arguments; an invalid result; an address that the server does not permit; the tool cannot be called now.
"""

TOOL_PURPOSE = "tool"
"""The purpose of a tool's calls among the recorded calls of a turn, which are otherwise calls of language models."""


class ToolRequest(Struct, frozen=True, kw_only=True):
    """A call of a tool. `visit`, `round` and `number` tell it from other calls of the same action."""

    tool: str
    action_id: str
    visit: int
    round: int
    number: int
    arguments: Mapping[str, Value]

    @property
    def digest(self) -> str:
        """The digest of the call, which is the same in every attempt at the turn."""
        return hashlib.sha256(_encoder.encode(self)).hexdigest()


class ToolFailure(Struct, frozen=True, omit_defaults=True):
    """A failure as the script and the database see it; the message contains no secret and no text of the service."""

    kind: FailureReason
    message: str
    retryable: bool = False  # whether another attempt may succeed


class ToolReply(Struct, frozen=True, omit_defaults=True):
    """The result of a call, or its failure."""

    result: Value = None
    failure: ToolFailure | None = None


class ToolResult(Struct, frozen=True):
    """A finished call; `call_id` is empty if it is not recorded."""

    reply: ToolReply
    call_id: str = ""


class CallOptions(Struct, frozen=True, kw_only=True):
    """How a call is made: it ends at `ends_at`, by the event loop's clock.

    With `is_handled` the script handles a failure, which is then a result like any other and not tried again.
    """

    ends_at: float
    on_interrupted: OnInterrupted
    is_handled: bool = False


PASSING: frozenset[FailureReason] = frozenset({"timeout", "unreachable", "error"})
"""Reasons after which another attempt may succeed, unless the failure says otherwise."""


class ToolCallFailed(Exception):
    """A tool gave no usable result; the message is shown to clients. `retryable`: another attempt may succeed (default:
    as usual for the reason).
    """

    def __init__(self, kind: FailureReason, message: str, *, retryable: bool | None = None) -> None:
        super().__init__(message)
        self.kind: FailureReason = kind
        self.retryable = kind in PASSING if retryable is None else retryable

    @property
    def failure(self) -> ToolFailure:
        """The failure as a value."""
        return ToolFailure(self.kind, str(self), self.retryable)


class ToolCallInterrupted(Exception):
    """A crash interrupted a call that may have changed something, so it is not repeated by itself."""


class Tools(Protocol):
    """The tools of one turn."""

    async def call(self, tool: ToolDefinition, request: ToolRequest, options: CallOptions) -> ToolResult:
        """Call a tool once, whatever the number of attempts at the turn. Raises ToolCallInterrupted.

        The arguments match the declaration, and so does the result.
        """


_encoder = msgspec.json.Encoder(order="deterministic")

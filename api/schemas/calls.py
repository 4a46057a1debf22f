"""What is told of the calls of language models."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET

from api.schemas.base import View


class UsageView(View, frozen=True, kw_only=True):
    """What a call of a language model took, as far as is known. Times are milliseconds."""

    model: str
    prompt_digest: str
    parameters: Mapping[str, Any]
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    counted: bool
    cost: float | None
    latency_ms: int
    first_words_ms: int | None
    attempts: int
    failures: list[str]
    degraded: str


class DebugCall(View, frozen=True, kw_only=True):
    """A request to the model and what it gave.

    `callId` is null where no language model was needed; `reused` tells that an earlier attempt at the turn made the
    call.
    """

    purpose: str
    action_id: str
    round: int
    task: str
    text: str
    values: Mapping[str, Any]
    exit: bool | None
    raw: str
    call_id: str | None
    model: str
    error: str
    reused: bool
    usage: UsageView | None


class CallView(View, frozen=True, kw_only=True):
    """A call of a language model. `used` is null as long as its turn is not taken; the `reply` is for debugging only.

    `outcome` in_doubt: the server was stopped meanwhile, and nobody knows whether the endpoint carried it out.
    """

    call_id: str
    turn: int
    number: int
    purpose: str
    action_id: str
    round: int
    model: str
    started_at: datetime
    ended_at: datetime | None
    outcome: Literal["done", "failed", "in_doubt"]
    error: str
    used: bool | None
    usage: UsageView | None
    reply: Any = UNSET


class CallList(View, frozen=True, kw_only=True):
    """A page of calls, oldest first."""

    data: list[CallView]
    next_cursor: str | None
    success: bool = True


class DebugInfo(View, frozen=True, kw_only=True):
    """What those who write a script want to see of a turn."""

    model_calls: list[DebugCall]

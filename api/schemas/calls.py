"""Model calls in responses."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from api.schemas.base import PageView, View


class UsageView(View, frozen=True, kw_only=True):
    """The usage of a model call, as far as it is known. Times are in milliseconds."""

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


class PromptMessageView(View, frozen=True, kw_only=True):
    """One message to a language model."""

    role: Literal["system", "user"]
    content: str


class PromptView(View, frozen=True, kw_only=True):
    """The prompt of a model call as the endpoint received it.

    `replySchema` is the JSON Schema that the endpoint applies to the reply; null if it takes none: then the
    instructions contain the schema.
    """

    messages: list[PromptMessageView]
    reply_schema: Mapping[str, Any] | None


class DebugCall(View, frozen=True, kw_only=True):
    """A model request and its reply.

    `callId` is null if no language model was called; `reused` is true if an earlier attempt at the turn made the
    call. `prompt` is null if no language model was called, or if a detector withheld a text of the call.
    """

    purpose: str
    action_id: str
    round: int
    task: str
    prompt: PromptView | None
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
    """A call of a model, or of a tool: then `purpose` is `tool`, and `model` is the name of the tool.

    `used` is null until its turn is committed; `prompt` and `reply` are for debugging only.

    `prompt` is null if it is not stored: the turn is not committed or did not use the call, a detector withheld a text
    of the call, the session was redacted, or an earlier version of Cuebook made the call.

    `outcome` in_doubt: the server stopped during the call, so it is unknown whether the endpoint or service carried it
    out.
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
    prompt: PromptView | UnsetType | None = UNSET
    reply: Any = UNSET


class CallList(PageView, frozen=True, kw_only=True):
    """A page of calls, oldest first."""

    data: list[CallView]


class DebugInfo(View, frozen=True, kw_only=True):
    """Details of a turn for authors of scripts."""

    model_calls: list[DebugCall]

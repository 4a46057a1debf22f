"""Requests and responses about a session's context."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from api.schemas.base import Body, View
from runtime.state.events import Role
from scripts.model.context_strategies import INSTRUCT_CHARS_MAX, MESSAGES_MAX


class NewCompression(Body, frozen=True, kw_only=True):
    """A request to summarise all but the last `keep` messages; `instruct` says what matters."""

    keep: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 20
    instruct: Annotated[str, Meta(max_length=INSTRUCT_CHARS_MAX)] = ""


class CompressionView(View, frozen=True, kw_only=True):
    """The summary, the number of the last message it covers, the number of messages after that, and its author:
    `model` or `extract`; empty if there was nothing to summarise.
    """

    summary: str
    summary_to: int
    remaining: int
    by: str


class LastResizeView(View, frozen=True, kw_only=True):
    """The last time that the context was shortened."""

    type: str
    turn: int
    reason: str


class ContextView(View, frozen=True, kw_only=True):
    """The context that models see now: `messages` by number, and an estimate of its `tokens` with the summaries."""

    strategy: str
    settings: Mapping[str, Any] | None
    """As a script spells them."""
    summary: str
    summary_to: int
    memo: Mapping[str, Any]
    memo_to: int
    last_resize: LastResizeView | None
    failed: int
    messages: list[int]
    tokens: int


class PromptMessage(View, frozen=True, kw_only=True):
    """A message in the format of prompts."""

    role: Role
    content: str
    name: Any | UnsetType = UNSET
    tool_calls: Any | UnsetType = UNSET
    tool_call_id: Any | UnsetType = UNSET

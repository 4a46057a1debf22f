"""What requests and answers about a session's context look like."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from api.schemas.base import Body, View
from runtime.events import Role
from scripts.contexts import INSTRUCT_CHARS_MAX, MESSAGES_MAX, ContextSettings


class NewCompression(Body, frozen=True, kw_only=True):
    """All but the last `keep` messages are to be summed up; `instruct` says what matters."""

    keep: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 20
    instruct: Annotated[str, Meta(max_length=INSTRUCT_CHARS_MAX)] = ""


class Compressed(View, frozen=True, kw_only=True):
    """The summary, the number of the last message it tells of, how many messages came after that, and who made it:
    `model` or `extract`; empty where there was nothing more to sum up.
    """

    summary: str
    summary_to: int
    kept: int
    by: str


class LastResizeView(View, frozen=True, kw_only=True):
    """The last time that what models see was made shorter."""

    type: str
    turn: int
    reason: str


class ContextView(View, frozen=True, kw_only=True):
    """What models see of a conversation now: `messages` by their numbers, about so many `tokens` with the accounts."""

    strategy: str
    settings: ContextSettings | None
    summary: str
    summary_to: int
    memo: Mapping[str, Any]
    memo_to: int
    last_resize: LastResizeView | None
    failed: int
    messages: list[int]
    tokens: int


class PromptMessage(Struct, frozen=True, kw_only=True):
    """A message as prompts hold it, in the spelling that is usual there."""

    role: Role
    content: str
    name: Any | UnsetType = UNSET
    tool_calls: Any | UnsetType = UNSET
    tool_call_id: Any | UnsetType = UNSET

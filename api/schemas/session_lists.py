"""What lists and searches of sessions, and their statistics, look like."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from api.schemas.base import View


class SessionListed(View, frozen=True, kw_only=True):
    """A session in a list.

    `title` is its metadata's, else the name of its script; `preview` the first words of its user, else those to the
    user; `messageCount` is the number of the last message.
    """

    session_id: str
    user_id: str
    key: str | None
    title: str
    preview: str | None
    last_message: str | None
    message_count: int
    script_id: str
    script_key: str
    script_version: int
    locale: str | None
    metadata: Mapping[str, Any]
    status: str
    execution_status: str
    turn: int
    created_at: datetime
    updated_at: datetime
    text_dropped_at: datetime | None


class SessionList(View, frozen=True, kw_only=True):
    """A page of sessions."""

    data: list[SessionListed]
    next_cursor: str | None
    success: bool = True


class ExcerptPiece(View, frozen=True, kw_only=True):
    """A piece of a message: a word that was searched for, or what is between such words."""

    text: str
    found: bool


class MessageFound(View, frozen=True, kw_only=True):
    """A message that was found; `number` is its number in the session."""

    number: int
    message_id: str
    role: Literal["ai", "user", "system", "tool"]
    excerpt: list[ExcerptPiece]
    timestamp: datetime


class HitView(View, frozen=True, kw_only=True):
    """A message that was found, and the session it was said in."""

    session_id: str
    user_id: str
    key: str | None
    title: str
    turn: int
    message: MessageFound


class HitList(View, frozen=True, kw_only=True):
    """A page of messages that were found, the last recorded first; it may be short and yet have a next one."""

    data: list[HitView]
    next_cursor: str | None
    success: bool = True


class SpokenView(View, frozen=True, kw_only=True):
    """The messages of one role; `meanCharacters` is their length on average."""

    role: Literal["ai", "user", "system", "tool"]
    messages: int
    characters: int
    mean_characters: float


class TranscriptTokens(View, frozen=True, kw_only=True):
    """About how many tokens the last messages of the conversation have for a language model, by its own count."""

    estimate: int
    messages: int


class UsedView(View, frozen=True, kw_only=True):
    """What the calls of language models took, also those of turns that failed; `cost` is null where none is known."""

    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float | None


class SessionStatsView(View, frozen=True, kw_only=True):
    """What a session came to; messages that were taken out of the conversation are not counted.

    `meanAnswerSeconds` is how long the user took for an answer on average, `meanTurnSeconds` how long the session did.
    """

    session_id: str
    turns: int
    messages: int
    by_role: list[SpokenView]
    started_at: datetime
    finished_at: datetime
    duration_seconds: float
    mean_answer_seconds: float | None
    mean_turn_seconds: float | None
    transcript_tokens: TranscriptTokens
    models: UsedView
    success: bool = True

"""Responses about whole sessions: lists, searches, statistics, exports and imports."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from api.schemas.base import PageView, View
from api.schemas.sessions import SessionHandOver
from runtime.state.events import Role


class SessionEntry(View, frozen=True, kw_only=True):
    """A session in a list.

    `title` is from its metadata, else the name of its script; `preview` is the start of the user's first message, else
    of the first message to the user; `messageCount` is the number of the last message.
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
    redacted_at: datetime | None


class SessionList(PageView, frozen=True, kw_only=True):
    """A page of sessions."""

    data: list[SessionEntry]


class ExcerptPiece(View, frozen=True, kw_only=True):
    """A piece of a message: a match, or the text between matches."""

    text: str
    found: bool


class MessageHit(View, frozen=True, kw_only=True):
    """A message that matches a search; `number` is its number in the session."""

    number: int
    message_id: str
    role: Role
    excerpt: list[ExcerptPiece]
    timestamp: datetime


class HitView(View, frozen=True, kw_only=True):
    """A matching message and its session."""

    session_id: str
    user_id: str
    key: str | None
    title: str
    turn: int
    message: MessageHit


class HitList(PageView, frozen=True, kw_only=True):
    """A page of matching messages, the last recorded first; a short page may still have a next one."""

    data: list[HitView]


class HandOverView(SessionHandOver, frozen=True, kw_only=True):
    """A session that a person is asked to join, or talks in."""

    session_id: str
    user_id: str
    script_id: str
    """The key of its script."""
    turn: int
    """The last turn of the session."""
    has_ended: bool
    """Whether the conversation is over; the request stays until somebody gives the session back."""


class HandOverList(PageView, frozen=True, kw_only=True):
    """A page of sessions for a person, those that wait longest first; `nextCursor` is null on the last page."""

    data: list[HandOverView]


class RoleCountsView(View, frozen=True, kw_only=True):
    """The messages of one role; `meanCharacters` is their mean length."""

    role: Role
    messages: int
    characters: int
    mean_characters: float


class TranscriptTokens(View, frozen=True, kw_only=True):
    """An estimate of the tokens of the last messages of the conversation; a model may count differently."""

    estimate: int
    messages: int


class ModelUsageView(View, frozen=True, kw_only=True):
    """The usage of language models, including failed turns; `cost` is null if it is unknown."""

    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float | None


class SessionStatsView(View, frozen=True, kw_only=True):
    """Statistics of a session; messages removed from the conversation are not counted.

    `meanAnswerSeconds` is the mean time until the user answered, `meanTurnSeconds` the mean duration of a turn.
    """

    session_id: str
    turns: int
    messages: int
    by_role: list[RoleCountsView]
    started_at: datetime
    finished_at: datetime
    duration_seconds: float
    mean_answer_seconds: float | None
    mean_turn_seconds: float | None
    transcript_tokens: TranscriptTokens
    models: ModelUsageView


Format: TypeAlias = Literal["json", "yaml", "jsonl", "markdown", "txt"]
FORMATS: tuple[Format, ...] = get_args(Format)
MEDIA_TYPES: Mapping[Format, str] = {
    "json": "application/json",
    "yaml": "application/yaml",
    "jsonl": "application/x-ndjson",
    "markdown": "text/markdown",
    "txt": "text/plain",
}
ENDINGS: Mapping[Format, str] = {"json": "json", "yaml": "yaml", "jsonl": "jsonl", "markdown": "md", "txt": "txt"}
"""The endings of the names of files in each format."""


class SessionCase(View, frozen=True, kw_only=True):
    """A session as a file with a test case."""

    file_name: str
    """A name for the file, beside the script."""
    yaml_content: str
    """The text of the file."""


class SkippedView(View, frozen=True, kw_only=True):
    """A skipped part of the document: its line, or its number in a list, from 1; and the reason."""

    line: int
    reason: str


class ImportView(View, frozen=True, kw_only=True):
    """The result of an import, or with `dryRun` its preview, and the skipped parts of the document."""

    session_id: str
    user_id: str
    key: str | None
    format: str
    script_id: str
    script_version: int
    turns: int
    messages: int
    replaced: bool
    dry_run: bool
    skipped: list[SkippedView]
    skipped_count: int
    remarks: list[str]

"""The filters of lists and searches, the rows that they return, and the statistics of a session."""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from store.interface.rows import Role, ScriptStatus, SessionSummary

Order: TypeAlias = Literal["activity", "created"]


WORDS_CHARS_MAX = 400
"""Maximum length of a message in a list, in characters."""


PREVIEW_MESSAGES = 200
"""The preview of a session is taken from this many first messages."""


class SessionFilter(Struct, frozen=True, kw_only=True):
    """A filter of sessions; null matches all. Times are at or after `…_after`, and before `…_before`."""

    user_id: str | None = None
    status: str | None = None
    execution_status: str | None = None
    outcome: str | None = None
    """How the conversation ended, such as `completed`."""
    script: str | None = None
    """The script that a session runs now, by its uuid or by its author's id."""
    script_version: int | None = None
    key: str | None = None
    key_prefix: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    """Names and values that must all be in the metadata; values that are not texts are compared as JSON."""
    created_after: datetime | None = None
    created_before: datetime | None = None
    active_after: datetime | None = None
    active_before: datetime | None = None


class ListedSession(SessionSummary, frozen=True, kw_only=True):
    """A session in a list."""

    title: str
    """The `title` in its metadata, otherwise the name of its script."""
    preview: str | None
    """The user's first message, otherwise the first message to the user; truncated to WORDS_CHARS_MAX."""
    last_message: str | None
    """The last message; truncated to WORDS_CHARS_MAX."""


class SearchFilter(Struct, frozen=True, kw_only=True):
    """A filter of messages; null matches all. Turns finish at or after `after`, and before `before`."""

    words: tuple[str, ...]
    """All must occur in a message, ignoring case, also as parts of longer words."""
    role: Role | None = None
    user_id: str | None = None
    session_id: str | None = None
    script: str | None = None
    """The script that a session runs now, by its uuid or by its author's id."""
    after: datetime | None = None
    before: datetime | None = None


class FoundMessage(Struct, frozen=True):
    """A matching message."""

    seq: int
    message_id: str
    role: Role
    content: str
    created_at: datetime


class Hit(Struct, frozen=True):
    """A matching message and its session."""

    session_id: str
    user_id: str
    key: str | None
    title: str
    turn: int
    message: FoundMessage


class ScriptFilter(Struct, frozen=True, kw_only=True):
    """A filter of scripts. A field that is null matches all."""

    status: ScriptStatus | None = None
    search: str | None = None
    """A text to find in ids, names, descriptions and authors, ignoring case."""
    in_texts: bool = False
    """Search the texts of the scripts as well."""
    tag: str | None = None
    author: str | None = None
    form: str | None = None


class ScriptChanges(Struct, frozen=True, kw_only=True):
    """New values of a script's description; null leaves a value unchanged."""

    name: str | None = None
    tags: list[str] | None = None
    author: str | None = None
    description: str | None = None


class MessageCounts(Struct, frozen=True):
    """The number of messages of one role, and their length in characters."""

    role: Role
    messages: int
    characters: int


class CallUsage(Struct, frozen=True):
    """The usage of language models, including calls of failed turns; the cost is null if no cost is known."""

    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float | None


class SessionStatistics(Struct, frozen=True):
    """The statistics of a session. Durations are in seconds; a mean of no values is null."""

    turns: int
    started_at: datetime
    finished_at: datetime
    answered_in_s: float | None
    """Mean time from the end of a turn to the next message of the user."""
    turn_took_s: float | None
    """Mean time from a message of the user to the end of its turn."""
    said: list[MessageCounts]
    used: CallUsage

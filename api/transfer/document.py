"""The document format of an exported session: everything needed to continue it, by the names of database columns."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.schemas.base import Id, Moment
from runtime.state.ports import Purpose
from runtime.state.state import ExecutionStatus, Status
from scripts.model.script import Locale
from scripts.yaml.parser import FILE_CHARS_MAX
from store.interface.rows import (
    CallOutcome,
    EventRow,
    JsonText,
    MessageRow,
    MigrationRow,
    ScriptTextRow,
    SessionRow,
    SettledCallRow,
    TurnRow,
    VariableRow,
)

FORMAT: Final = "cuebook.session"
VERSION = 1
"""Incremented when a document can no longer be read like one of the previous version."""
VERSION_MIN = 1
"""The oldest version that can be read."""
YEARS = range(1900, 9000)
"""Permitted years of times; others cannot be represented in every time zone."""
SCRIPTS_MAX = 100
MOVES_MAX = 1_000
FILES_MAX = 100
TURNS_MAX = 100_000
CALLS_MAX = 1_000_000

Word: TypeAlias = Annotated[str, Meta(max_length=1_000)]
Text: TypeAlias = Annotated[str, Meta(max_length=FILE_CHARS_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Large: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]

PROMPT_CHARS_MAX = 10_000_000
"""Maximum characters of a stored prompt, in JSON: its messages, and the schema of the reply."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the document; an unknown field is an error, so that no data is lost silently."""

    @classmethod
    def of(cls, row: SessionRow | TurnRow | MigrationRow | SettledCallRow | ScriptTextRow) -> Self:
        """Convert a row, without tenant, session and user, which the document states once."""
        return cls(**{name: getattr(row, name) for name in cls.__struct_fields__})


class SessionPart(_Part, frozen=True, kw_only=True):
    """The fields fixed when the session was created."""

    session_id: Id
    user_id: Id
    key: Id | None = None
    script_uuid: Id
    script_id: Id
    script_version: Count
    digest: Id
    locale: Locale | None = None
    seed: Large
    metadata: dict[str, Any] = {}
    created_at: Moment
    idempotency_key: Word | None = None


class ScriptPart(_Part, frozen=True, kw_only=True):
    """The text of a script that the session runs or ran."""

    digest: Id
    form: Word
    text: Text
    files: Annotated[Mapping[str, Text], Meta(max_length=FILES_MAX)] = {}


class MovePart(_Part, frozen=True, kw_only=True):
    """A migration of the session to another version of its script."""

    turn: Count
    kind: Literal["migrate", "undo"]
    verdict: Word
    why: Annotated[list[Text], Meta(max_length=1_000)] = []
    from_script_uuid: Id
    from_script_id: Id
    from_version: Count
    from_digest: Id
    script_uuid: Id
    script_id: Id
    script_version: Count
    digest: Id
    migrated_at: Moment


class TurnPart(_Part, frozen=True, kw_only=True):
    """A turn: its messages, variable writes and events, and the state after it."""

    turn: Count
    started_at: Moment
    finished_at: Moment
    status: Status
    execution_status: ExecutionStatus
    phase_id: str | None = None
    topic_id: str | None = None
    action_id: str | None = None
    action_type: str | None = None
    wait_kind: str | None = None
    idempotency_key: Word | None = None
    fingerprint: Word | None = None
    messages: list[MessageRow] = []
    variables: list[VariableRow] = []
    events: list[EventRow] = []
    state: JsonText


class CallPart(_Part, frozen=True, kw_only=True):
    """A call of a model or tool of a committed turn: the data that a replay needs, and its usage."""

    script_id: Id
    script_version: Count
    turn: Count
    number: Count
    call_id: Id
    purpose: Purpose | Literal["tool"]
    action_id: Word
    round: Count
    model: Word
    request_digest: Word
    started_at: Moment
    ended_at: Moment | None = None
    outcome: CallOutcome
    error: Text | None = None
    used: bool
    endpoint_model: Word | None = None
    prompt_digest: Word | None = None
    parameters: dict[str, Any] | None = None
    input_tokens: Large | None = None
    cached_tokens: Large | None = None
    output_tokens: Large | None = None
    counted: bool | None = None
    cost: Annotated[float, Meta(ge=0)] | None = None
    latency_ms: Count | None = None
    first_words_ms: Count | None = None
    attempts: Count | None = None
    failures: Annotated[list[Text], Meta(max_length=1_000)] | None = None
    degraded: Text | None = None
    prompt: Annotated[str, Meta(max_length=PROMPT_CHARS_MAX)] | None = None
    reply: JsonText = msgspec.Raw(b"null")
    withheld: bool = False


class Head(_Part, frozen=True, kw_only=True):
    """The part of the document before the turns."""

    format: Literal["cuebook.session"] = FORMAT
    version: int
    exported_at: Moment | None = None
    session: SessionPart
    scripts: Annotated[list[ScriptPart], Meta(min_length=1, max_length=SCRIPTS_MAX)]
    migrations: Annotated[list[MovePart], Meta(max_length=MOVES_MAX)] = []
    masked: Literal[True] | UnsetType = UNSET
    """Whether personal values and states are removed: the document is for reading and cannot be imported."""


class SessionDocumentFile(Head, frozen=True, kw_only=True):
    """A whole session."""

    turns: Annotated[list[TurnPart], Meta(min_length=1, max_length=TURNS_MAX)]
    calls: Annotated[list[CallPart], Meta(max_length=CALLS_MAX)] = []


def in_utc(moment: datetime) -> datetime:
    """Return a time in UTC. Raises OverflowError for one outside of YEARS."""
    if moment.year not in YEARS:
        raise OverflowError(f"a time must be in the years {YEARS[0]} to {YEARS[-1]}")
    return moment.astimezone(UTC)

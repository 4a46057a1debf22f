"""Requests and responses about users: global variables, export and erasure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from api.schemas.base import Body, View
from api.schemas.calls import CallView
from api.schemas.memory import StoredUnit
from api.schemas.participants import ParticipantView
from api.schemas.sessions import EventView, Layer, MessageView
from runtime.state.state import Source

EXPORT_VERSION = 1

SessionLayers: TypeAlias = Mapping[Literal["session", "phase", "topic"], Layer]
"""The variables of a session by scope; phase and topic variables are those of the current position."""


class NewUserVariables(Body, frozen=True, kw_only=True):
    """Global variables to set, by name; null unsets one."""

    variables: dict[str, Any]


class UserVariables(View, frozen=True, kw_only=True):
    """The global variables of a user, by name."""

    variables: Layer


class UserWriteView(View, frozen=True, kw_only=True):
    """One write of a global variable; without a session if an application set it outside of one."""

    name: str
    old: Any
    new: Any
    type: str
    source: Source
    session_id: str | None
    turn: int | None
    action_id: str | None
    written_at: datetime


class ScriptOfSession(View, frozen=True, kw_only=True):
    """The version of a script that a session runs."""

    script_id: str
    id: str
    version: int


class SessionBasics(View, frozen=True, kw_only=True):
    """A session as it was at the time of the export."""

    key: str | None
    script: ScriptOfSession
    locale: str | None
    seed: int
    metadata: Mapping[str, Any]
    status: str
    execution_status: str
    turn: int
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    redacted_at: datetime | None
    variables: SessionLayers | None


class FailureView(View, frozen=True, kw_only=True):
    """A turn that failed."""

    turn: int
    code: str
    message: str
    failed_at: datetime


class MoveView(View, frozen=True, kw_only=True):
    """A migration to another version of the script."""

    turn: int
    kind: str
    verdict: str
    why: list[str]
    from_version: int
    version: int
    migrated_at: datetime


class ExportedSession(View, frozen=True, kw_only=True):
    """One session with all its recorded data; `session` is null if it never started."""

    session_id: str
    session: SessionBasics | None
    messages: list[MessageView]
    events: list[EventView]
    calls: list[CallView]
    failures: list[FailureView]
    migrations: list[MoveView]


class ExportedGroup(View, frozen=True, kw_only=True):
    """A session or collection of a memory."""

    group_id: str
    session_id: str | None
    created_at: datetime


class ExportedMemory(View, frozen=True, kw_only=True):
    """The memory of a user, without vectors; `memoryId` is null if it never had a unit."""

    memory_id: str | None
    groups: list[ExportedGroup]
    units: list[StoredUnit]


class UserExport(View, frozen=True, kw_only=True):
    """All recorded data of a user."""

    format: Literal["cuebook-user"]
    version: int
    user_id: str
    exported_at: datetime
    variables: Layer
    variable_history: list[UserWriteView]
    sessions: list[ExportedSession]
    participants: list[ParticipantView]
    """The access of the user's browsers to sessions."""
    memory: ExportedMemory


class ReceiptView(View, frozen=True, kw_only=True):
    """Counts of erased rows by kind. `compacted`: the data is physically gone; else it remains until a compaction."""

    receipt_id: str
    erased_at: datetime
    counts: Mapping[str, int]
    compacted: bool

"""What is told of a user, set for one, and erased."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from api.schemas.base import Body, View
from api.schemas.calls import CallView
from api.schemas.events import EventView
from api.schemas.memory import StoredUnit
from api.schemas.sessions import Layer, MessageView
from runtime.state import Source

EXPORT_VERSION = 1

SessionLayers: TypeAlias = Mapping[Literal["session", "phase", "topic"], Layer]
"""The variables of a session by scope; of phase and topic those of where it stands."""


class NewUserVariables(Body, frozen=True, kw_only=True):
    """Global variables to set, by name; null unsets one."""

    variables: dict[str, Any]


class UserVariables(View, frozen=True, kw_only=True):
    """The global variables of a user, by name."""

    variables: Layer
    success: bool = True


class UserWriteView(View, frozen=True, kw_only=True):
    """One write of a global variable; without a session where an application set it outside of any."""

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
    """A session as it stood when it was exported."""

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
    text_dropped_at: datetime | None
    variables: SessionLayers | None


class FailureView(View, frozen=True, kw_only=True):
    """A turn that failed."""

    turn: int
    code: str
    message: str
    failed_at: datetime


class MoveView(View, frozen=True, kw_only=True):
    """A move to another version of the script."""

    turn: int
    kind: str
    verdict: str
    why: list[str]
    from_version: int
    version: int
    migrated_at: datetime


class ExportedSession(View, frozen=True, kw_only=True):
    """One session with all that is recorded of it; `session` is null where it never began."""

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
    """What is remembered of a user, without vectors; `memoryId` is null where nothing ever was."""

    memory_id: str | None
    groups: list[ExportedGroup]
    units: list[StoredUnit]


class UserExport(View, frozen=True, kw_only=True):
    """Everything that is recorded of a user."""

    format: Literal["cuebook-user"]
    version: int
    user_id: str
    exported_at: datetime
    variables: Layer
    variable_history: list[UserWriteView]
    sessions: list[ExportedSession]
    memory: ExportedMemory


class ReceiptView(View, frozen=True, kw_only=True):
    """What was erased, by kind. `compacted`: no byte of it is left in the files; else until they are compacted."""

    receipt_id: str
    erased_at: datetime
    counts: Mapping[str, int]
    compacted: bool
    success: bool = True

"""The rows of the record, as the rest of the program writes and reads them.

Times are aware datetimes in UTC with microseconds. `JsonText` fields hold one JSON document, encoded: the record stores
and returns it without looking inside (but for the gaps of a state, see `store.shown`, and what
is left of one whose text is dropped, see `store.reduction`).
"""

from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec

JsonText: TypeAlias = msgspec.Raw
JsonObject: TypeAlias = dict[str, Any]
Value: TypeAlias = str | int | float | bool | list[Any] | JsonObject | None
Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
Scope: TypeAlias = Literal["global", "session", "phase", "topic"]
Source: TypeAlias = Literal["script", "user", "model", "api", "default", "migrated"]
ScriptStatus: TypeAlias = Literal["draft", "published", "archived"]
CallOutcome: TypeAlias = Literal["done", "failed", "in_doubt"]

NO_TURN = -1
"""The turn a session's creation is computed from."""


class MessageRow(msgspec.Struct, frozen=True):
    """One message said in a session."""

    seq: int
    """Number in the session, from 1, without gaps."""
    message_id: str
    role: Role
    content: str
    action_id: str | None
    """The action that said it; null for what the user said unasked."""
    metadata: JsonObject
    created_at: datetime
    characters: int | msgspec.UnsetType = msgspec.UNSET
    """How many it had, where its text was dropped."""


class VariableRow(msgspec.Struct, frozen=True):
    """One write of one variable."""

    scope: Scope
    name: str
    old: Value
    """The value before; null where it was unset."""
    new: Value
    """The value after; null unsets the variable."""
    type: str
    action_id: str | None
    source: Source
    phase_id: str | None
    """The phase that owns a phase or topic variable."""
    topic_id: str | None
    """The topic that owns a topic variable."""


class EventRow(msgspec.Struct, frozen=True):
    """One thing that happened in a turn."""

    seq: int
    """Number in the session, from 1, without gaps."""
    kind: str
    data: JsonObject


class TurnRow(msgspec.Struct, frozen=True):
    """One turn of a session: everything it said, wrote and left behind. Written once; only its text may be dropped."""

    tenant: str
    session_id: str
    """A UUID."""
    user_id: str
    turn: int
    """0 is the session's creation."""
    started_at: datetime
    finished_at: datetime
    status: str
    execution_status: str
    phase_id: str | None
    """Where the session now stands."""
    topic_id: str | None
    action_id: str | None
    action_type: str | None
    wait_kind: str | None
    """What the session waits for; null when it waits for nothing."""
    state: JsonText
    """The whole state after the turn, as the runtime encodes it."""
    idempotency_key: str | None
    fingerprint: str | None
    """Digest of the request body the idempotency key came with."""
    messages: list[MessageRow]
    variables: list[VariableRow]
    events: list[EventRow]


class HappenedRow(msgspec.Struct, frozen=True):
    """What happened in one turn, and where it left the session: a turn without its state."""

    turn: int
    status: str
    execution_status: str
    phase_id: str | None
    topic_id: str | None
    action_id: str | None
    action_type: str | None
    messages: list[MessageRow]
    variables: list[VariableRow]
    events: list[EventRow]


class SessionRow(msgspec.Struct, frozen=True):
    """What is fixed when a session is created."""

    tenant: str
    session_id: str
    """A UUID."""
    user_id: str
    key: str | None
    """The application's own name for the session, unique in the tenant, such as `telegram:123`."""
    script_uuid: str
    script_id: str
    """The script's own id, as its author wrote it."""
    script_version: int
    digest: str
    """Digest of the script text the session is pinned to."""
    locale: str | None
    seed: int
    metadata: JsonObject
    created_at: datetime
    idempotency_key: str | None
    text_dropped_at: datetime | None = None
    """When its words and values were dropped; null: they are there."""


class ForkRow(msgspec.Struct, frozen=True):
    """A new session that begins as another one was after one of its turns."""

    tenant: str
    from_session_id: str
    """A UUID."""
    turn: int
    """The last one that both have."""
    session_id: str
    """A UUID."""
    key: str | None
    metadata: JsonObject
    created_at: datetime
    idempotency_key: str | None
    fingerprint: str | None


class UserMessageRow(msgspec.Struct, frozen=True):
    """One of the user's messages in a conversation, by its place among them."""

    count: int
    """How many there are."""
    turn: int | None
    """The turn it was said in; null where there is none at this place."""
    is_first: bool | None
    """Whether nothing was said before it in that turn."""


class SnapshotRow(msgspec.Struct, frozen=True):
    """Where a turn left a session: a turn without what happened in it."""

    turn: int
    finished_at: datetime
    status: str
    execution_status: str
    phase_id: str | None
    topic_id: str | None
    action_id: str | None
    wait_kind: str | None
    message_count: int
    """Messages up to and with this turn."""
    event_count: int
    """Events up to and with this turn."""


class MigrationRow(msgspec.Struct, frozen=True):
    """A session's move to another version of its script; its turn and those after it ran on that version."""

    tenant: str
    session_id: str
    turn: int
    kind: Literal["migrate", "undo"]
    verdict: str
    why: list[str]
    from_script_uuid: str
    from_script_id: str
    from_version: int
    from_digest: str
    script_uuid: str
    script_id: str
    script_version: int
    digest: str
    migrated_at: datetime


class SessionSummary(SessionRow, frozen=True, kw_only=True):
    """A session and where its latest turn left it."""

    turn: int
    status: str
    execution_status: str
    phase_id: str | None
    topic_id: str | None
    action_id: str | None
    action_type: str | None
    wait_kind: str | None
    message_count: int
    """Messages so far, which is the number of the latest one."""
    event_count: int
    """Events so far, which is the number of the latest one."""
    updated_at: datetime
    completed_at: datetime | None


class SessionHead(SessionSummary, frozen=True, kw_only=True):
    """A session, where its latest turn left it, and the state to go on from."""

    state: JsonText


class ScriptTextRow(msgspec.Struct, frozen=True):
    """The text of one version of a script, kept by digest and never changed."""

    tenant: str
    digest: str
    text: str
    files: dict[str, str]
    """Texts of the files beside it, by name."""
    form: str
    """The form it was written in, such as `native` or `session`."""


class ScriptRow(msgspec.Struct, frozen=True):
    """One version of a script, as the catalogue lists it."""

    tenant: str
    script_uuid: str
    script_id: str
    """The script's own id, as its author wrote it."""
    name: str
    version: int
    """Counted from 1 in one script."""
    version_label: str
    """The version as its author wrote it, may be empty."""
    digest: str
    status: ScriptStatus
    created_at: datetime
    updated_at: datetime
    tags: list[str]
    author: str | None
    description: str | None


class FailureRow(msgspec.Struct, frozen=True):
    """A turn that failed and was not kept."""

    tenant: str
    session_id: str
    turn_attempted: int
    code: str
    message: str
    phase_id: str | None
    topic_id: str | None
    action_id: str | None
    failed_at: datetime


class SpentRow(msgspec.Struct, frozen=True):
    """What some calls of language models took together."""

    calls: int
    tokens: int
    cost: float


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a language model, as it is known before it is made; once it has ended, with what came of it."""

    tenant: str
    session_id: str
    """A UUID."""
    user_id: str
    script_id: str
    script_version: int
    turn: int
    """The turn it is made for."""
    number: int
    """Number in that turn, over all attempts at it, from 1."""
    call_id: str
    purpose: str
    action_id: str
    round: int
    model: str
    """As the server knows it."""
    request_digest: str
    started_at: datetime
    ended_at: datetime | None = None
    outcome: CallOutcome = "in_doubt"
    error: str | None = None
    used: bool | None = None
    """Whether its turn was taken with it; null as long as it is not taken."""
    endpoint_model: str | None = None
    prompt_digest: str | None = None
    parameters: JsonObject | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    counted: bool | None = None
    cost: float | None = None
    latency_ms: int | None = None
    first_words_ms: int | None = None
    attempts: int | None = None
    failures: list[str] | None = None
    degraded: str | None = None
    reply: JsonText = msgspec.Raw(b"null")
    """As the runtime encodes it; `null` where there is none."""
    withheld: bool = False
    """Whether the reply is kept without its words: they were not said."""


class KeyRow(msgspec.Struct, frozen=True):
    """A key of the API; its text is kept nowhere."""

    tenant: str
    key_id: str
    name: str
    digest: str
    """SHA-256 of its text, in hexadecimal."""
    roles: list[str]
    user_id: str | None
    """The one user whose sessions it reaches; null for all of them."""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """When it was last used, to the hour."""

    def __repr__(self) -> str:
        return f"KeyRow({self.tenant}, {self.key_id})"  # digests stand in no log


class UserVariableRow(msgspec.Struct, frozen=True):
    """A variable of the global scope: one user's, in every session."""

    tenant: str
    user_id: str
    name: str
    value: Value
    type: str
    source: Source
    updated_at: datetime


class UserWriteRow(msgspec.Struct, frozen=True):
    """One write of a variable of the global scope outside of any session."""

    tenant: str
    user_id: str
    name: str
    old: Value
    """The value before; null where it was unset."""
    new: Value
    """The value after; null unsets the variable."""
    type: str
    source: Source
    written_at: datetime


class UserHistoryRow(msgspec.Struct, frozen=True):
    """One write of a variable of the global scope, in a turn of a session or outside of any."""

    session_id: str | None
    turn: int | None
    name: str
    old: Value
    new: Value
    type: str
    source: Source
    action_id: str | None
    written_at: datetime


class ErasureRow(msgspec.Struct, frozen=True):
    """The receipt for a user whose data was erased; it does not name the user."""

    tenant: str
    receipt_id: str
    erased_at: datetime
    counts: dict[str, int]
    """How much was erased, by kind."""
    compacted_at: datetime | None = None
    """When the file was rewritten without it."""


class VariableWriteRow(VariableRow, frozen=True):
    """One write of one variable, and the turn that made it."""

    turn: int
    written_at: datetime
    """When that turn finished."""


def is_uuid(text: str) -> bool:
    """Whether it is a UUID in its usual form, as ids are made; another spelling of one is none."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False

"""The row types of the database, as all other packages write and read them, and their encoding.

Times are aware datetimes in UTC with microseconds. A `JsonText` field contains one encoded JSON document, which the
store does not parse. There are two exceptions: the gaps of a state (see `store.duckdb.search`) and redaction
(see `store.sql.redaction`).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec

from store.interface.errors import RowRefused

JsonText: TypeAlias = msgspec.Raw
JsonObject: TypeAlias = dict[str, Any]
Value: TypeAlias = str | int | float | bool | list[Any] | JsonObject | None
Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
Scope: TypeAlias = Literal["global", "session", "phase", "topic"]
Source: TypeAlias = Literal["script", "user", "model", "api", "default", "migrated"]
ScriptStatus: TypeAlias = Literal["draft", "published", "archived"]
CallOutcome: TypeAlias = Literal["done", "failed", "in_doubt"]

Gaps: TypeAlias = Sequence[tuple[int, int]]
"""First and last numbers of ranges of messages to leave out; both are at the bounds of turns."""

NO_TURN = -1
"""The expected turn of turn 0, which creates the session."""


class MessageRow(msgspec.Struct, frozen=True):
    """One message of a session."""

    seq: int
    """Number in the session, from 1, without gaps."""
    message_id: str
    role: Role
    content: str
    action_id: str | None
    """The action that sent it, or asked for it; null for a message of the user that no action asked for."""
    metadata: JsonObject
    created_at: datetime
    characters: int | msgspec.UnsetType = msgspec.UNSET
    """The length of the text before it was redacted."""


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
    """One event of a turn."""

    seq: int
    """Number in the session, from 1, without gaps."""
    kind: str
    data: JsonObject


class PositionRow(msgspec.Struct, frozen=True):
    """The position of a session after a turn."""

    status: str
    execution_status: str
    phase_id: str | None
    topic_id: str | None
    action_id: str | None
    action_type: str | None
    wait_kind: str | None
    """What the session waits for; null if it does not wait."""


class TurnRow(PositionRow, frozen=True):
    """One turn of a session: its messages, variable writes, events and state. Only redaction changes it later."""

    tenant: str
    session_id: str
    """A UUID."""
    user_id: str
    turn: int
    """0 is the session's creation."""
    started_at: datetime
    finished_at: datetime
    state: JsonText
    """The complete state after the turn, as the runtime encodes it."""
    idempotency_key: str | None
    fingerprint: str | None
    """Digest of the request body that was sent with the idempotency key."""
    messages: list[MessageRow]
    variables: list[VariableRow]
    events: list[EventRow]


class TurnEventsRow(PositionRow, frozen=True):
    """A turn without its state: its messages, variable writes and events, and the position after it."""

    turn: int
    messages: list[MessageRow]
    variables: list[VariableRow]
    events: list[EventRow]


class SessionRow(msgspec.Struct, frozen=True):
    """The properties of a session that are set when it is created."""

    tenant: str
    session_id: str
    """A UUID."""
    user_id: str
    key: str | None
    """The name that the application gives the session, unique in the tenant, such as `telegram:123`."""
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
    redacted_at: datetime | None = None
    """When its texts and values were removed; null if they were not."""


class ForkRow(msgspec.Struct, frozen=True):
    """A new session that starts as a copy of another one up to one of its turns."""

    tenant: str
    from_session_id: str
    """A UUID."""
    turn: int
    """The last turn that is copied."""
    session_id: str
    """A UUID."""
    key: str | None
    metadata: JsonObject
    created_at: datetime
    idempotency_key: str | None
    fingerprint: str | None


class UserMessageRow(msgspec.Struct, frozen=True):
    """One of the user's messages in a conversation, found by its index among them."""

    count: int
    """The number of the user's messages."""
    turn: int | None
    """The turn of the message; null if there is no message at this index."""
    is_first: bool | None
    """Whether it is the first message of that turn."""


class SnapshotRow(PositionRow, frozen=True):
    """The position of a session after a turn: a turn without its messages, variable writes and events."""

    turn: int
    finished_at: datetime
    message_count: int
    """The number of messages up to and including this turn."""
    event_count: int
    """The number of events up to and including this turn."""


class MigrationRow(msgspec.Struct, frozen=True):
    """A migration of a session to another version of its script, which runs this turn and those after it."""

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
    """A session and its position after its latest turn."""

    turn: int
    status: str
    execution_status: str
    phase_id: str | None
    topic_id: str | None
    action_id: str | None
    action_type: str | None
    wait_kind: str | None
    message_count: int
    """The number of messages, which is the number of the latest one."""
    event_count: int
    """The number of events, which is the number of the latest one."""
    updated_at: datetime
    completed_at: datetime | None


class SessionHead(SessionSummary, frozen=True, kw_only=True):
    """A session, its position after its latest turn, and the state to continue from."""

    state: JsonText


class ScriptTextRow(msgspec.Struct, frozen=True):
    """The text of one version of a script, stored by digest and never changed."""

    tenant: str
    digest: str
    text: str
    files: dict[str, str]
    """The texts of its include files, by name."""
    form: str
    """The format it was written in, such as `native` or `session`."""


class DraftEntryRow(msgspec.Struct, frozen=True, kw_only=True):
    """The unpublished changes of a script, without its text."""

    tenant: str
    script_id: str
    """The id of the script, which may have no version yet."""
    revision: int
    """Grows with every save; also after the draft was deleted and created again."""
    base_version: int | None
    """The version that the draft began from; None for a new script."""
    created_at: datetime
    updated_at: datetime


class DraftRow(DraftEntryRow, frozen=True, kw_only=True):
    """The unpublished changes of a script."""

    text: str
    files: dict[str, str]
    """The texts of its include files, by name."""


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
    """The version as its author wrote it; may be empty."""
    digest: str
    status: ScriptStatus
    created_at: datetime
    updated_at: datetime
    tags: list[str]
    author: str | None
    description: str | None


class FailureRow(msgspec.Struct, frozen=True):
    """A turn that failed and was not committed."""

    tenant: str
    session_id: str
    turn_attempted: int
    code: str
    message: str
    phase_id: str | None
    topic_id: str | None
    action_id: str | None
    failed_at: datetime
    is_lasting: bool = False


class SpentRow(msgspec.Struct, frozen=True):
    """The total usage of a set of calls of language models."""

    calls: int
    tokens: int
    cost: float


class ModelCallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a language model: stored before it is made, and again with its result after it has ended."""

    tenant: str
    user_id: str
    call_id: str
    purpose: str
    model: str
    """The name that the server uses for the model."""
    request_digest: str
    started_at: datetime
    ended_at: datetime | None = None
    outcome: CallOutcome = "in_doubt"
    error: str | None = None
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


class CallRow(ModelCallRow, frozen=True, kw_only=True):
    """A call of a language model for a turn."""

    session_id: str
    """A UUID."""
    script_id: str
    script_version: int
    turn: int
    """The turn that makes the call."""
    number: int
    """Number in that turn, from 1, over all attempts at the turn."""
    action_id: str
    round: int
    used: bool | None = None
    """Whether the committed turn used it; null until the turn is committed."""
    reply: JsonText = msgspec.Raw(b"null")
    """The reply, as the runtime encodes it; `null` if there is none."""
    withheld: bool = False
    """Whether the reply is stored without its text, because the text was not sent to the user."""


RECENT_TURNS = 26
"""Turns whose messages are loaded with a session: the last 50 messages of most."""
KEYED_TURNS = 200
"""Turns whose idempotency keys are loaded with a session."""


class LoadedSession(msgspec.Struct, frozen=True, kw_only=True):
    """What a server needs to continue a session."""

    head: SessionHead
    first_messages: list[MessageRow]
    """The messages of turn 0."""
    recent_messages: list[MessageRow]
    """The messages of the last RECENT_TURNS turns, in order."""
    keys: list[str]
    """The idempotency keys of the last KEYED_TURNS turns and of turn 0, in order."""
    calls: list[CallRow]
    """The last calls that attempts at the next turn have made, in order."""
    failures: list[FailureRow]
    """The last failures, the newest first."""


class SettledCallRow(CallRow, frozen=True, kw_only=True):
    """A call of a turn that is committed."""

    prompt: str | None = None
    """The prompt as it was sent, as the runtime encodes it; null if it is not stored."""


class KeyRow(msgspec.Struct, frozen=True):
    """An API key. The text of the key is not stored."""

    tenant: str
    key_id: str
    name: str
    digest: str
    """SHA-256 of its text, in hexadecimal."""
    roles: list[str]
    user_id: str | None
    """The only user whose sessions it gives access to; null for all users."""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """When it was last used, with a resolution of one hour."""

    def __repr__(self) -> str:
        return f"KeyRow({self.tenant}, {self.key_id})"  # keeps digests out of logs


class KnownKeys(msgspec.Struct, frozen=True):
    """The keys of all tenants that a server needs for authentication."""

    live: list[KeyRow]
    """Keys that are not revoked, expired or not."""
    any_made: bool
    """Whether a key was ever created."""


class UserVariableRow(msgspec.Struct, frozen=True):
    """A variable of the global scope: it belongs to one user and is the same in all of that user's sessions."""

    tenant: str
    user_id: str
    name: str
    value: Value
    type: str
    source: Source
    updated_at: datetime


class SessionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A complete session to import."""

    session: SessionRow
    turns: Sequence[TurnRow]
    """From 0, without gaps."""
    migrations: Sequence[MigrationRow] = ()
    calls: Sequence[SettledCallRow] = ()
    """Calls whose turns were committed."""
    texts: Sequence[ScriptTextRow] = ()
    """The texts of all scripts that it ran. Texts that already exist are not changed."""
    variables: Sequence[UserVariableRow] = ()
    """The user's global variables, as the session saw them. Variables that already exist are not changed."""


class UserWriteRow(msgspec.Struct, frozen=True):
    """One write of a variable of the global scope outside any session."""

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
    """One write of a variable of the global scope, in a turn of a session or outside any session."""

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
    """The receipt for the erasure of a user's data; it does not name the user."""

    tenant: str
    receipt_id: str
    erased_at: datetime
    counts: dict[str, int]
    """The number of erased items, by kind."""
    compacted_at: datetime | None = None
    """When the database file was rewritten without the erased data."""


class VariableWriteRow(VariableRow, frozen=True):
    """One write of one variable, and the turn that made it."""

    turn: int
    written_at: datetime
    """When that turn finished."""


def is_uuid(text: str) -> bool:
    """Return whether `text` is a UUID in its canonical form; other spellings are not accepted as ids."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


_encoder = msgspec.json.Encoder()


def encode(row: msgspec.Struct | Mapping[str, Any]) -> bytes:
    """Encode a row, or a value of a row, as JSON, in the one form in which all databases store it.

    Raises RowRefused for values that JSON cannot represent: lone surrogates, integers beyond 64 bits, other types.
    """
    try:
        return _encoder.encode(row)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise RowRefused(f"a {type(row).__name__.strip('_')} cannot be written as JSON: {error}") from error

"""Requests and responses that pause, end, change, rewind, fork, label or migrate a session, and about its timers and
its context.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from api.schemas.base import Body, Content, Id, Index, Number, PageView, ScriptText, View
from api.schemas.sessions import EventView, MessageView, NewSession, Position, SessionView, Snapshot, WaitView
from runtime.state.events import Role
from runtime.state.scopes import CELLS_MAX
from runtime.state.state import ExecutionStatus, Status
from scripts.expressions.values import TEXT_CHARS_MAX
from scripts.model.context_strategies import INSTRUCT_CHARS_MAX, MESSAGES_MAX
from scripts.model.script import Scope
from store.interface.timer_rows import TimerKind, TimerStatus

APPENDED_MAX = 100  # messages in one request
PARTS_MAX = 50  # of one message


class Ending(Body, frozen=True, kw_only=True):
    """Why a conversation ends, in the application's words."""

    reason: Annotated[str, Meta(max_length=1_000)] = ""


class NewValues(Body, frozen=True, kw_only=True):
    """Variables to set, null unsets one: in one scope, or each in its declared scope, else in the session's."""

    variables: Annotated[dict[str, Any], Meta(min_length=1, max_length=CELLS_MAX)]
    scope: Scope | None = None


class ModelChoice(Body, frozen=True, kw_only=True):
    """The language model to ask in a session; null: those that the script names."""

    model: Annotated[str, Meta(min_length=1, max_length=200)] | None


class NewSpeech(Body, frozen=True, kw_only=True):
    """What the person says who has taken the session over."""

    content: Annotated[str, Meta(min_length=1, max_length=TEXT_CHARS_MAX)]


class NewLabels(Body, frozen=True, kw_only=True):
    """Changes of a session's metadata: a merge patch, in which null removes a name (RFC 7396).

    A `key` can be set if the session has none.
    """

    metadata: dict[str, Any] | None = {}
    key: Id | None = None


class KeyedSession(NewSession, frozen=True, kw_only=True):
    """A session to get by its key, or to create."""

    key: Id


class PastTurn(Body, frozen=True, kw_only=True):
    """A reference to the past of a session: after one of its turns, or before one of the user's messages, from 0."""

    turn: Index | None = None
    before_user_message: Index | None = None


class NewFork(PastTurn, frozen=True, kw_only=True):
    """A fork to create, of the current state if no turn is named; `metadata` is merged into the session's."""

    key: Id | None = None
    metadata: dict[str, Any] | None = {}


class NewMessages(Body, frozen=True, kw_only=True):
    """Messages from elsewhere."""

    messages: Annotated[list["ExternalMessage"], Meta(min_length=1, max_length=APPENDED_MAX)]


class ExternalMessage(Body, frozen=True, kw_only=True):
    """A message from elsewhere, in the format of language models: a text or parts, and tool calls."""

    role: Role
    content: Content | Annotated[list[dict[str, Any]], Meta(max_length=PARTS_MAX)] | None = None
    tool_calls: list[dict[str, Any]] | UnsetType | None = UNSET
    tool_call_id: Id | UnsetType | None = UNSET
    name: Id | UnsetType | None = UNSET
    metadata: dict[str, Any] | None = {}


class SessionChange(Snapshot, frozen=True, kw_only=True):
    """A session after a change; `messages` are those that it added to the conversation."""

    session_id: str
    status: Status
    messages: list[MessageView]
    events: list[EventView] | UnsetType = UNSET


class SessionWithMessages(SessionView, frozen=True, kw_only=True):
    """A session with the messages of its last turn."""

    messages: list[MessageView]


class KeyedView(SessionWithMessages, frozen=True, kw_only=True):
    """A session by its key; `created` is whether this request created it."""

    created: bool


class SnapshotEntry(View, frozen=True, kw_only=True):
    """A session after a turn, in a list."""

    turn: int
    at: datetime
    status: str
    execution_status: str
    phase_id: str
    topic_id: str
    action_id: str
    wait_kind: str | None
    message_count: int
    event_count: int


class SnapshotList(PageView, frozen=True, kw_only=True):
    """A page of turns, oldest first; `nextCursor` is null on the last page."""

    data: list[SnapshotEntry]


class SnapshotView(Snapshot, frozen=True, kw_only=True):
    """A session after one of its turns, with the messages and events of that turn."""

    session_id: str
    status: Status
    at: datetime
    messages: list[MessageView]
    events: list[EventView]


class NewVersion(Body, frozen=True, kw_only=True):
    """The target version of a migration: by default the latest published version of the script.

    A dry run may also contain a text that is not stored yet.
    """

    version: Number | None = None
    script_id: Id | None = None
    yaml_content: ScriptText | None = None
    files: dict[str, ScriptText] | None = {}
    dry_run: bool = False


class MigrationView(View, frozen=True, kw_only=True):
    """The result of a migration, or its preview, and the position of the session afterwards.

    `moved` is whether it took place; the positions are phase/topic/action.
    """

    session_id: str
    verdict: Literal["safe", "mapped", "restart_topic", "blocked", "ended", "current"]
    why: list[str]
    moved: bool
    place: str
    new_place: str
    from_version: int
    version: int | None
    status: Status
    execution_status: ExecutionStatus
    turn: int
    position: Position
    wait: WaitView | None
    messages: list[MessageView]


class TimerView(View, frozen=True, kw_only=True):
    """A moment at which a session does something by itself."""

    session_id: str
    user_id: str
    timer_id: str
    """Unique among the timers of the session."""
    kind: TimerKind
    """The end of a wait, a reminder, or the expiry of a question."""
    action_id: str
    moment: str
    """The moment as the script has it: `3 days`."""
    due: datetime
    status: TimerStatus
    """`failed` after all attempts, or `held` by `hold_late_timers`; the session's next turn sets it again."""
    attempts: int
    """Failed attempts to fire it."""
    next_attempt_at: datetime
    error: str | None
    """The code of the error of the last attempt."""


class TimerList(PageView, frozen=True, kw_only=True):
    """A page of timers, the earliest first; `nextCursor` is null on the last page."""

    data: list[TimerView]


class FiredTimer(Body, frozen=True, kw_only=True):
    """The timer to fire now, also before it is due."""

    timer_id: Id


class NewCompression(Body, frozen=True, kw_only=True):
    """A request to summarise all but the last `keep` messages; `instruct` says what matters."""

    keep: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 20
    instruct: Annotated[str, Meta(max_length=INSTRUCT_CHARS_MAX)] = ""


class CompressionView(SessionChange, frozen=True, kw_only=True):
    """A session after its compression: the summary, the number of the last message it covers, the number of messages
    after that, and its author: `model` or `extract`; empty if there was nothing to summarise.
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
    reasoning_content: Any | UnsetType = UNSET
    tool_calls: Any | UnsetType = UNSET
    tool_call_id: Any | UnsetType = UNSET

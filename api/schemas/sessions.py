"""Requests and responses about sessions, their turns and their events, also those streamed during a turn."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from api.schemas.base import Body, Content, Id, Number, PageView, View
from api.schemas.calls import DebugInfo
from api.schemas.errors import ErrorBody
from runtime.state.events import Role
from runtime.state.state import ExecutionStatus, Source, Status
from scripts.builtin import CHAT
from scripts.checks.form_checks import FIELDS_MAX
from scripts.expressions.values import ValueType
from scripts.model.script import FieldType, Locale
from store.interface.hand_over_rows import HandOverStatus


class NewSession(Body, frozen=True, kw_only=True):
    """A session to create; without a script it is a free conversation."""

    user_id: Id
    """The user, under an id of the application."""
    script_id: Id = CHAT
    """The id in `script:` of the file, or the uuid of the script."""
    script_version: Number | None = None
    """The version of the script, also one that is not published; else the published one."""
    initial_variables: dict[str, Any] | None = {}
    """Values by name: of the user if the name is declared global, else of the session."""
    key: Id | None = None
    """A name of the application's own for the session, unique in the tenant."""
    metadata: dict[str, Any] | None = {}
    """Data of the application."""
    locale: Locale | None = None
    timezone: Annotated[str, Meta(max_length=100)] | None = None
    """The time zone of the session, as a name of the IANA database; else that of the user, the script or the server."""
    seed: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    """The seed of random choices; the server chooses one if it is absent."""
    context: dict[str, Any] | str | UnsetType | None = UNSET
    """The context strategy, as in a script."""


class NewMessage(Body, frozen=True, kw_only=True):
    """A message of the user: a text, the key of a choice, or a filled form as values by field."""

    content: Content | None = None
    """What the user says."""
    choice: Id | None = None
    """The key of a choice."""
    form: Annotated[dict[str, Any], Meta(max_length=FIELDS_MAX)] | UnsetType | None = UNSET
    """Values by field."""


class Position(View, frozen=True, kw_only=True):
    """The position of a session; the ids are empty once it is completed."""

    phase_index: int
    phase_id: str
    topic_index: int
    topic_id: str
    action_index: int
    action_id: str
    action_type: str
    current_round: int
    max_rounds: int


class CellView(View, frozen=True, kw_only=True):
    """A variable in one scope."""

    value: Any
    type: ValueType
    last_updated: datetime | None
    source: Source


Layer: TypeAlias = Mapping[str, CellView]


class VariableStore(View, frozen=True, kw_only=True):
    """The variables by scope; phase and topic variables are those of the current position."""

    global_: Layer = field(name="global")
    session: Layer
    phase: Layer
    topic: Layer


class ChoiceView(View, frozen=True, kw_only=True):
    """One option of a choice."""

    key: str
    text: str


class ColumnView(View, frozen=True, kw_only=True):
    """A column of a table, as a client renders it; `value` is the initial value of its cells."""

    name: str
    label: str
    type: FieldType
    required: bool
    value: Any
    choices: list[str] | UnsetType = UNSET
    labels: Mapping[str, str] | UnsetType = UNSET
    """Displayed text of a choice, if it differs."""
    placeholder: str | UnsetType = UNSET
    pattern: str | UnsetType = UNSET
    min: float | str | UnsetType = UNSET
    max: float | str | UnsetType = UNSET


class FieldView(ColumnView, frozen=True, kw_only=True):
    """A field of a form; a `computed` field is shown and cannot be filled in. `value` is its current value."""

    computed: bool
    columns: list[ColumnView] | UnsetType = UNSET


class FormView(View, frozen=True, kw_only=True):
    """A form to render. `errors` are the messages about invalid values, by field."""

    id: str
    title: str
    fields: list[FieldView]
    errors: Mapping[str, str]


class WaitView(View, frozen=True, kw_only=True):
    """The input that the session waits for."""

    kind: Literal["text", "choice", "form", "acknowledge", "suggestion", "time"]
    """What is expected; a text is accepted in any case."""
    choices: list[ChoiceView] | UnsetType = UNSET
    """With `choice`: the choices to offer."""
    suggestion: str | UnsetType = UNSET
    """With `suggestion`: a reply to offer as a button."""
    form: FormView | UnsetType = UNSET
    """With `form`: the form to show."""
    until: datetime | UnsetType = UNSET
    """With `time`: when the session continues by itself."""


class MessageView(View, frozen=True, kw_only=True):
    """A message of a conversation."""

    message_id: str
    number: int
    """The number of the message in its session, from 1."""
    role: Role
    content: str
    timestamp: datetime
    action_id: str
    """The action that said it, or that waited for it."""
    metadata: Mapping[str, Any]
    removed: bool | UnsetType = UNSET
    """Removed from the conversation."""
    characters: int | UnsetType = UNSET
    """Of the message before it was redacted."""


class ProactiveView(View, frozen=True, kw_only=True):
    """The messages that a session said by itself in a turn, or a person in its place, and what caused them."""

    turn: int
    cause: Literal["timer", "person"]
    timer: str | UnsetType = UNSET
    """With `timer`: its kind."""
    timer_id: str | UnsetType = UNSET
    messages: list[MessageView]


class ChatMessageView(MessageView, frozen=True, kw_only=True):
    """A message in the routes that create a session, send a message and list messages."""

    role: Literal["ai", "user", "system", "tool"]  # type: ignore[assignment]
    """`ai` means `assistant`."""


class EventView(View, frozen=True, kw_only=True):
    """An event, numbered without gaps."""

    seq: int
    kind: str
    data: Mapping[str, Any]


class SessionHandOver(View, frozen=True, kw_only=True):
    """Whether a person is asked to join a session, or talks in it."""

    status: HandOverStatus
    since: datetime
    """When the person was asked for, else when they took the session over."""
    action_id: str
    """The action that asked for a person; empty if none did."""
    operator: str
    """The person who has taken it over; empty if nobody has."""


class Snapshot(View, frozen=True, kw_only=True):
    """A session after a turn."""

    execution_status: ExecutionStatus
    position: Position
    """The position after the turn."""
    variables: Mapping[str, Any]
    """Every variable with its value at the position."""
    global_variables: Mapping[str, Any]
    """The user's variables, which all sessions share."""
    variable_store: VariableStore
    """The variables by scope."""
    turn: int
    """The number of the turn, from 0 for the start of the session."""
    wait: WaitView | None
    """What the session waits for; null if it has ended. A text, while a person talks in place of the script."""
    hand_over: SessionHandOver | UnsetType = UNSET
    """Only if a person is asked to join, or talks in place of the script."""


class Answer(Snapshot, frozen=True, kw_only=True):
    """A session after a turn, with what the turn said."""

    session_id: str
    status: Status
    ai_message: str
    """What the assistant said in the turn, as one text."""
    messages: list[ChatMessageView]
    """What the session said in the turn, in order."""
    events: list[EventView] | UnsetType = UNSET
    """Only with `events=true`: everything that happened in the turn."""
    debug_info: DebugInfo | None = None
    """Only with `debug=true`: the calls of language models."""


class TurnAnswer(Answer, frozen=True, kw_only=True):
    """The result of a turn; `sessionStatus` is another name of `status`."""

    session_status: Status


class SessionStart(Answer, frozen=True, kw_only=True):
    """A new session and its first messages."""

    created_at: datetime


class SessionView(Snapshot, frozen=True, kw_only=True):
    """A session; `aiMessage` is the assistant's last message."""

    session_id: str
    user_id: str
    script_id: str
    script_version: int
    """The version of the script that it runs."""
    model: str | None
    """The language model that was chosen for the session; null: those that the script names."""
    status: Status
    ai_message: str
    error: ErrorBody | None
    """The error of the last attempt at the next turn, as in its response but without `requestId`; null: none failed.

    In a copy of a session that has not begun it is `ACTION_EXECUTION_ERROR`, whatever the error of the first turn was.
    """
    key: str | None
    locale: str
    metadata: Mapping[str, Any]
    """The metadata that the application set."""
    script: Mapping[str, Any]
    """The outline of the script that the session runs: its phases, topics and actions by id."""
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    redacted_at: datetime | None
    """When its texts and values were removed; null: they are present."""


class MessageList(PageView, frozen=True, kw_only=True):
    """A page of messages; `nextCursor` is null on the last page."""

    data: list[ChatMessageView]
    success: bool = True


class EventList(PageView, frozen=True, kw_only=True):
    """A page of events, oldest first; `nextCursor` is null on the last page."""

    data: list[EventView]


class DeltaView(View, frozen=True, kw_only=True):
    """More words of a message in progress, by the number that the message will have."""

    message: int
    action_id: str
    text: str


class ResetView(View, frozen=True, kw_only=True):
    """Retracts the words so far of this message and of any later one."""

    message: int


class TurnPlace(View, frozen=True, kw_only=True):
    """The position of the session after a turn; the ids are empty once it is completed."""

    turn: int
    status: str
    execution_status: str
    phase_id: str
    topic_id: str
    action_id: str
    action_type: str

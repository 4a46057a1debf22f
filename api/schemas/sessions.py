"""What requests and answers about sessions and their turns look like."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from api.schemas.base import Body, Content, Id, View
from api.schemas.calls import DebugInfo
from api.schemas.events import EventView
from runtime.state import ExecutionStatus, Source, Status
from scripts.builtin import CHAT
from scripts.form_sheets import FIELDS_MAX
from scripts.model import FieldType, Locale
from scripts.values import ValueType


class NewSession(Body, frozen=True, kw_only=True):
    """A session to begin; without a script it is free conversation."""

    user_id: Id
    script_id: Id = CHAT
    initial_variables: dict[str, Any] = {}
    key: Id | None = None
    metadata: dict[str, Any] = {}
    locale: Locale | None = None
    seed: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    context: dict[str, Any] | str | UnsetType | None = UNSET  # as in a script


class NewMessage(Body, frozen=True, kw_only=True):
    """What the user says: a text, the key of a choice, or a filled form as values by field."""

    content: Content | None = None
    choice: Id | None = None
    form: Annotated[dict[str, Any], Meta(max_length=FIELDS_MAX)] | UnsetType | None = UNSET


class Position(View, frozen=True, kw_only=True):
    """Where a session stands; the ids are empty once it is completed."""

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
    """The variables by scope; of phase and topic those of the current ones."""

    global_: Layer = field(name="global")
    session: Layer
    phase: Layer
    topic: Layer


class ChoiceView(View, frozen=True, kw_only=True):
    """One answer to offer."""

    key: str
    text: str


class ColumnView(View, frozen=True, kw_only=True):
    """A column of a table, as a client draws it; `value` is what its cells begin with."""

    name: str
    label: str
    type: FieldType
    required: bool
    value: Any
    choices: list[str] | UnsetType = UNSET
    labels: Mapping[str, str] | UnsetType = UNSET  # what is read for a choice, where that is something else
    placeholder: str | UnsetType = UNSET
    pattern: str | UnsetType = UNSET
    min: int | float | str | UnsetType = UNSET
    max: int | float | str | UnsetType = UNSET


class FieldView(ColumnView, frozen=True, kw_only=True):
    """A field of a form; a `computed` one is shown and cannot be filled in. `value` is what stands in it."""

    computed: bool
    columns: list[ColumnView] | UnsetType = UNSET


class FormView(View, frozen=True, kw_only=True):
    """A form to draw. `errors` say what is wrong with what was sent, by field."""

    id: str
    title: str
    fields: list[FieldView]
    errors: Mapping[str, str]


class WaitView(View, frozen=True, kw_only=True):
    """What the session waits for."""

    kind: Literal["text", "choice", "form", "acknowledge", "suggestion"]
    choices: list[ChoiceView] | UnsetType = UNSET
    suggestion: str | UnsetType = UNSET
    form: FormView | UnsetType = UNSET


class MessageView(View, frozen=True, kw_only=True):
    """Something that was said."""

    message_id: str
    number: int
    role: Literal["ai", "user", "system", "tool"]
    content: str
    timestamp: datetime
    action_id: str
    metadata: Mapping[str, Any]
    removed: bool | UnsetType = UNSET  # it is not in the conversation any more
    characters: int | UnsetType = UNSET  # how many it had, where its text was dropped


class Snapshot(View, frozen=True, kw_only=True):
    """Where a turn left a session."""

    execution_status: ExecutionStatus
    position: Position
    variables: Mapping[str, Any]
    global_variables: Mapping[str, Any]
    variable_store: VariableStore
    turn: int
    wait: WaitView | None


class TurnAnswer(Snapshot, frozen=True, kw_only=True):
    """What came of a message."""

    ai_message: str
    session_status: Status
    messages: list[MessageView]
    events: list[EventView] | UnsetType = UNSET
    debug_info: DebugInfo | None = None


class SessionCreated(Snapshot, frozen=True, kw_only=True):
    """A new session and what it says first."""

    session_id: str
    status: Status
    created_at: datetime
    ai_message: str
    messages: list[MessageView]
    events: list[EventView] | UnsetType = UNSET
    debug_info: DebugInfo | None = None


class Failed(View, frozen=True, kw_only=True):
    """Why the last attempt at a turn failed."""

    code: str
    message: str


class SessionView(Snapshot, frozen=True, kw_only=True):
    """A session; `aiMessage` is what it said last."""

    session_id: str
    user_id: str
    script_id: str
    status: Status
    ai_message: str
    error: Failed | None
    key: str | None
    locale: str
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    text_dropped_at: datetime | None
    """When its words and values were dropped; what is shown of it since is what is counted."""


class MessageList(View, frozen=True, kw_only=True):
    """A page of messages; the number to go on with is `nextAfter` oldest first, `nextBefore` newest first, null at the
    end.
    """

    data: list[MessageView]
    next_after: int | None
    next_before: int | None = None
    success: bool = True

"""What requests and answers look like: the documented shape of the API, in camelCase."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from runtime.state import ExecutionStatus, Source, Status
from scripts.form_sheets import FIELDS_MAX
from scripts.model import FieldType, Locale
from scripts.nodes import ID_CHARS_MAX
from scripts.source import FILE_CHARS_MAX
from scripts.values import TEXT_CHARS_MAX, ValueType

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=ID_CHARS_MAX)]
Content: TypeAlias = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
ScriptText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=FILE_CHARS_MAX)]


class Body(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """What a client sends; an unknown field is an error, so that a misspelt one is noticed."""


class View(Struct, frozen=True, rename="camel", kw_only=True):
    """What a client gets."""


# -- sessions -----------------------------------------------------------------------------------------------------


class NewSession(Body, frozen=True, kw_only=True):
    """A session to begin."""

    user_id: Id
    script_id: Id
    initial_variables: dict[str, Any] = {}
    key: Id | None = None
    metadata: dict[str, Any] = {}
    locale: Locale | None = None
    seed: Annotated[int, Meta(ge=0, le=2**53)] | None = None


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
    role: Literal["ai", "user"]
    content: str
    timestamp: datetime
    action_id: str
    metadata: Mapping[str, Any]


class EventView(View, frozen=True, kw_only=True):
    """Something that happened, numbered without gaps."""

    seq: int
    kind: str
    data: Mapping[str, Any]


class EventList(View, frozen=True, kw_only=True):
    """A page of events, oldest first; `nextAfter` is the number to go on after, or null at the end."""

    data: list[EventView]
    next_after: int | None
    success: bool = True


class DeltaView(View, frozen=True, kw_only=True):
    """More words of a message that is being said, by the number it will have."""

    message: int
    action_id: str
    text: str


class ResetView(View, frozen=True, kw_only=True):
    """The words so far of this message, and of any after it, are taken back."""

    message: int


class TurnPlace(View, frozen=True, kw_only=True):
    """Where a turn left the session; the ids are empty once it is completed."""

    turn: int
    status: str
    execution_status: str
    phase_id: str
    topic_id: str
    action_id: str
    action_type: str


class UsageView(View, frozen=True, kw_only=True):
    """What a call of a language model took, as far as is known. Times are milliseconds."""

    model: str
    prompt_digest: str
    parameters: Mapping[str, Any]
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    counted: bool
    cost: float | None
    latency_ms: int
    first_words_ms: int | None
    attempts: int
    failures: list[str]
    degraded: str


class DebugCall(View, frozen=True, kw_only=True):
    """A request to the model and what it gave.

    `callId` is null where no language model was needed; `reused` tells that an earlier attempt at the turn made the
    call.
    """

    purpose: str
    action_id: str
    round: int
    task: str
    text: str
    values: Mapping[str, Any]
    exit: bool | None
    raw: str
    call_id: str | None
    model: str
    error: str
    reused: bool
    usage: UsageView | None


class CallView(View, frozen=True, kw_only=True):
    """A call of a language model. `used` is null as long as its turn is not taken; the `reply` is for debugging only.

    `outcome` in_doubt: the server was stopped meanwhile, and nobody knows whether the endpoint carried it out.
    """

    call_id: str
    turn: int
    number: int
    purpose: str
    action_id: str
    round: int
    model: str
    started_at: datetime
    ended_at: datetime | None
    outcome: Literal["done", "failed", "in_doubt"]
    error: str
    used: bool | None
    usage: UsageView | None
    reply: Any = UNSET


class CallList(View, frozen=True, kw_only=True):
    """A page of calls, oldest first."""

    data: list[CallView]
    next_cursor: str | None
    success: bool = True


class DebugInfo(View, frozen=True, kw_only=True):
    """What those who write a script want to see of a turn."""

    model_calls: list[DebugCall]


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


class SessionListed(View, frozen=True, kw_only=True):
    """A session in a list."""

    session_id: str
    user_id: str
    script_id: str
    status: str
    execution_status: str
    turn: int
    key: str | None
    created_at: datetime
    updated_at: datetime


class SessionList(View, frozen=True, kw_only=True):
    """A page of sessions, newest first."""

    data: list[SessionListed]
    next_cursor: str | None
    success: bool = True


class MessageList(View, frozen=True, kw_only=True):
    """A page of messages, oldest first; `nextAfter` is the number to go on after, or null at the end."""

    data: list[MessageView]
    next_after: int | None
    success: bool = True


class NewVersion(Body, frozen=True, kw_only=True):
    """The version a session moves to: the latest published one of its script, unless it is named.

    A dry run may also bring a text that is not kept yet.
    """

    version: Annotated[int, Meta(ge=1)] | None = None
    script_id: Id | None = None
    yaml_content: ScriptText | None = None
    files: dict[str, ScriptText] = {}
    dry_run: bool = False


class MigrationView(View, frozen=True, kw_only=True):
    """What a move came to, or would come to, and where the session then stands.

    `moved` tells whether it took place; the places are phase/topic/action.
    """

    session_id: str
    verdict: Literal["safe", "mapped", "restart_topic", "blocked", "ended", "current"]
    why: list[str]
    moved: bool
    place: str
    new_place: str
    from_version: int
    version: int | None
    turn: int
    position: Position
    wait: WaitView | None
    messages: list[MessageView]
    success: bool = True


# -- scripts ------------------------------------------------------------------------------------------------------


class NewScript(Body, frozen=True, kw_only=True):
    """A script to keep. `files` are the side files named in its `use`, by name."""

    yaml_content: ScriptText
    script_name: Id | None = None
    files: dict[str, ScriptText] = {}
    tags: list[Id] = []
    author: Id | None = None
    description: Content | None = None


class ScriptToValidate(Body, frozen=True, kw_only=True):
    """A script to look at without keeping it."""

    yaml_content: ScriptText
    files: dict[str, ScriptText] = {}


class ProblemView(View, frozen=True, kw_only=True):
    """One problem of a script."""

    code: str
    severity: str
    message: str
    fix: str
    file: str
    line: int
    column: int
    path: str


class Validation(View, frozen=True, kw_only=True):
    """Whether a script can be run, and everything to know about it."""

    valid: bool
    diagnostics: list[ProblemView]
    success: bool = True


class ScriptListed(View, frozen=True, kw_only=True):
    """A script in a list: its latest version."""

    script_id: str
    script_key: str
    script_name: str
    version: int
    version_label: str
    status: str
    digest: str
    tags: list[str]
    author: str | None
    description: str | None
    created_at: datetime
    updated_at: datetime


class ScriptList(View, frozen=True, kw_only=True):
    """A page of scripts, the last changed first."""

    data: list[ScriptListed]
    next_cursor: str | None
    success: bool = True


class ScriptView(ScriptListed, frozen=True, kw_only=True):
    """A script with its text, its structure and its problems."""

    form: str
    yaml_content: str
    files: Mapping[str, str]
    parsed: Mapping[str, Any]
    diagnostics: list[ProblemView]
    success: bool = True


# -- operations ---------------------------------------------------------------------------------------------------


class Health(View, frozen=True, kw_only=True):
    """The process is alive."""

    status: Literal["ok"]
    version: str


class Readiness(View, frozen=True, kw_only=True):
    """Whether turns can be taken, and what keeps them from it."""

    ready: bool
    checks: Mapping[str, str]

"""What requests and answers look like that change a session from outside, take it back, copy or name it."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from api.schemas.base import Body, Content, Id, View
from api.schemas.events import EventView
from api.schemas.sessions import MessageView, NewSession, SessionView, Snapshot
from runtime.events import Role
from runtime.scopes import CELLS_MAX
from runtime.state import Status
from scripts.model import Scope

MESSAGES_MAX = 100  # in one request
PARTS_MAX = 50  # of one message


class Ending(Body, frozen=True, kw_only=True):
    """Why a conversation ends, in the application's words."""

    reason: Annotated[str, Meta(max_length=1_000)] = ""


class NewValues(Body, frozen=True, kw_only=True):
    """Variables to set, null unsets one: in one scope, or each where it is declared, else in the session's."""

    variables: Annotated[dict[str, Any], Meta(min_length=1, max_length=CELLS_MAX)]
    scope: Scope | None = None


class NewLabels(Body, frozen=True, kw_only=True):
    """What the application notes of a session: `metadata` is a merge patch, where null removes a name (RFC 7396).

    A `key` can be given to a session that has none.
    """

    metadata: dict[str, Any] = {}
    key: Id | None = None


class KeyedSession(NewSession, frozen=True, kw_only=True):
    """A session to find by its key, or else to begin."""

    key: Id


class Back(Body, frozen=True, kw_only=True):
    """A place in the past of a session: after one of its turns, or before one of the user's messages, from 0."""

    turn: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    before_user_message: Annotated[int, Meta(ge=0, le=2**31)] | None = None


class NewFork(Back, frozen=True, kw_only=True):
    """A copy of a session to begin, as it stands where no place is named; `metadata` is merged into the session's."""

    key: Id | None = None
    metadata: dict[str, Any] = {}


class NewMessages(Body, frozen=True, kw_only=True):
    """Messages that were said elsewhere."""

    messages: Annotated[list["SaidElsewhere"], Meta(min_length=1, max_length=MESSAGES_MAX)]


class SaidElsewhere(Body, frozen=True, kw_only=True):
    """A message that was said elsewhere, as language models know it: a text or parts, and calls of tools."""

    role: Role
    content: Content | Annotated[list[dict[str, Any]], Meta(max_length=PARTS_MAX)] | None = None
    tool_calls: list[dict[str, Any]] | UnsetType = UNSET
    tool_call_id: Id | UnsetType = UNSET
    name: Id | UnsetType = UNSET
    metadata: dict[str, Any] = {}


class SessionChanged(Snapshot, frozen=True, kw_only=True):
    """Where a change left a session; `messages` are those it added to the conversation."""

    session_id: str
    status: Status
    messages: list[MessageView]
    events: list[EventView] | UnsetType = UNSET


class KeyedView(SessionView, frozen=True, kw_only=True):
    """A session by its key; whether it was `created` by this request."""

    created: bool


class SnapshotListed(View, frozen=True, kw_only=True):
    """Where a turn left a session."""

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


class SnapshotList(View, frozen=True, kw_only=True):
    """A page of turns, oldest first; `nextAfter` is the turn to go on after, or null at the end."""

    data: list[SnapshotListed]
    next_after: int | None
    success: bool = True


class SnapshotView(Snapshot, frozen=True, kw_only=True):
    """A session as one of its turns left it, with what was said and done in that turn."""

    session_id: str
    status: Status
    at: datetime
    messages: list[MessageView]
    events: list[EventView]

"""Links, participants, their tokens, and what participants see of their sessions."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from api.schemas.base import Body, Id, Moment, Number, PageView, View
from api.schemas.ids import ID_PATTERN
from api.schemas.sessions import WaitView
from runtime.state.state import ExecutionStatus, Status
from scripts.model.script import Locale
from store.interface.participant_rows import Users

LINK_ID_PATTERN = r"^[a-z0-9][a-z0-9-]{2,62}$"
CODE_CHARS_MAX = 100
Timezone: TypeAlias = Annotated[str, Meta(max_length=100)]
AccessDays: TypeAlias = Annotated[int, Meta(ge=1, le=3_660)]


class NewLink(Body, frozen=True, kw_only=True):
    """A link to create."""

    script_id: Id
    """The id in `script:` of the file, or the uuid of the script."""
    version: Number | None = None
    """The version that sessions run, also one that is not published; else the published one at the time."""
    link_id: Annotated[str, Meta(pattern=LINK_ID_PATTERN)] | None = None
    """A name for the address of a public script; else the id is random and cannot be guessed."""
    users: Users = "anonymous"
    """`named`: each participant gives a code, and each code has one session."""
    resumes: bool = True
    """Whether a participant can come back on the same device."""
    sessions_max: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    """The greatest number of participants, each with one session."""
    expires_at: Moment | None = None
    """When the link admits no more participants; sessions that have begun go on."""
    access_days: AccessDays = 90
    """How many days a participant has access to the session."""
    initial_variables: dict[str, Any] | None = {}
    """Values by name, as at the creation of a session."""
    locale: Locale | None = None
    """The language of all sessions; else each has that of its browser if the script is translated."""


class LinkView(View, frozen=True, kw_only=True):
    """A link."""

    link_id: str
    script_id: str
    version: int | None
    users: Users
    resumes: bool
    sessions_max: int
    access_days: int
    initial_variables: Mapping[str, Any]
    locale: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class LinkList(PageView, frozen=True, kw_only=True):
    """A page of links."""

    data: list[LinkView]


class LinkPage(View, frozen=True, kw_only=True):
    """What a page shows of a link before a participant is admitted."""

    title: str
    locale: str
    users: Users
    resumes: bool


class NewEntry(Body, frozen=True, kw_only=True):
    """A participant who comes through a link, for the first time or again."""

    code: Annotated[str, Meta(min_length=1, max_length=CODE_CHARS_MAX, pattern=ID_PATTERN)] | None = None
    """The code of the participant, if `users` is `named`."""
    resume: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """The secret of an earlier answer; the participant comes back to the same session."""
    locale: Locale | None = None
    """The language of the browser."""
    timezone: Timezone | None = None
    """The time zone of the browser."""


class NewToken(Body, frozen=True, kw_only=True):
    """A token for a user of an application, in a browser."""

    user_id: Id
    """The user, under an id of the application."""
    script_id: Id | None = None
    """The script with which the session begins; not with `sessionId`."""
    version: Number | None = None
    """The version of the script, also one that is not published; else the published one at the time."""
    session_id: Id | None = None
    """A session of the user that exists."""
    access_hours: Annotated[int, Meta(ge=1, le=87_840)] = 24
    """How many hours the token can be renewed."""
    locale: Locale | None = None
    timezone: Timezone | None = None


class TokenView(View, frozen=True, kw_only=True):
    """A participant's token; it is not shown again."""

    participant_id: str
    session_id: str
    """The session, which may not have begun."""
    token: str
    expires_at: datetime
    """When the token expires; `POST /api/participants/renew` gives the next one."""
    push_key: str | None
    """The key with which a browser subscribes to reminders, in base64url; null: the server sends none."""


class EntryView(TokenView, frozen=True, kw_only=True):
    """The token of a participant of a link."""

    resume: str | None
    """A secret with which the same device comes back; null if the link does not permit it."""


class PushKeys(Body, frozen=True, kw_only=True):
    """The keys with which reminders are encrypted for a browser."""

    p256dh: Annotated[str, Meta(min_length=1, max_length=200)]
    """Its public key, in base64url."""
    auth: Annotated[str, Meta(min_length=1, max_length=100)]
    """Its secret, in base64url."""


class NewPush(Body, frozen=True, kw_only=True):
    """A browser that is reminded, as its `PushSubscription` describes it."""

    endpoint: Annotated[str, Meta(min_length=1, max_length=2_000)]
    """The address of the browser at its push service."""
    keys: PushKeys
    """The keys with which reminders are encrypted for it."""
    expiration_time: float | None = None
    """Not used: a push service says when a browser is gone."""


class ParticipantView(View, frozen=True, kw_only=True):
    """A participant."""

    participant_id: str
    link_id: str | None
    user_id: str
    session_id: str
    script_id: str
    version: int | None
    is_reminded: bool
    """Whether the browser is reminded when the session speaks by itself."""
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


class ParticipantList(PageView, frozen=True, kw_only=True):
    """A page of participants."""

    data: list[ParticipantView]


class MediaView(View, frozen=True, kw_only=True):
    """A picture or an address that a message shows; the text of the message is the caption."""

    image: str | UnsetType = UNSET
    url: str | UnsetType = UNSET


class VisibleMessage(View, frozen=True, kw_only=True):
    """A message as participants see it."""

    message_id: str
    number: int
    """The number of the message in its session, from 1."""
    role: Literal["assistant", "user"]
    content: str
    timestamp: datetime
    media: MediaView | UnsetType = UNSET
    from_person: bool | UnsetType = UNSET
    """A person wrote it, in place of the script."""


class VisibleMessageList(PageView, frozen=True, kw_only=True):
    """A page of messages, oldest first; `nextCursor` leads to earlier ones and is null if there are none."""

    data: list[VisibleMessage]


class VisibleStatus(View, frozen=True, kw_only=True):
    """The event after the others of a turn: the status of the session."""

    turn: int
    status: str
    execution_status: str


class VisibleSession(View, frozen=True, kw_only=True):
    """A session as participants see it."""

    session_id: str
    title: str
    locale: str
    turn: int
    status: Status
    execution_status: ExecutionStatus
    wait: WaitView | None
    """What the session waits for; null if it has ended."""
    last_event_id: str
    """The `Last-Event-ID` with which a stream continues after this state."""
    speaks_by_itself: bool
    """Whether the script can speak without a message before it, at a time or by a person, so that reminders help."""


class VisibleTurn(VisibleSession, frozen=True, kw_only=True):
    """A session after a turn, with what the turn said."""

    messages: list[VisibleMessage]


class VisibleDelta(View, frozen=True, kw_only=True):
    """More words of a message in progress, by the number that the message will have."""

    message: int
    text: str


class VisibleWait(View, frozen=True, kw_only=True):
    """What a session waits for."""

    wait: WaitView | None

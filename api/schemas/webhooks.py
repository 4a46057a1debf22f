"""Webhooks: registered ones, their deliveries, and the events that they receive."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from api.schemas.base import Body, PageView, View
from api.schemas.sessions import MessageView, Position, WaitView
from store.interface.webhook_rows import DeliveryStatus, PausedBecause, WebhookStatus

TURN = "turn"
CREATED = "session.created"
COMPLETED = "session.completed"
PROACTIVE = "message.proactive"  # what the session says by itself
PING: Final = "ping"  # a test delivery; no subscription selects it
EMIT = "emit:"  # prefix of an event that a script emits

PATTERN_CHARS_MAX = 200
STARS_MAX = 3  # in a pattern, to bound the time of matching


def problem_of(pattern: str) -> str:
    """Return what is wrong with a pattern; empty if it is valid."""
    if pattern.count("*") > STARS_MAX:
        return f"`{pattern}` has more than {STARS_MAX} stars"
    fixed = (TURN, CREATED, COMPLETED, PROACTIVE)
    if pattern == EMIT or not (pattern.startswith(EMIT) or any(map(_compile(pattern).fullmatch, fixed))):
        return f"there is no event `{pattern}`; there are {', '.join(fixed)}, {EMIT}NAME, and * for any characters"
    return ""


def matcher(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches the event kinds of all patterns."""
    return re.compile("|".join(f"(?:{_compile(each).pattern})" for each in patterns), re.DOTALL)


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


URL_CHARS_MAX = 2_000

Url: TypeAlias = Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)]
Events: TypeAlias = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=PATTERN_CHARS_MAX)]], Meta(min_length=1, max_length=20)
]
Description: TypeAlias = Annotated[str, Meta(max_length=500)]


# -- payloads ----------------------------------------------------------------------------------------------------------


class EmittedView(View, frozen=True, kw_only=True):
    """An event that the script emitted."""

    seq: int
    name: str
    action_id: str
    data: Mapping[str, Any]


class NoticeData(View, frozen=True, kw_only=True):
    """The session after its turn, with the messages of that turn; for an `emit` its event instead.

    `intervention` is the change by the application, if the turn is not the user's: `pause`, `rewind` …
    """

    session_id: str
    user_id: str
    key: str | None
    script_id: str
    script: str
    script_version: int
    turn: int
    status: str
    execution_status: str
    position: Position
    intervention: str | None
    messages: list[MessageView] | UnsetType = UNSET
    wait: WaitView | UnsetType | None = UNSET
    event: EmittedView | UnsetType = UNSET


class Notice(View, frozen=True, kw_only=True):
    """The body of a delivery. `id` is the same for every webhook that receives the same event."""

    id: str
    type: str
    timestamp: datetime
    data: NoticeData


class PingData(View, frozen=True, kw_only=True):
    """The webhook that is tested."""

    webhook_id: str


class Ping(View, frozen=True, kw_only=True):
    """The body of a test delivery."""

    id: str
    type: Literal["ping"]
    timestamp: datetime
    data: PingData


# -- requests and responses --------------------------------------------------------------------------------------------


class NewWebhook(Body, frozen=True, kw_only=True):
    """A URL that receives these kinds of events; `*` matches any characters."""

    url: Url
    events: Events
    description: Description = ""


class WebhookPatch(Body, frozen=True, kw_only=True):
    """Changes of a webhook; absent fields do not change."""

    url: Url | None = None
    events: Events | None = None
    description: Description | None = None
    status: WebhookStatus | None = None


class WebhookView(View, frozen=True, kw_only=True):
    """A webhook without its secret. Deliveries wait while it is paused, and until `restingUntil`."""

    webhook_id: str
    url: str
    events: list[str]
    description: str
    status: WebhookStatus
    paused_because: PausedBecause | None
    failing_since: datetime | None
    resting_until: datetime | None
    old_secret_until: datetime | None
    created_at: datetime
    updated_at: datetime


class WebhookWithSecret(WebhookView, frozen=True, kw_only=True):
    """A webhook with the secret that signs its deliveries, which is shown only once."""

    secret: str


class WebhookList(PageView, frozen=True, kw_only=True):
    """A page of webhooks, the oldest first."""

    data: list[WebhookView]


class TrialView(View, frozen=True, kw_only=True):
    """The result of a test: the status of the answer, or why there was none."""

    delivered: bool
    status: int | None
    error: str | None


class DeliveryView(View, frozen=True, kw_only=True):
    """A delivery of an event to a webhook, and its result."""

    delivery_id: str
    webhook_id: str
    session_id: str
    user_id: str
    turn: int
    type: str
    created_at: datetime
    status: DeliveryStatus
    attempts: int
    next_attempt_at: datetime | None
    attempted_at: datetime | None
    last_status: int | None
    last_error: str | None
    settled_at: datetime | None


class DeliveryDetail(DeliveryView, frozen=True, kw_only=True):
    """A delivery with its body."""

    payload: Notice


class DeliveryList(PageView, frozen=True, kw_only=True):
    """A page of deliveries, the newest first."""

    data: list[DeliveryView]


class ReplayCount(View, frozen=True, kw_only=True):
    """The number of deliveries that are sent again."""

    replayed: int

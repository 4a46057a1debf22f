"""What webhooks are told, and what requests and answers about them look like."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from api.schemas.base import Body, View
from api.schemas.sessions import MessageView, Position, WaitView
from api.webhooks.addresses import URL_CHARS_MAX
from api.webhooks.kinds import PATTERN_CHARS_MAX
from store.webhook_rows import DeliveryStatus, PausedBecause, WebhookStatus

Url: TypeAlias = Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)]
Events: TypeAlias = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=PATTERN_CHARS_MAX)]], Meta(min_length=1, max_length=20)
]
Description: TypeAlias = Annotated[str, Meta(max_length=500)]


# -- what a webhook is sent --------------------------------------------------------------------------------------------


class EmittedView(View, frozen=True, kw_only=True):
    """An event of the script's own: what an `emit` says."""

    seq: int
    name: str
    action_id: str
    data: Mapping[str, Any]


class NoticeData(View, frozen=True, kw_only=True):
    """The session as its turn left it, with what was said in that turn; of an `emit` its event instead.

    `intervention` is what the application did, where the turn is none of the user's: `pause`, `rewind` …
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
    """The body of a delivery. `id` is the same for every webhook that is told of the same thing."""

    id: str
    type: str
    timestamp: datetime
    data: NoticeData


class PingData(View, frozen=True, kw_only=True):
    """Which webhook is tried."""

    webhook_id: str


class Ping(View, frozen=True, kw_only=True):
    """The body of a trial."""

    id: str
    type: Literal["ping"]
    timestamp: datetime
    data: PingData


# -- requests and answers ----------------------------------------------------------------------------------------------


class NewWebhook(Body, frozen=True, kw_only=True):
    """An address to be told of these kinds of events; `*` stands for any characters."""

    url: Url
    events: Events
    description: Description = ""


class ChangedWebhook(Body, frozen=True, kw_only=True):
    """What is to be different; what is left out stays."""

    url: Url | UnsetType = UNSET
    events: Events | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    status: WebhookStatus | UnsetType = UNSET


class WebhookView(View, frozen=True, kw_only=True):
    """A webhook, without its secret. Deliveries wait while it is paused, and until `restingUntil`."""

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
    """A webhook with the secret that its deliveries are signed with, which is shown this once."""

    secret: str


class WebhookList(View, frozen=True, kw_only=True):
    """All webhooks, in the order they were made."""

    data: list[WebhookView]
    success: bool = True


class TrialView(View, frozen=True, kw_only=True):
    """What came of a trial: the status of the answer, or why there was none."""

    delivered: bool
    status: int | None
    error: str | None


class DeliveryView(View, frozen=True, kw_only=True):
    """An event for a webhook, and what came of sending it."""

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
    """A delivery with the body that is sent."""

    payload: Notice


class DeliveryList(View, frozen=True, kw_only=True):
    """A page of deliveries, newest first."""

    data: list[DeliveryView]
    next_cursor: str | None
    success: bool = True


class Replayed(View, frozen=True, kw_only=True):
    """How many deliveries are sent anew."""

    replayed: int

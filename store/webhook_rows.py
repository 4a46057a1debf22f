"""The rows of webhooks and of what is sent to them."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from store.rows import JsonText

WebhookStatus: TypeAlias = Literal["active", "paused"]
PausedBecause: TypeAlias = Literal["asked", "gone", "failing"]
DeliveryStatus: TypeAlias = Literal["pending", "delivered", "dead"]


class WebhookRow(msgspec.Struct, frozen=True, kw_only=True):
    """An address that is told of what happens."""

    tenant: str
    webhook_id: str
    """A UUID."""
    url: str
    events: list[str]
    """Kinds of events, where `*` stands for any characters."""
    description: str
    status: WebhookStatus
    paused_because: PausedBecause | None = None
    failing_since: datetime | None = None
    """The first failure since the last success."""
    secret_id: str
    """A UUID, from which the secret is made with a key that is not in the record."""
    old_secret_id: str | None = None
    """The one before, which signs too until `old_secret_until`."""
    old_secret_until: datetime | None = None
    created_at: datetime
    updated_at: datetime


class DeliverySummary(msgspec.Struct, frozen=True, kw_only=True):
    """An event for a webhook, and what came of sending it."""

    tenant: str
    delivery_id: str
    """A UUID."""
    webhook_id: str
    session_id: str
    user_id: str
    turn: int
    number: int
    """Among the events that the turn has for webhooks, from 1."""
    kind: str
    created_at: datetime
    status: DeliveryStatus = "pending"
    attempts: int = 0
    next_attempt_at: datetime
    attempted_at: datetime | None = None
    last_status: int | None = None
    """Of the last answer; null where there was none."""
    last_error: str | None = None
    settled_at: datetime | None = None
    """When it was delivered or given up."""


class DeliveryRow(DeliverySummary, frozen=True, kw_only=True):
    """An event for a webhook with what is sent."""

    payload: JsonText


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """What came of sending a delivery once."""

    tenant: str
    delivery_id: str
    status: DeliveryStatus
    attempts: int
    next_attempt_at: datetime
    attempted_at: datetime
    last_status: int | None
    last_error: str | None
    settled_at: datetime | None


class DeliveryBounds(msgspec.Struct, frozen=True):
    """What is kept of the deliveries of one webhook."""

    pending_max: int
    settled_max: int
    settled_after: datetime
    """Those settled before are deleted."""

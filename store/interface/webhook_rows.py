"""The row types of webhooks and of the deliveries to them."""

from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from store.interface.rows import JsonText

WebhookStatus: TypeAlias = Literal["active", "paused"]
PausedBecause: TypeAlias = Literal["asked", "gone", "failing"]
DeliveryStatus: TypeAlias = Literal["pending", "delivered", "dead"]

SERIES_MAX = 16
"""Deliveries of a session to a webhook that are read together, to be sent one after the other."""


class WebhookRow(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that receives events."""

    tenant: str
    webhook_id: str
    """A UUID."""
    url: str
    events: list[str]
    """Event kinds; `*` matches any characters."""
    description: str
    status: WebhookStatus
    paused_because: PausedBecause | None = None
    failing_since: datetime | None = None
    """The first failure since the last success."""
    secret_id: str
    """A UUID. The secret is derived from it with a key that is not stored in the database."""
    old_secret_id: str | None = None
    """The previous one, which is also used for signing until `old_secret_until`."""
    old_secret_until: datetime | None = None
    created_at: datetime
    updated_at: datetime


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a delivery after an attempt to send it."""

    tenant: str
    delivery_id: str
    """A UUID."""
    status: DeliveryStatus = "pending"
    attempts: int = 0
    next_attempt_at: datetime
    attempted_at: datetime | None = None
    last_status: int | None = None
    """The HTTP status of the last response; null if there was none."""
    last_error: str | None = None
    settled_at: datetime | None = None
    """When it was delivered or failed permanently."""


class DeliverySummary(AttemptRow, frozen=True, kw_only=True):
    """An event for a webhook and the status of its delivery."""

    webhook_id: str
    session_id: str
    user_id: str
    turn: int
    number: int
    """Number among the turn's events for webhooks, from 1."""
    kind: str
    created_at: datetime


class DeliveryRow(DeliverySummary, frozen=True, kw_only=True):
    """A delivery with its payload."""

    payload: JsonText


class DeliveryBounds(msgspec.Struct, frozen=True):
    """The limits on the stored deliveries of one webhook."""

    pending_max: int
    settled_max: int
    settled_after: datetime
    """Deliveries that were settled before this time are deleted."""


class Ahead(NamedTuple):
    """The deliveries that are due now, and when the next one is due."""

    due: list[DeliveryRow]
    next_at: datetime | None

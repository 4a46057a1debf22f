"""Webhooks and the deliveries to them."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from store.interface.pages import Page
from store.interface.webhook_rows import (
    Ahead,
    AttemptRow,
    DeliveryBounds,
    DeliveryRow,
    DeliveryStatus,
    DeliverySummary,
    WebhookRow,
)


class DeliveryRepository(Protocol):
    """Store and read webhooks and deliveries."""

    async def add_webhook(self, webhook: WebhookRow) -> None:
        """Add a webhook."""

    async def change_webhook(
        self, tenant: str, webhook_id: str, change: Callable[[WebhookRow], WebhookRow]
    ) -> WebhookRow | None:
        """Replace a webhook by what `change` returns of its row; return the new row, or None if there is no such
        webhook. `change` raises nothing and may run again.
        """

    async def remove_webhook(self, tenant: str, webhook_id: str) -> None:
        """Delete a webhook and its deliveries."""

    async def note_attempts(self, attempts: list[AttemptRow]) -> None:
        """Store the results of attempts to send deliveries."""

    async def replay(
        self,
        tenant: str,
        webhook_id: str,
        now: datetime,
        *,
        delivery_id: str | None = None,
        status: DeliveryStatus | None = None,
    ) -> int:
        """Reset deliveries to pending, one or all with a status, and return their number."""

    async def tidy(self, bounds: DeliveryBounds, now: datetime) -> None:
        """Fail or delete the deliveries of every tenant that exceed the bounds."""

    async def webhooks_of_all(self) -> list[WebhookRow]:
        """Return the webhooks of all tenants, for the server itself."""

    async def ahead(self, places: Mapping[str, int], limit: int, now: datetime) -> Ahead:
        """Return due deliveries to webhooks of all tenants, and when the next one is due, for the server.

        Returns those of at most `limit` sessions, and to each webhook of as many as it has places, the earliest first;
        of a session its first pending deliveries to a webhook, in order. Where several servers send, only the first one
        is returned, and is then taken: not due for a while.
        """

    async def page(
        self,
        tenant: str,
        webhook_id: str,
        *,
        status: DeliveryStatus | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[DeliverySummary]:
        """Return a page of a webhook's deliveries, the newest first. Raises CursorInvalid."""

    async def get(self, tenant: str, webhook_id: str, delivery_id: str) -> DeliveryRow | None:
        """Return one delivery with its payload."""

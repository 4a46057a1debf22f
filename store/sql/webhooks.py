"""Webhooks and their deliveries: which are due, the results of attempts, and how long they are stored."""

from collections.abc import Callable, Mapping
from datetime import datetime
from uuid import UUID

from store.interface.pages import Page
from store.interface.webhook_rows import (
    SERIES_MAX,
    Ahead,
    AttemptRow,
    DeliveryBounds,
    DeliveryRow,
    DeliveryStatus,
    DeliverySummary,
    WebhookRow,
)
from store.sql.connection import (
    Connection,
    Parameters,
    Scalar,
    as_uuid,
    delete_rows,
    exists,
    fetch_moment,
    fetch_page,
    find_row,
    rows_select,
)

WEBHOOKS_MAX = 100_000
"""Maximum number of webhooks of all tenants together; nothing is sent to those beyond it."""

_OF_WEBHOOK = "tenant = $tenant AND webhook_id = $webhook_id::UUID"


def webhooks_of_all(connection: Connection) -> list[WebhookRow]:
    """Return the webhooks of all tenants, in the order of their creation; at most WEBHOOKS_MAX."""
    select = f"SELECT * FROM webhooks ORDER BY created_at, webhook_id LIMIT {WEBHOOKS_MAX}"  # noqa: S608
    return connection.fetch(WebhookRow, select)


def add_webhook(connection: Connection, webhook: WebhookRow) -> None:
    """Add a webhook. Within a transaction."""
    connection.insert("webhooks", [webhook])


def change_webhook(
    connection: Connection, tenant: str, webhook_id: str, change: Callable[[WebhookRow], WebhookRow]
) -> WebhookRow | None:
    """Replace a webhook by what `change` returns of its row; return the new row, or None if there is no such webhook.

    `change` raises nothing and may run again. Within a transaction, so that no change of another server is undone.
    """
    which = {"tenant": tenant, "webhook_id": as_uuid(webhook_id)}
    before = find_row(connection, WebhookRow, "webhooks", which)
    if before is None:
        return None
    changed = change(before)
    if changed != before:
        delete_rows(connection, "webhooks", which)
        connection.insert("webhooks", [changed])
    return changed


def remove_webhook(connection: Connection, tenant: str, webhook_id: str) -> None:
    """Delete a webhook and its deliveries. Within a transaction."""
    for table in ("webhooks", "webhook_deliveries"):
        delete_rows(connection, table, {"tenant": tenant, "webhook_id": as_uuid(webhook_id)})


def deliveries_ahead(connection: Connection, places: Mapping[str, int], limit: int, now: datetime) -> Ahead:
    """Return the due deliveries of at most `limit` sessions, to each webhook of as many as it has `places`, and when
    the next one is due.

    A session is due when its first pending delivery to a webhook is. At most SERIES_MAX of each are returned, in order.
    """
    if not exists(connection, "webhook_deliveries", _PENDING, {"webhook_ids": list(places)}):
        return Ahead([], None)
    parameters: Parameters = {"webhook_ids": list(places), "now": now.isoformat()}
    bounds: Parameters = {"places": list(places.values()), "each": SERIES_MAX, "limit": limit * SERIES_MAX}
    return Ahead(connection.fetch(DeliveryRow, DUE, {**parameters, **bounds}), next_due(connection, parameters))


def next_due(connection: Connection, parameters: Parameters) -> datetime | None:
    """Return when the next delivery to the webhooks `$webhook_ids` is due after `$now`."""
    return fetch_moment(connection, _LATER, parameters)


def note_attempts(connection: Connection, attempts: list[AttemptRow]) -> None:
    """Store the results of attempts, but no failure of a delivery that is settled already. Within a transaction."""
    made, parameters = rows_select(AttemptRow, attempts, delivery_id="UUID")
    connection.change(f"{_NOTE} FROM ({made}) AS made {_NOTED}", parameters)


def replay_deliveries(
    connection: Connection,
    tenant: str,
    webhook_id: str,
    now: datetime,
    *,
    delivery_id: str | None = None,
    status: DeliveryStatus | None = None,
) -> int:
    """Reset deliveries to pending, one or all with a status; return their number. Within a transaction."""
    which: dict[str, Scalar] = {"delivery_id": None if delivery_id is None else as_uuid(delivery_id), "status": status}
    return connection.change(
        f"""UPDATE webhook_deliveries SET status = 'pending', attempts = 0, settled_at = NULL,
            next_attempt_at = $now::TIMESTAMPTZ
        WHERE {_OF_WEBHOOK} AND ($delivery_id::UUID IS NULL OR delivery_id = $delivery_id::UUID)
            AND ($status::VARCHAR IS NULL OR status = $status)""",  # noqa: S608
        {"tenant": tenant, "webhook_id": as_uuid(webhook_id), "now": now.isoformat(), **which},
    )


def tidy_deliveries(connection: Connection, bounds: DeliveryBounds, now: datetime) -> None:
    """Fail the pending deliveries that exceed a webhook's limit, the oldest first, and delete settled ones.

    Deletes deliveries that were settled before the time limit or exceed the number of settled ones, and those of
    webhooks that no longer exist. Within a transaction.
    """
    connection.change(_GIVE_UP, {"pending_max": bounds.pending_max, "now": now.isoformat()})
    connection.change(
        _DELETE_SETTLED, {"settled_max": bounds.settled_max, "settled_after": bounds.settled_after.isoformat()}
    )


def deliveries(
    connection: Connection,
    tenant: str,
    webhook_id: str,
    *,
    status: DeliveryStatus | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[DeliverySummary]:
    """Return a page of a webhook's deliveries, the newest first. Raises CursorInvalid."""
    which: Parameters = {"tenant": tenant, "webhook_id": as_uuid(webhook_id), "status": status}
    order = {"created_at": datetime, "number": int, "delivery_id": UUID}  # a turn has several, by number
    return fetch_page(connection, DeliverySummary, "webhook_deliveries", which, order, limit, cursor)


def delivery(connection: Connection, tenant: str, webhook_id: str, delivery_id: str) -> DeliveryRow | None:
    """Return one delivery with its payload."""
    which = {"tenant": tenant, "webhook_id": as_uuid(webhook_id), "delivery_id": as_uuid(delivery_id)}
    return find_row(connection, DeliveryRow, "webhook_deliveries", which)


_PENDING = "status = 'pending' AND webhook_id IN (SELECT unnest($webhook_ids::UUID[]))"
_SERIES = f"""
SELECT delivery_id, webhook_id, session_id, row_number() OVER of_session AS place,
    first_value(next_attempt_at) OVER of_session AS due
FROM webhook_deliveries WHERE {_PENDING}
WINDOW of_session AS (PARTITION BY tenant, webhook_id, session_id ORDER BY turn, number)
"""  # noqa: S608
DUE = f"""
SELECT webhook_deliveries.* FROM webhook_deliveries
JOIN (
    SELECT delivery_id, webhook_id, due, dense_rank() OVER (PARTITION BY webhook_id ORDER BY due, session_id) AS rank
    FROM ({_SERIES}) AS series WHERE due <= $now::TIMESTAMPTZ AND place <= $each
) AS ranked ON ranked.delivery_id = webhook_deliveries.delivery_id
JOIN (SELECT unnest($webhook_ids::UUID[]) AS webhook_id, unnest($places::INTEGER[]) AS places) AS free
    ON free.webhook_id = ranked.webhook_id AND ranked.rank <= free.places
ORDER BY ranked.due, webhook_deliveries.session_id, turn, number LIMIT $limit
"""  # noqa: S608
"""SELECT of the due deliveries to the webhooks `$webhook_ids`: of as many sessions to each as `$places`, the first
`$each` of each session."""
_LATER = f"""
SELECT min(next_attempt_at) AS moment FROM webhook_deliveries
WHERE {_PENDING} AND next_attempt_at > $now::TIMESTAMPTZ"""  # noqa: S608
_NOTE = """UPDATE webhook_deliveries SET status = made.status, attempts = made.attempts,
    next_attempt_at = made.next_attempt_at, attempted_at = made.attempted_at, last_status = made.last_status,
    last_error = made.last_error, settled_at = made.settled_at"""
# a server that was stopped for longer than it has a delivery may learn last that it could not send it
_NOTED = """WHERE webhook_deliveries.tenant = made.tenant AND webhook_deliveries.delivery_id = made.delivery_id
    AND (webhook_deliveries.status = 'pending' OR made.status = 'delivered')"""
_GIVE_UP = """
UPDATE webhook_deliveries SET status = 'dead', last_error = 'overflow', settled_at = $now::TIMESTAMPTZ
WHERE delivery_id IN (
    SELECT delivery_id FROM (
        SELECT delivery_id, row_number() OVER (
            PARTITION BY webhook_id ORDER BY created_at DESC, turn DESC, number DESC) AS place
        FROM webhook_deliveries WHERE status = 'pending'
    ) AS placed WHERE place > $pending_max
)
"""
_DELETE_SETTLED = """
DELETE FROM webhook_deliveries
WHERE settled_at < $settled_after::TIMESTAMPTZ
    OR webhook_id NOT IN (SELECT webhook_id FROM webhooks)
    OR delivery_id IN (
        SELECT delivery_id FROM (
            SELECT delivery_id, row_number() OVER (PARTITION BY webhook_id ORDER BY settled_at DESC) AS place
            FROM webhook_deliveries WHERE settled_at IS NOT NULL
        ) AS placed WHERE place > $settled_max
    )
"""

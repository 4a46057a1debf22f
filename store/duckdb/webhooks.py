"""Webhooks and their deliveries: which are due, the results of attempts, and how long they are stored."""

from datetime import UTC, datetime

from store.duckdb.fetch import Cursor, Parameters, fetch, fetch_one, fetch_page, utc
from store.duckdb.insert import as_list, insert
from store.interface.encoding import encode
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

WEBHOOKS_MAX = 100_000
"""Maximum number of webhooks of all tenants together; nothing is sent to those beyond it."""

_TIMES_OF_WEBHOOK = utc("failing_since", "old_secret_until", "created_at", "updated_at")
_TIMES = utc("created_at", "next_attempt_at", "attempted_at", "settled_at")
_PLACE = "format('{:06} {}', number, delivery_id::VARCHAR)"  # orders the deliveries of a turn
_OF_WEBHOOK = "tenant = $tenant AND webhook_id = try_cast($webhook_id AS UUID)"


def webhooks_of_all(cursor: Cursor) -> list[WebhookRow]:
    """Return the webhooks of all tenants, in the order of their creation; at most WEBHOOKS_MAX."""
    select = f"""SELECT * {_TIMES_OF_WEBHOOK} FROM webhooks
        ORDER BY webhooks.created_at, webhook_id LIMIT {WEBHOOKS_MAX}"""  # noqa: S608
    return fetch(cursor, WebhookRow, select, {})


def save_webhook(cursor: Cursor, webhook: WebhookRow) -> None:
    """Add a webhook, or replace its row. Within a transaction."""
    _delete(cursor, "webhooks", webhook.tenant, webhook.webhook_id)
    insert(cursor, "webhooks", webhook)


def remove_webhook(cursor: Cursor, tenant: str, webhook_id: str) -> None:
    """Delete a webhook and its deliveries. Within a transaction."""
    _delete(cursor, "webhooks", tenant, webhook_id)
    _delete(cursor, "webhook_deliveries", tenant, webhook_id)


def deliveries_ahead(cursor: Cursor, webhook_ids: list[str], each_max: int, limit: int, now: datetime) -> Ahead:
    """Return at most `limit` due deliveries to these webhooks, `each_max` to each, and when the next one is due.

    The earliest are first. Of a session only its first pending delivery to a webhook is due; the others wait for it.
    """
    parameters: Parameters = {"webhook_ids": webhook_ids, "now": now.isoformat()}
    due = fetch(cursor, DeliveryRow, _DUE, parameters | {"each_max": each_max, "limit": limit})
    found = cursor.execute(_LATER, parameters).fetchone()
    later = found[0] if found is not None else None
    return Ahead(due, datetime.fromtimestamp(later, UTC) if later is not None else None)


def note_attempts(cursor: Cursor, attempts: list[AttemptRow]) -> None:
    """Store the results of attempts. Within a transaction."""
    cursor.execute(_NOTE, [as_list(map(encode, attempts))])


def replay_deliveries(
    cursor: Cursor,
    tenant: str,
    webhook_id: str,
    now: datetime,
    *,
    delivery_id: str | None = None,
    status: DeliveryStatus | None = None,
) -> int:
    """Reset deliveries to pending, one or all with a status; return their number. Within a transaction."""
    delivery: Parameters = {"tenant": tenant, "webhook_id": webhook_id, "delivery_id": delivery_id}
    count = cursor.execute(
        f"""UPDATE webhook_deliveries SET status = 'pending', attempts = 0, settled_at = NULL,
            next_attempt_at = $now::TIMESTAMPTZ
        WHERE {_OF_WEBHOOK} AND ($delivery_id IS NULL OR delivery_id = try_cast($delivery_id AS UUID))
            AND ($status IS NULL OR status = $status)""",  # noqa: S608
        delivery | {"status": status, "now": now.isoformat()},
    ).fetchone()
    return int(count[0]) if count is not None else 0


def tidy_deliveries(cursor: Cursor, bounds: DeliveryBounds, now: datetime) -> None:
    """Fail the pending deliveries that exceed a webhook's limit, the oldest first, and delete settled ones.

    Deletes deliveries that were settled before the time limit or exceed the number of settled ones, and those of
    webhooks that no longer exist. Within a transaction.
    """
    cursor.execute(_GIVE_UP, {"pending_max": bounds.pending_max, "now": now.isoformat()})
    cursor.execute(
        _DELETE_SETTLED, {"settled_max": bounds.settled_max, "settled_after": bounds.settled_after.isoformat()}
    )


def deliveries(
    reader: Cursor,
    tenant: str,
    webhook_id: str,
    *,
    status: DeliveryStatus | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[DeliverySummary]:
    """Return a page of a webhook's deliveries, the newest first."""
    select = f"""
        SELECT * EXCLUDE (payload) {_TIMES} FROM webhook_deliveries
        WHERE {_OF_WEBHOOK} AND ($status IS NULL OR status = $status)
            AND ($after_time IS NULL OR (created_at, {_PLACE}) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY webhook_deliveries.created_at DESC, {_PLACE} DESC LIMIT $limit"""  # noqa: S608
    filters: Parameters = {"tenant": tenant, "webhook_id": webhook_id, "status": status}
    return fetch_page(
        reader,
        DeliverySummary,
        select,
        filters,
        limit,
        cursor,
        lambda row: (row.created_at, f"{row.number:06} {row.delivery_id}"),
    )


def delivery(cursor: Cursor, tenant: str, webhook_id: str, delivery_id: str) -> DeliveryRow | None:
    """Return one delivery with its payload."""
    select = f"""SELECT * {_TIMES} FROM webhook_deliveries
        WHERE {_OF_WEBHOOK} AND delivery_id = try_cast($delivery_id AS UUID)"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "webhook_id": webhook_id, "delivery_id": delivery_id}
    return fetch_one(cursor, DeliveryRow, select, parameters)


def _delete(cursor: Cursor, table: str, tenant: str, webhook_id: str) -> None:
    cursor.execute(f"DELETE FROM {table} WHERE {_OF_WEBHOOK}", {"tenant": tenant, "webhook_id": webhook_id})  # noqa: S608


_FIRSTS = """
SELECT delivery_id, webhook_id, next_attempt_at FROM webhook_deliveries
WHERE status = 'pending' AND webhook_id IN (SELECT unnest($webhook_ids::UUID[]))
QUALIFY row_number() OVER (PARTITION BY tenant, webhook_id, session_id ORDER BY turn, number) = 1
"""
_DUE = f"""
SELECT * {_TIMES} FROM webhook_deliveries WHERE delivery_id IN (
    SELECT delivery_id FROM ({_FIRSTS}) WHERE next_attempt_at <= $now::TIMESTAMPTZ
    QUALIFY row_number() OVER (PARTITION BY webhook_id ORDER BY next_attempt_at) <= $each_max
)
ORDER BY webhook_deliveries.next_attempt_at LIMIT $limit
"""  # noqa: S608
_LATER = f"SELECT epoch(min(next_attempt_at)) FROM ({_FIRSTS}) WHERE next_attempt_at > $now::TIMESTAMPTZ"  # noqa: S608
_NOTE = """
UPDATE webhook_deliveries AS delivery
SET status = made.status, attempts = made.attempts, next_attempt_at = made.next_attempt_at,
    attempted_at = made.attempted_at, last_status = made.last_status, last_error = made.last_error,
    settled_at = made.settled_at
FROM (
    SELECT unnest(from_json_strict(?::JSON, '[{"tenant": "VARCHAR", "delivery_id": "UUID", "status": "VARCHAR",
        "attempts": "INTEGER", "next_attempt_at": "TIMESTAMPTZ", "attempted_at": "TIMESTAMPTZ",
        "last_status": "INTEGER", "last_error": "VARCHAR", "settled_at": "TIMESTAMPTZ"}]'), max_depth := 2)
) AS made
WHERE delivery.tenant = made.tenant AND delivery.delivery_id = made.delivery_id
"""
_GIVE_UP = """
UPDATE webhook_deliveries SET status = 'dead', last_error = 'overflow', settled_at = $now::TIMESTAMPTZ
WHERE delivery_id IN (
    SELECT delivery_id FROM webhook_deliveries WHERE status = 'pending'
    QUALIFY row_number() OVER (PARTITION BY webhook_id ORDER BY created_at DESC, turn DESC, number DESC) > $pending_max
)
"""
_DELETE_SETTLED = """
DELETE FROM webhook_deliveries
WHERE settled_at < $settled_after::TIMESTAMPTZ
    OR webhook_id NOT IN (SELECT webhook_id FROM webhooks)
    OR delivery_id IN (
        SELECT delivery_id FROM webhook_deliveries WHERE settled_at IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY webhook_id ORDER BY settled_at DESC) > $settled_max
    )
"""

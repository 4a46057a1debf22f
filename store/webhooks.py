"""Webhooks, and the deliveries to them: which are due, what came of them, which are kept."""

from datetime import UTC, datetime
from typing import NamedTuple

from store.fetch import Cursor, Page, Parameters, after, bounded, fetch, fetch_one, page, utc
from store.insert import as_list, encode, insert
from store.webhook_rows import (
    AttemptRow,
    DeliveryBounds,
    DeliveryRow,
    DeliveryStatus,
    DeliverySummary,
    WebhookRow,
)

WEBHOOKS_MAX = 100_000
"""Of all tenants together; those beyond are not told of anything."""

_TIMES_OF_WEBHOOK = utc("failing_since", "old_secret_until", "created_at", "updated_at")
_TIMES = utc("created_at", "next_attempt_at", "attempted_at", "settled_at")
_PLACE = "format('{:06} {}', number, delivery_id::VARCHAR)"  # of deliveries of the same turn
_OF_WEBHOOK = "tenant = $tenant AND webhook_id = try_cast($webhook_id AS UUID)"


class Ahead(NamedTuple):
    """What is to be sent now, and when there is more."""

    due: list[DeliveryRow]
    next_at: datetime | None


def webhooks_of_all(cursor: Cursor) -> list[WebhookRow]:
    """Every tenant's webhooks, in the order they were made."""
    select = f"""SELECT * {_TIMES_OF_WEBHOOK} FROM webhooks
        ORDER BY webhooks.created_at, webhook_id LIMIT {WEBHOOKS_MAX}"""  # noqa: S608
    return fetch(cursor, WebhookRow, select, {})


def save_webhook(cursor: Cursor, webhook: WebhookRow) -> None:
    """Add a webhook, or replace what is known of it. Within a transaction."""
    _delete(cursor, "webhooks", webhook.tenant, webhook.webhook_id)
    insert(cursor, "webhooks", webhook)


def remove_webhook(cursor: Cursor, tenant: str, webhook_id: str) -> None:
    """Delete a webhook and its deliveries. Within a transaction."""
    _delete(cursor, "webhooks", tenant, webhook_id)
    _delete(cursor, "webhook_deliveries", tenant, webhook_id)


def deliveries_ahead(cursor: Cursor, webhook_ids: list[str], each_max: int, limit: int, now: datetime) -> Ahead:
    """At most `limit` deliveries to these webhooks that are due, `each_max` to each, the earliest first; and when the
    next one is.

    Of a session only the first that waits: those after it wait for that one.
    """
    parameters: Parameters = {"webhook_ids": webhook_ids, "now": now.isoformat()}
    due = fetch(cursor, DeliveryRow, _DUE, parameters | {"each_max": each_max, "limit": limit})
    found = cursor.execute(_LATER, parameters).fetchone()
    later = found[0] if found is not None else None
    return Ahead(due, datetime.fromtimestamp(later, UTC) if later is not None else None)


def note_attempts(cursor: Cursor, attempts: list[AttemptRow]) -> None:
    """Write down what came of sending. Within a transaction."""
    cursor.execute(_NOTE, [as_list(map(encode, attempts))])


def replay_deliveries(
    cursor: Cursor, tenant: str, webhook_id: str, delivery_id: str | None, status: DeliveryStatus | None, now: datetime
) -> int:
    """Let deliveries be sent from the beginning: one, or all with a status; how many. Within a transaction."""
    count = cursor.execute(
        f"""UPDATE webhook_deliveries SET status = 'pending', attempts = 0, settled_at = NULL,
            next_attempt_at = $now::TIMESTAMPTZ
        WHERE {_OF_WEBHOOK} AND ($delivery_id IS NULL OR delivery_id = try_cast($delivery_id AS UUID))
            AND ($status IS NULL OR status = $status)""",  # noqa: S608
        {
            "tenant": tenant,
            "webhook_id": webhook_id,
            "delivery_id": delivery_id,
            "status": status,
            "now": now.isoformat(),
        },
    ).fetchone()
    return int(count[0]) if count is not None else 0


def tidy_deliveries(cursor: Cursor, bounds: DeliveryBounds, now: datetime) -> None:
    """Give up what waits beyond a webhook's bound, the oldest first; delete what was settled long ago, or beyond
    another bound, and what belongs to no webhook any more. Within a transaction.
    """
    cursor.execute(_GIVE_UP, {"pending_max": bounds.pending_max, "now": now.isoformat()})
    cursor.execute(
        _DELETE_SETTLED, {"settled_max": bounds.settled_max, "settled_after": bounds.settled_after.isoformat()}
    )


def deliveries(
    cursor: Cursor, tenant: str, webhook_id: str, status: DeliveryStatus | None, limit: int, page_cursor: str | None
) -> Page[DeliverySummary]:
    """A page of a webhook's deliveries, the newest first."""
    select = f"""
        SELECT * EXCLUDE (payload) {_TIMES} FROM webhook_deliveries
        WHERE {_OF_WEBHOOK} AND ($status IS NULL OR status = $status)
            AND ($after_time IS NULL OR (created_at, {_PLACE}) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY webhook_deliveries.created_at DESC, {_PLACE} DESC LIMIT $limit"""  # noqa: S608
    limit = bounded(limit)
    filters: Parameters = {"tenant": tenant, "webhook_id": webhook_id, "status": status, "limit": limit + 1}
    rows = fetch(cursor, DeliverySummary, select, filters | after(page_cursor))
    return page(rows, limit, lambda row: (row.created_at, f"{row.number:06} {row.delivery_id}"))


def delivery(cursor: Cursor, tenant: str, webhook_id: str, delivery_id: str) -> DeliveryRow | None:
    """One delivery with what is sent."""
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
UPDATE webhook_deliveries AS kept
SET status = made.status, attempts = made.attempts, next_attempt_at = made.next_attempt_at,
    attempted_at = made.attempted_at, last_status = made.last_status, last_error = made.last_error,
    settled_at = made.settled_at
FROM (
    SELECT unnest(from_json_strict(?::JSON, '[{"tenant": "VARCHAR", "delivery_id": "UUID", "status": "VARCHAR",
        "attempts": "INTEGER", "next_attempt_at": "TIMESTAMPTZ", "attempted_at": "TIMESTAMPTZ",
        "last_status": "INTEGER", "last_error": "VARCHAR", "settled_at": "TIMESTAMPTZ"}]'), max_depth := 2)
) AS made
WHERE kept.tenant = made.tenant AND kept.delivery_id = made.delivery_id
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

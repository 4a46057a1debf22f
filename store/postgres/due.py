"""Timers and deliveries that are due: a server takes rows that no other one has taken, and has them for some time.

A row that is taken has its next attempt later by LEASE_S, so that another server takes it over if this one dies.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from store.interface.timer_rows import DueTimers, TimerRow
from store.interface.webhook_rows import Ahead, DeliveryRow
from store.postgres.connection import PostgresConnection
from store.sql.connection import decode_rows
from store.sql.timers import FIRSTS, next_due
from store.sql.webhooks import DUE
from store.sql.webhooks import next_due as next_due_delivery

TIMER_LEASE_S = 15
DELIVERY_LEASE_S = 60
_TAKE_TIMERS = f"""
WITH free AS (
    SELECT tenant, session_id, timer_id FROM timers
    WHERE (tenant, session_id, timer_id) IN (
        SELECT tenant, session_id, timer_id FROM ({FIRSTS}) AS firsts
        WHERE next_attempt_at <= $now::TIMESTAMPTZ ORDER BY due, session_id LIMIT $limit
    ) AND next_attempt_at <= $now::TIMESTAMPTZ FOR UPDATE SKIP LOCKED
)
UPDATE timers SET next_attempt_at = $until::TIMESTAMPTZ FROM free
WHERE timers.tenant = free.tenant AND timers.session_id = free.session_id AND timers.timer_id = free.timer_id
RETURNING row_to_json(timers)::text
"""  # noqa: S608
_TAKE_DELIVERIES = f"""
WITH free AS (
    SELECT tenant, delivery_id FROM webhook_deliveries
    WHERE delivery_id IN (SELECT delivery_id FROM ({DUE}) AS due) AND status = 'pending'
        AND next_attempt_at <= $now::TIMESTAMPTZ FOR UPDATE SKIP LOCKED
)
UPDATE webhook_deliveries AS taken SET next_attempt_at = $until::TIMESTAMPTZ FROM free
WHERE taken.tenant = free.tenant AND taken.delivery_id = free.delivery_id RETURNING row_to_json(taken)::text
"""  # noqa: S608


def take_timers(connection: PostgresConnection, now: datetime, limit: int) -> DueTimers:
    """Take the first timers of at most `limit` sessions that are due; return also when the next one is due."""
    moments = {"now": now, "until": now + timedelta(seconds=TIMER_LEASE_S)}
    rows = connection.rows(_TAKE_TIMERS, {**moments, "limit": limit})
    due = sorted(decode_rows(TimerRow, rows), key=lambda row: (row.due, row.session_id))
    return DueTimers(due, next_due(connection, now))


def take_deliveries(connection: PostgresConnection, places: Mapping[str, int], limit: int, now: datetime) -> Ahead:
    """Take due deliveries, as many for each webhook as it has places; return also when the next one is due.

    Of a session only the first one: those after it would be taken for as long, but sent only after it.
    """
    rows = connection.rows(
        _TAKE_DELIVERIES,
        {
            "webhook_ids": list(places),
            "places": list(places.values()),
            "each": 1,
            "limit": limit,
            "now": now,
            "until": now + timedelta(seconds=DELIVERY_LEASE_S),
        },
    )
    due = sorted(decode_rows(DeliveryRow, rows), key=lambda row: (row.created_at, row.number))
    return Ahead(due, next_due_delivery(connection, {"webhook_ids": list(places), "now": now}))

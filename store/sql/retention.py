"""Find the sessions that are due by retention policies, and redact or delete them.

Whether a session is due is checked again in the transaction that redacts or deletes, so a session that continues
meanwhile loses nothing.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from store.interface.retention_rows import DUE_MAX, Due, DueByPolicy, Policy, RetentionAction, RetentionResult
from store.sql.connection import Connection, Values, rows_select
from store.sql.deletion import OF_SESSIONS, delete_sessions
from store.sql.redaction import redact_sessions


class _Rule(Struct, frozen=True):
    """A policy as the SQL reads it: sessions with their last turn before `before` are due."""

    number: int
    action: RetentionAction
    before: datetime
    script: str
    """A regular expression."""
    tenant: str | None
    status: str | None


def counts(connection: Connection, policies: Sequence[Policy], now: datetime) -> list[DueByPolicy]:
    """Count what each policy would redact or delete now; policies without a due session are left out."""
    with_due, parameters = _due(connection, policies, now)
    return connection.fetch(DueByPolicy, f"{with_due} {COUNTS}", parameters)


def count_due(connection: Connection, policies: Sequence[Policy], now: datetime) -> int:
    """Count the due sessions of all tenants, without reading the sizes of their turns."""
    with_due, parameters = _due(connection, policies, now)
    ((number,),) = connection.rows(f"{with_due} SELECT count(*) FROM due", parameters)  # noqa: S608
    return int(number)


def due(
    connection: Connection, policies: Sequence[Policy], now: datetime, *, of: tuple[str, list[str]] | None = None
) -> list[Due]:
    """Return at most DUE_MAX due sessions of all tenants, those that have been inactive the longest first.

    With `of`, a tenant and session ids, only those among these sessions, also within a transaction.
    """
    with_due, parameters = _due(connection, policies, now, of=of)
    select = f"{with_due} SELECT * FROM due ORDER BY active_at, session_id LIMIT {DUE_MAX}"  # noqa: S608
    return connection.fetch(Due, select, parameters)


def apply(
    connection: Connection, tenant: str, session_ids: list[str], policies: Sequence[Policy], now: datetime
) -> RetentionResult:
    """Apply the policies to these sessions, all or none; the caller holds their locks. Within a transaction."""
    connection.prepare_change(tenant, session_ids)
    found = due(connection, policies, now, of=(tenant, session_ids))
    redacted = [each.session_id for each in found if each.action == "redact"]
    deleted = [each.session_id for each in found if each.action == "delete"]
    users = set(redact_sessions(connection, tenant, redacted, now)) if redacted else set()
    users |= set(delete_sessions(connection, tenant, deleted)) if deleted else set()
    return RetentionResult(redacted, deleted, sorted(users))


def _due(
    connection: Connection, policies: Sequence[Policy], now: datetime, *, of: tuple[str, list[str]] | None = None
) -> tuple[str, Values]:
    """Return common table expressions, of which `due` has the due sessions, and their parameters.

    A session that will continue by itself is not due. Of policies with the same action, the first that fits a session
    applies; deletion is before redaction. Sessions that were never created, of which only journaled calls of models
    exist, are included.
    """
    rules = [
        _Rule(number, each.action, now - timedelta(days=each.after_days), _expression(each), each.tenant, each.status)
        for number, each in enumerate(policies)
    ]
    given, parameters = rows_select(_Rule, rules)
    parameters["before"] = max((rule.before for rule in rules), default=now).isoformat()
    named = ""
    if of is not None:
        parameters |= {"tenant": of[0], "sessions": of[1]}
        named = OF_SESSIONS
    which = named or "true"
    return (
        f"""
    WITH rules AS ({given}), moves AS (
        SELECT DISTINCT ON (tenant, session_id) tenant, session_id, script_id FROM session_migrations
        WHERE {which} ORDER BY tenant, session_id, turn DESC
    ), standing AS (
        SELECT s.tenant, s.session_id, s.user_id, coalesce(m.script_id, s.script_id) AS script_id, h.status,
            h.turn + 1 AS turns, greatest(h.active_at, s.created_at) AS active_at, s.redacted_at IS NULL AS has_texts
        FROM {connection.latest_turns(named)} AS h
        JOIN session_starts AS s ON s.tenant = h.tenant AND s.session_id = h.session_id
        LEFT JOIN moves AS m ON m.tenant = s.tenant AND m.session_id = s.session_id
        WHERE h.active_at < $before::TIMESTAMPTZ AND NOT EXISTS (
            SELECT 1 FROM timers AS r
            WHERE r.tenant = h.tenant AND r.session_id = h.session_id AND r.status = 'pending')
        UNION ALL
        SELECT j.tenant, j.session_id, min(j.user_id), min(j.script_id), NULL, 0, max(j.started_at),
            max(j.request_digest) <> ''
        FROM (SELECT * FROM call_journal WHERE {which}) AS j
        WHERE NOT EXISTS (SELECT 1 FROM session_starts AS s
            WHERE s.tenant = j.tenant AND s.session_id = j.session_id)
        GROUP BY j.tenant, j.session_id
    ), fitting AS (
        SELECT s.*, rules.number, rules.action, rules.before, row_number() OVER (
            PARTITION BY s.tenant, s.session_id, rules.action ORDER BY rules.number) AS place
        FROM standing AS s JOIN rules ON s.script_id ~ rules.script
            AND (rules.tenant IS NULL OR rules.tenant = s.tenant)
            AND (rules.status IS NULL OR rules.status = s.status)
    ), due AS (
        SELECT DISTINCT ON (tenant, session_id) * FROM fitting
        WHERE place = 1 AND active_at < before AND (action = 'delete' OR has_texts)
        ORDER BY tenant, session_id, action
    )""",  # noqa: S608
        parameters,
    )


def _expression(policy: Policy) -> str:
    """Return the regular expression for the script of a policy, with `*`, `?` and sets such as `[a-z]` or `[!a]`."""
    parts = re.findall(r"\[[^]]+]|.", policy.script or "*", re.DOTALL)
    return f"^{''.join(_part(part) for part in parts)}$"


def _part(part: str) -> str:
    if len(part) > 1:
        return part.replace("[!", "[^", 1)
    return {"*": ".*", "?": "."}.get(part, re.escape(part))


COUNTS = """
SELECT number, count(*) AS sessions, sum(turns)::BIGINT AS turns, coalesce(sum(messages), 0)::BIGINT AS messages,
    coalesce(sum(bytes), 0)::BIGINT AS bytes, min(active_at) AS oldest
FROM due LEFT JOIN LATERAL (
    SELECT max(t.message_count) AS messages, sum(bit_length(t.messages::VARCHAR) + bit_length(t.variables::VARCHAR)
        + bit_length(t.events::VARCHAR)) / 8 AS bytes
    FROM turns AS t WHERE t.tenant = due.tenant AND t.session_id = due.session_id
) AS sizes ON true GROUP BY number ORDER BY number"""
"""SELECT of the sizes of the sessions in `due`, by policy; LATERAL, so that only their turns are read."""

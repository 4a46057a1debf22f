"""Find the sessions that are due by retention policies, and redact or delete them.

Whether a session is due is checked again in the transaction that redacts or deletes, so a session that continues
meanwhile loses nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from msgspec import Struct

from store.interface.admission import SessionId
from store.interface.retention_rows import DUE_MAX, Due, DueByPolicy, Policy, RetentionResult
from store.postgres.connection import OF_SESSION_IDS, PostgresConnection, names_of
from store.postgres.redaction import redact_sessions
from store.sql.deletion import OF_SESSIONS, delete_sessions


class _Standing(Struct, frozen=True):
    """A session as the policies see it."""

    tenant: str
    session_id: str
    user_id: str
    script_id: str
    status: str | None
    turns: int
    active_at: datetime
    is_redacted: bool


class _DueNow(Struct, frozen=True):
    standing: _Standing
    number: int
    """The number of the policy."""
    policy: Policy


class _Size(Struct, frozen=True):
    session_id: str
    tenant: str
    messages: int
    bytes: int


def counts(connection: PostgresConnection, policies: Sequence[Policy], now: datetime) -> list[DueByPolicy]:
    """Count what each policy would redact or delete now; policies without a due session are left out."""
    with connection.snapshot():
        found = _due(connection, policies, now)
        sizes = _sizes(connection, [(each.standing.tenant, each.standing.session_id) for each in found])
    by_policy: dict[int, list[_Standing]] = {}
    for each in found:
        by_policy.setdefault(each.number, []).append(each.standing)
    return [_count(number, by_policy[number], sizes) for number in sorted(by_policy)]


def _count(number: int, sessions: list[_Standing], sizes: Mapping[SessionId, _Size]) -> DueByPolicy:
    measured = [sizes[key] for each in sessions if (key := (each.tenant, each.session_id)) in sizes]
    return DueByPolicy(
        number=number,
        sessions=len(sessions),
        turns=sum(each.turns for each in sessions),
        messages=sum(each.messages for each in measured),
        bytes=sum(each.bytes for each in measured),
        oldest=min(each.active_at for each in sessions),
    )


def _sizes(connection: PostgresConnection, sessions: Sequence[SessionId]) -> dict[SessionId, _Size]:
    rows = connection.fetch(_Size, SIZES, names_of(sessions))
    return {(row.tenant, row.session_id): row for row in rows}


def count_due(connection: PostgresConnection, policies: Sequence[Policy], now: datetime) -> int:
    """Count the due sessions of all tenants."""
    with connection.snapshot():
        return len(_due(connection, policies, now))


def due(connection: PostgresConnection, policies: Sequence[Policy], now: datetime) -> list[Due]:
    """Return at most DUE_MAX due sessions of all tenants, those that have been inactive the longest first."""
    return _as_rows(_due(connection, policies, now))


def apply(
    connection: PostgresConnection, tenant: str, session_ids: list[str], policies: Sequence[Policy], now: datetime
) -> RetentionResult:
    """Apply the policies to these sessions. Within a transaction."""
    connection.prepare_change(tenant, session_ids)
    found = _as_rows(_due(connection, policies, now, of=(tenant, session_ids)))
    redacted = [each.session_id for each in found if each.action == "redact"]
    deleted = [each.session_id for each in found if each.action == "delete"]
    users = set(redact_sessions(connection, tenant, redacted, now)) if redacted else set()
    users |= set(delete_sessions(connection, tenant, deleted)) if deleted else set()
    return RetentionResult(redacted, deleted, sorted(users))


def _as_rows(found: list[_DueNow]) -> list[Due]:
    found.sort(key=lambda each: (each.standing.active_at, each.standing.session_id))
    return [
        Due(
            tenant=each.standing.tenant,
            session_id=each.standing.session_id,
            user_id=each.standing.user_id,
            action=each.policy.action,
            turns=each.standing.turns,
        )
        for each in found[:DUE_MAX]
    ]


def _due(
    connection: PostgresConnection,
    policies: Sequence[Policy],
    now: datetime,
    *,
    of: tuple[str, list[str]] | None = None,
) -> list[_DueNow]:
    """Return the due sessions, with `of` only among these, each with its policy; deletion is before redaction.

    A session that will continue by itself is not due, nor one whose turn calls a model or a tool on another server.
    """
    if not policies:
        return []
    parameters: dict[str, object] = {"before": max(now - timedelta(days=each.after_days) for each in policies)}
    named = ""
    if of is not None:
        parameters |= {"tenant": of[0], "sessions": of[1]}
        named = f" AND {OF_SESSIONS}"
    standing = connection.fetch(_Standing, _STANDING.format(named=named), parameters)  # type: ignore[arg-type]
    found = [_first_due(each, policies, now) for each in standing]
    return [each for each in found if each is not None]


def _first_due(standing: _Standing, policies: Sequence[Policy], now: datetime) -> _DueNow | None:
    """Return the policy that applies: of those for deletion, then of those for redaction, the first that fits."""
    for action in ("delete", "redact"):
        for number, policy in enumerate(policies):
            if policy.action == action and _fits(standing, policy):
                is_due = standing.active_at < now - timedelta(days=policy.after_days)
                if is_due and (action == "delete" or not standing.is_redacted):
                    return _DueNow(standing, number, policy)
                break
    return None


def _fits(standing: _Standing, policy: Policy) -> bool:
    return (
        policy.tenant in {None, standing.tenant}
        and policy.status in {None, standing.status}
        and (policy.script is None or fnmatchcase(standing.script_id, policy.script))
    )


SIZES = f"""
SELECT tenant, session_id, max(message_count) AS messages, sum(octet_length(messages::text)
    + octet_length(variables::text) + octet_length(events::text))::BIGINT AS bytes
FROM turns WHERE {OF_SESSION_IDS} GROUP BY tenant, session_id
"""  # noqa: S608
# Sessions that were never created, of which only journaled calls of models exist, are included.
_STANDING = """
SELECT s.tenant, s.session_id, s.user_id, coalesce(m.script_id, s.script_id) AS script_id, h.status,
    h.turn + 1 AS turns, h.active_at, s.redacted_at IS NOT NULL AS is_redacted
FROM (SELECT * FROM session_heads WHERE active_at < $before::TIMESTAMPTZ{named}) AS h
JOIN session_starts AS s ON s.tenant = h.tenant AND s.session_id = h.session_id
LEFT JOIN LATERAL (
    SELECT script_id FROM session_migrations WHERE tenant = s.tenant AND session_id = s.session_id
    ORDER BY turn DESC LIMIT 1
) AS m ON true
WHERE NOT EXISTS (SELECT 1 FROM timers AS r
    WHERE r.tenant = h.tenant AND r.session_id = h.session_id AND r.status = 'pending')
AND NOT EXISTS (SELECT 1 FROM turn_claims AS c
    WHERE c.tenant = h.tenant AND c.session_id = h.session_id AND c.expires_at >= clock_timestamp())
UNION ALL
SELECT j.tenant, j.session_id, min(j.user_id), min(j.script_id), NULL, 0, max(j.started_at),
    max(j.request_digest) = ''
FROM (SELECT * FROM call_journal WHERE true{named}) AS j
WHERE NOT EXISTS (SELECT 1 FROM session_starts AS s WHERE s.tenant = j.tenant AND s.session_id = j.session_id)
GROUP BY j.tenant, j.session_id
"""

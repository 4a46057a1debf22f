"""Find the sessions that are due by retention policies, and redact or delete them.

Whether a session is due is checked again in the transaction that redacts or deletes, so a session that continues
meanwhile loses nothing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from store.duckdb.connection import DuckDBConnection
from store.duckdb.redaction import redact_sessions
from store.duckdb.session_heads import TABLE
from store.duckdb.statements import as_list
from store.interface.retention_rows import DUE_MAX, Due, DueByPolicy, Policy, RetentionAction, RetentionResult
from store.interface.rows import encode
from store.sql.connection import Scalar
from store.sql.deletion import OF_SESSIONS, delete_sessions


class _Rule(Struct, frozen=True):
    """A policy as the SQL reads it: sessions with their last turn before `before` are due."""

    number: int
    action: RetentionAction
    before: datetime
    script: str | None
    tenant: str | None
    status: str | None


def counts(connection: DuckDBConnection, policies: Sequence[Policy], now: datetime) -> list[DueByPolicy]:
    """Count what each policy would redact or delete now; policies without a due session are left out."""
    select = f"""
    WITH {_due()}, sizes AS (
        SELECT tenant, session_id, max(message_count) AS messages,
            sum(strlen(messages) + strlen(variables) + strlen(events))::BIGINT AS bytes
        FROM turns SEMI JOIN due USING (tenant, session_id) GROUP BY tenant, session_id
    )
    SELECT number, count(*) AS sessions, sum(turns)::BIGINT AS turns, coalesce(sum(messages), 0)::BIGINT AS messages,
        coalesce(sum(bytes), 0)::BIGINT AS bytes, min(active_at) AS oldest
    FROM due LEFT JOIN sizes USING (tenant, session_id) GROUP BY number ORDER BY number"""  # noqa: S608
    connection.heads.refresh(connection.cursor)
    return connection.fetch(DueByPolicy, select, {"rules": _rules(policies, now)})


def count_due(connection: DuckDBConnection, policies: Sequence[Policy], now: datetime) -> int:
    """Count the due sessions of all tenants."""
    connection.heads.refresh(connection.cursor)
    ((number,),) = connection.rows(f"WITH {_due()} SELECT count(*) FROM due", {"rules": _rules(policies, now)})  # noqa: S608
    return int(number)


def due(
    connection: DuckDBConnection, policies: Sequence[Policy], now: datetime, *, of: tuple[str, list[str]] | None = None
) -> list[Due]:
    """Return at most DUE_MAX due sessions of all tenants, those that have been inactive the longest first.

    With `of`, a tenant and session ids, only those among these sessions, also within a transaction.
    """
    parameters: dict[str, Scalar | list[str]] = {"rules": _rules(policies, now)}
    if of is None:
        connection.heads.refresh(connection.cursor)
    else:
        parameters |= {"tenant": of[0], "sessions": of[1]}
    select = f"""
    WITH {_due(named=of is not None)}
    SELECT tenant, session_id::VARCHAR AS session_id, user_id, action, turns FROM due
    ORDER BY active_at, session_id LIMIT {DUE_MAX}"""  # noqa: S608
    return connection.fetch(Due, select, parameters)


def apply(
    connection: DuckDBConnection, tenant: str, session_ids: list[str], policies: Sequence[Policy], now: datetime
) -> RetentionResult:
    """Apply the policies to these sessions. Within a transaction."""
    found = due(connection, policies, now, of=(tenant, session_ids))
    redacted = [each.session_id for each in found if each.action == "redact"]
    deleted = [each.session_id for each in found if each.action == "delete"]
    users = set(redact_sessions(connection, tenant, redacted, now)) if redacted else set()
    users |= set(delete_sessions(connection, tenant, deleted)) if deleted else set()
    return RetentionResult(redacted, deleted, sorted(users))


def _rules(policies: Sequence[Policy], now: datetime) -> str:
    return as_list(
        encode(_Rule(number, each.action, now - timedelta(days=each.after_days), each.script, each.tenant, each.status))
        for number, each in enumerate(policies)
    )


_RULES = """SELECT unnest(from_json_strict($rules::JSON, '[{"number": "INTEGER", "action": "VARCHAR",
    "before": "TIMESTAMPTZ", "script": "VARCHAR", "tenant": "VARCHAR", "status": "VARCHAR"}]'), max_depth := 2)"""


_HEADS = f"SELECT tenant, session_id, turn + 1 AS turns, active_at, status FROM {TABLE}"  # noqa: S608
_LATEST = f"""SELECT tenant, session_id, count(*) AS turns, max(finished_at) AS active_at,
            arg_max(status, turn) AS status
        FROM turns WHERE {OF_SESSIONS} GROUP BY tenant, session_id"""  # noqa: S608


def _due(*, named: bool = False) -> str:
    """Return common table expressions; `due` has the due sessions, by the heads of sessions or, if they are `named`, by
    their turns.

    A session that will continue by itself is not due.

    Sessions that were never created, of which only journaled calls of models exist, are included.
    """
    of = f"WHERE {OF_SESSIONS}" if named else ""
    return f"""
    rules AS ({_RULES}), latest AS (
        {_LATEST if named else _HEADS}
    ), moves AS (
        SELECT tenant, session_id, arg_max(script_id, turn) AS script_id FROM session_migrations {of}
        GROUP BY tenant, session_id
    ), standing AS (
        SELECT s.tenant, s.session_id, s.user_id, s.redacted_at, coalesce(m.script_id, s.script_id) AS script_id,
            latest.turns, latest.status, greatest(latest.active_at, s.created_at) AS active_at
        FROM session_starts AS s JOIN latest USING (tenant, session_id) LEFT JOIN moves AS m USING (tenant, session_id)
        UNION ALL BY NAME
        SELECT tenant, session_id, any_value(user_id) AS user_id, any_value(script_id) AS script_id, 0 AS turns,
            max(started_at) AS active_at, if(max(request_digest) = '', active_at, NULL) AS redacted_at
        FROM (FROM call_journal {of}) ANTI JOIN session_starts USING (tenant, session_id) GROUP BY tenant, session_id
    ), fitting AS (
        SELECT s.*, rules.number, rules.action, rules.before FROM standing AS s JOIN rules
            ON coalesce(rules.tenant, s.tenant) = s.tenant AND s.script_id GLOB coalesce(rules.script, '*')
            AND (rules.status IS NULL OR rules.status = s.status)
        QUALIFY row_number() OVER (PARTITION BY s.tenant, s.session_id, rules.action ORDER BY rules.number) = 1
    ), due AS (
        SELECT * FROM fitting ANTI JOIN (FROM timers WHERE status = 'pending') USING (tenant, session_id)
        WHERE active_at < before AND (action = 'delete' OR redacted_at IS NULL)
        QUALIFY row_number() OVER (PARTITION BY tenant, session_id ORDER BY action = 'redact') = 1
    )"""  # noqa: S608

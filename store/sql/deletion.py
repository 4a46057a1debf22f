"""Delete the rows of sessions and users from all tables."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from store.interface.admission import SessionId
from store.interface.maintenance_rows import ErasureResult
from store.interface.rows import ErasureRow, encode
from store.sql.connection import OF_SESSION, Connection, Parameters, delete_rows, exists, of_session, update_rows

_ROWS = "count(*)"
OF_SESSIONS = "tenant = $tenant AND session_id IN (SELECT unnest($sessions::UUID[]))"
"""SQL condition for the rows of the sessions `$sessions` of `$tenant`."""


class OwnedTable(NamedTuple):
    """A table with rows of sessions (`session_id`), of users (`user_id`), or of both."""

    table: str
    counted: Mapping[str, str]
    """The counts in a receipt: SQL aggregates by kind."""
    by_session: bool = True
    by_user: bool = True


OWNED = (
    OwnedTable("session_starts", {"sessions": _ROWS}),
    OwnedTable(
        "turns",
        {
            "turns": _ROWS,
            "messages": "sum(json_array_length(messages))",
            "writes": "sum(json_array_length(variables))",
            "events": "sum(json_array_length(events))",
        },
    ),
    OwnedTable("session_migrations", {"migrations": _ROWS}, by_user=False),
    OwnedTable("turn_failures", {"failures": _ROWS}, by_user=False),
    OwnedTable("settled_calls", {"calls": _ROWS}),
    OwnedTable("call_journal", {"calls": "count(DISTINCT call_id)"}),
    OwnedTable("webhook_deliveries", {"deliveries": _ROWS}),
    OwnedTable("timers", {"timers": _ROWS}),
    OwnedTable("hand_overs", {"handOvers": _ROWS}),
    OwnedTable("user_variable_values", {"variables": _ROWS}, by_session=False),
    OwnedTable("user_variable_writes", {"writes": _ROWS}, by_session=False),
    OwnedTable("api_keys", {"keys": _ROWS}, by_session=False),
    OwnedTable("participants", {"participants": _ROWS}),
    OwnedTable("review_targets", {"targets": _ROWS}, by_user=False),
    OwnedTable("ratings", {"ratings": _ROWS}, by_user=False),
    OwnedTable("memory_unit_rows", {"units": _ROWS}),
    OwnedTable("memory_groups", {"groups": _ROWS}),
    OwnedTable("memory_vectors", {"vectors": _ROWS}),
    OwnedTable("memory_owners", {"memories": _ROWS}, by_session=False),
    OwnedTable("memory_jobs", {"jobs": _ROWS}, by_session=False),
    OwnedTable("memory_calls", {"calls": _ROWS}, by_session=False),
)
"""All tables whose rows are deleted with their session or user. A test fails if a table with a `session_id` or
`user_id` is missing.
"""


_OF_USER = "tenant = $tenant AND user_id = $user_id"


def delete_rows_of(connection: Connection, table: str, sessions: Iterable[SessionId]) -> None:
    """Delete the rows of these sessions from one table. Within a transaction."""
    tenants, session_ids = zip(*sessions, strict=True)
    connection.change(
        f"""DELETE FROM {table} WHERE session_id IN (SELECT unnest($sessions::UUID[]))
            AND (tenant, session_id) IN (SELECT unnest($tenants::VARCHAR[]), unnest($sessions::UUID[]))""",  # noqa: S608
        {"tenants": list(tenants), "sessions": list(session_ids)},
    )


def delete_session(connection: Connection, tenant: str, session_id: str) -> bool:
    """Delete all rows of a session; return false if there is no such session. Within a transaction."""
    started = exists(connection, "session_starts", OF_SESSION, of_session(tenant, session_id))
    if started:
        delete_sessions(connection, tenant, [session_id])
    return started


def delete_sessions(connection: Connection, tenant: str, session_ids: list[str]) -> list[str]:
    """Delete all rows of sessions; return the users whose memory contained rows of them. Within a transaction.

    The values of global variables that the sessions wrote stay.
    """
    connection.prepare_change(tenant, session_ids)
    users = delete_memory_of(connection, tenant, session_ids)
    _remove(connection, [owned for owned in OWNED if owned.by_session], tenant, session_ids, None)
    _remove_derived(connection, tenant, session_ids)
    return users


def _remove_derived(connection: Connection, tenant: str, session_ids: list[str]) -> None:
    for table in connection.derived_tables:
        connection.change(f"DELETE FROM {table} WHERE {OF_SESSIONS}", {"tenant": tenant, "sessions": session_ids})  # noqa: S608


_OF_MEMORY = [owned for owned in OWNED if owned.by_session and owned.table.startswith("memory_")]


def delete_memory_of(connection: Connection, tenant: str, session_ids: list[str]) -> list[str]:
    """Delete the memory rows of sessions, and errors of the model calls of these memories, which may quote them.

    Return the users whose memory contained them. Within a transaction.
    """
    either = " UNION ".join(f"SELECT user_id FROM {owned.table} WHERE {OF_SESSIONS}" for owned in _OF_MEMORY)  # noqa: S608
    found = connection.rows(f"{either} ORDER BY user_id", {"tenant": tenant, "sessions": session_ids})
    users = [user_id for (user_id,) in found]
    if users:
        _restore_validity(connection, tenant, session_ids)
        _remove_summaries_of(connection, tenant, session_ids)
        _remove(connection, _OF_MEMORY, tenant, session_ids, None)
        connection.change(
            """UPDATE memory_calls SET request_digest = '', prompt_digest = NULL, error = NULL, failures = NULL,
                degraded = NULL WHERE tenant = $tenant AND user_id IN (SELECT unnest($users::VARCHAR[]))""",
            {"tenant": tenant, "users": users},
        )
    for user_id in users:
        remove_dangling(connection, tenant, user_id)
    # also where the memory knows nothing of the sessions yet: another server may be about to add them
    owners = f"SELECT DISTINCT user_id FROM session_starts WHERE {OF_SESSIONS}"  # noqa: S608
    owned = connection.rows(owners, {"tenant": tenant, "sessions": session_ids})
    connection.note_memory_change(tenant, list({*users, *(user_id for (user_id,) in owned)}))
    return users


def _restore_validity(connection: Connection, tenant: str, session_ids: list[str]) -> None:
    """Make units that units of the sessions superseded valid until the end of these, so that a search finds the earlier
    fact again, unless a later one that remains supersedes it.
    """
    removed = f"SELECT user_id, unit_id, superseded_by, valid_to FROM memory_unit_rows WHERE {OF_SESSIONS}"  # noqa: S608
    connection.change(
        f"""UPDATE memory_unit_rows SET superseded_by = ends.superseded_by, valid_to = ends.valid_to
        FROM (
            WITH RECURSIVE removed AS ({removed}), following AS (
                SELECT * FROM removed
                UNION SELECT f.user_id, f.unit_id, r.superseded_by, r.valid_to FROM following AS f
                    JOIN removed AS r ON r.user_id = f.user_id AND r.unit_id = f.superseded_by
            )
            SELECT * FROM following AS f WHERE NOT EXISTS (
                SELECT 1 FROM removed AS r WHERE r.user_id = f.user_id AND r.unit_id = f.superseded_by)
        ) AS ends
        WHERE memory_unit_rows.tenant = $tenant AND memory_unit_rows.user_id = ends.user_id
            AND memory_unit_rows.superseded_by = ends.unit_id""",  # noqa: S608
        {"tenant": tenant, "sessions": session_ids},
    )


def _remove_summaries_of(connection: Connection, tenant: str, session_ids: list[str]) -> None:
    """Delete the summaries of the users' whole memories, since they cover the sessions, and mark them as stale.

    A stale summary is written again later.
    """
    of_user = f"tenant = $tenant AND user_id IN (SELECT user_id FROM memory_groups WHERE {OF_SESSIONS})"  # noqa: S608
    parameters = {"tenant": tenant, "sessions": session_ids}
    above = f"SELECT user_id, sequence FROM memory_unit_rows WHERE {of_user} AND rank = 2"  # noqa: S608
    if not connection.rows(above, parameters):
        return
    connection.change(f"UPDATE memory_owners SET is_stale = true WHERE {of_user}", parameters)  # noqa: S608
    statement = f"DELETE FROM memory_vectors WHERE {of_user} AND (user_id, sequence) IN ({above})"  # noqa: S608
    connection.change(statement, parameters)
    connection.change(f"DELETE FROM memory_unit_rows WHERE {of_user} AND rank = 2", parameters)  # noqa: S608
    statement = f"UPDATE memory_unit_rows SET parent_id = NULL WHERE {of_user} AND rank = 1 AND unit_id = group_id"  # noqa: S608
    connection.change(statement, parameters)


def remove_dangling(connection: Connection, tenant: str, user_id: str) -> int:
    """Remove units that no longer exist from the short-term memory of a user's groups; return the number of groups
    that changed. Within a transaction.
    """
    user = {"tenant": tenant, "user_id": user_id}
    select = f"SELECT group_id, short_term::VARCHAR FROM memory_groups WHERE {_OF_USER} AND short_term IS NOT NULL"  # noqa: S608
    groups = connection.rows(select, user)
    if not groups:
        return 0
    found = connection.rows(f"SELECT sequence FROM memory_unit_rows WHERE {_OF_USER}", user)  # noqa: S608
    existing = {sequence for (sequence,) in found}
    changed = 0
    for group_id, text in groups:
        state: dict[str, Any] = msgspec.json.decode(text)
        remaining = _remaining(state, existing)
        if remaining != state:
            new = {"short_term": encode(remaining).decode()}
            changed += update_rows(connection, "memory_groups", {**user, "group_id": group_id}, new)
    return changed


def _remaining(state: dict[str, Any], existing: set[int]) -> dict[str, Any]:
    working = state.get("working")
    if not isinstance(working, dict):
        return state
    lists = {
        name: [each for each in value if each in existing] if isinstance(value, list) else value
        for name, value in working.items()
    }
    return {**state, "working": lists}


def sessions_of_user(connection: Connection, tenant: str, user_id: str) -> list[str]:
    """Return the ids of all sessions of a user that have any rows, including sessions that were never created."""
    parts = " UNION ".join(
        f"SELECT session_id FROM {owned.table} WHERE {_OF_USER} AND session_id IS NOT NULL"  # noqa: S608
        for owned in OWNED
        if owned.by_session and owned.by_user
    )
    select = f"SELECT session_id::VARCHAR FROM ({parts}) AS found"  # noqa: S608
    found = connection.rows(select, {"tenant": tenant, "user_id": user_id})
    return sorted(session_id for (session_id,) in found)


def erase_user(
    connection: Connection, tenant: str, user_id: str, receipt_id: str, erased_at: datetime
) -> ErasureResult:
    """Delete all rows of a user and of that user's sessions, and insert a receipt. Within a transaction.

    The caller must lock the user's sessions meanwhile.
    """
    sessions = sessions_of_user(connection, tenant, user_id)
    connection.prepare_change(tenant, sessions)
    counts = _remove(connection, OWNED, tenant, sessions, user_id)
    _remove_derived(connection, tenant, sessions)
    for table in connection.derived_of_users:
        delete_rows(connection, table, {"tenant": tenant, "user_id": user_id})
    connection.insert("erasures", [ErasureRow(tenant, receipt_id, erased_at, counts)])
    return ErasureResult(sessions, counts)


def _remove(
    connection: Connection,
    tables: tuple[OwnedTable, ...] | list[OwnedTable],
    tenant: str,
    sessions: list[str],
    user_id: str | None,
) -> dict[str, int]:
    """Delete the rows of these sessions, and of the user if `user_id` is set; return the counts by kind."""
    counts = {kind: 0 for owned in tables for kind in owned.counted}
    of_sessions: Parameters = {"tenant": tenant, "sessions": sessions}
    of_user: Parameters = {"tenant": tenant, "user_id": user_id}
    for owned in tables:
        # one after the other: with OR, PostgreSQL would read the whole table
        conditions = [(OF_SESSIONS, of_sessions)] * owned.by_session
        conditions += [(_OF_USER, of_user)] * (owned.by_user and user_id is not None)
        for which, parameters in conditions:
            counting = ", ".join(f"coalesce({counted}, 0)::BIGINT" for counted in owned.counted.values())
            (found,) = connection.rows(f"SELECT {counting} FROM {owned.table} WHERE {which}", parameters)  # noqa: S608
            for kind, count in zip(owned.counted, found, strict=True):
                counts[kind] += count
            connection.change(f"DELETE FROM {owned.table} WHERE {which}", parameters)  # noqa: S608
    return counts

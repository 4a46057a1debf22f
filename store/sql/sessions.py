"""Read one session as it was created, by its id or a key, and its migrations and hand-over; change its labels."""

from datetime import datetime
from uuid import UUID

from msgspec.structs import replace

from store.interface.errors import KeyTaken
from store.interface.hand_over_rows import HandOverRow, HandOverStatus
from store.interface.pages import Page
from store.interface.rows import JsonObject, MigrationRow, SessionRow
from store.sql.connection import (
    OF_SESSION,
    Connection,
    Parameters,
    as_uuid,
    delete_rows,
    exists,
    fetch_page,
    find_row,
    of_session,
)

MIGRATIONS_MAX = 1_000
LAST_MOVES = """
SELECT DISTINCT ON (session_id) * FROM session_migrations WHERE tenant = $tenant ORDER BY session_id, turn DESC"""
"""The last script migration of each session that was migrated."""


def migrations(connection: Connection, tenant: str, session_id: str) -> list[MigrationRow]:
    """Return a session's last MIGRATIONS_MAX script migrations, the newest first."""
    select = f"SELECT * FROM session_migrations WHERE {OF_SESSION} ORDER BY turn DESC LIMIT {MIGRATIONS_MAX}"  # noqa: S608
    return connection.fetch(MigrationRow, select, of_session(tenant, session_id))


def session_start(connection: Connection, tenant: str, session_id: str) -> SessionRow | None:
    """Return a session as it was created, but with its current key and metadata."""
    return find_row(connection, SessionRow, "session_starts", of_session(tenant, session_id))


def session_by_key(connection: Connection, tenant: str, key: str) -> SessionRow | None:
    """Return the session with this key, as it was created."""
    return find_row(connection, SessionRow, "session_starts", {"tenant": tenant, "key": key})


def creation_by_key(connection: Connection, tenant: str, idempotency_key: str) -> SessionRow | None:
    """Return the session that a request with this idempotency key created; mostly there is none."""
    key: Parameters = {"tenant": tenant, "idempotency_key": idempotency_key}
    if not exists(connection, "session_starts", "tenant = $tenant AND idempotency_key = $idempotency_key", key):
        return None
    return find_row(connection, SessionRow, "session_starts", key)


def label(connection: Connection, before: SessionRow, key: str | None, metadata: JsonObject) -> bool:
    """Set the key and the metadata of a session; return false if they are no longer those of `before`, or the session
    is redacted or deleted. Raises KeyTaken, RowRefused. Within a transaction.
    """
    tenant, session_id = before.tenant, before.session_id
    now = session_start(connection, tenant, session_id)
    if now is None or now.redacted_at is not None or (now.key, now.metadata) != (before.key, before.metadata):
        return False
    require_free(connection, tenant, "key", key, session_id)
    delete_rows(connection, "session_starts", of_session(tenant, session_id))
    connection.insert("session_starts", [replace(now, key=key, metadata=metadata)])
    connection.note_change(tenant, [as_uuid(session_id)])
    return True


def require_free(connection: Connection, tenant: str, field: str, value: str | None, session_id: str = "") -> None:
    """Raise KeyTaken if another session has this value of `key` or `idempotency_key`."""
    if value is None:
        return
    found = connection.rows(
        f"""SELECT session_id::VARCHAR FROM session_starts
        WHERE tenant = $tenant AND {field} = $value AND session_id IS DISTINCT FROM $session_id::UUID""",  # noqa: S608
        {"tenant": tenant, "value": value, "session_id": as_uuid(session_id)},
    )
    if found:
        raise KeyTaken(field, value, found[0][0])


def hand_overs(
    connection: Connection,
    tenant: str,
    *,
    user_id: str | None = None,
    status: HandOverStatus | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[HandOverRow]:
    """Return a page of sessions for a person, those that wait longest first. Raises CursorInvalid."""
    filters: Parameters = {"tenant": tenant, "user_id": user_id, "status": status}
    order = {"since": datetime, "session_id": UUID}
    return fetch_page(connection, HandOverRow, "hand_overs", filters, order, limit, cursor, descending=False)

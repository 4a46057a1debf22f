"""Sessions that a person is asked to join, or talks in."""

from datetime import datetime
from uuid import UUID

from store.interface.hand_over_rows import HandOverRow, HandOverStatus
from store.interface.pages import Page
from store.sql.connection import Connection, Parameters, fetch_page


def page(
    connection: Connection,
    tenant: str,
    *,
    user_id: str | None = None,
    status: HandOverStatus | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[HandOverRow]:
    """Return a page of sessions for a person, those that wait longest first. Raises CursorInvalid."""
    select = """
        SELECT * FROM hand_overs
        WHERE tenant = $tenant AND ($user_id::VARCHAR IS NULL OR user_id = $user_id)
            AND ($status::VARCHAR IS NULL OR status = $status)"""
    filters: Parameters = {"tenant": tenant, "user_id": user_id, "status": status}
    order = {"since": datetime, "session_id": UUID}
    return fetch_page(connection, HandOverRow, select, filters, order, limit, cursor, descending=False)

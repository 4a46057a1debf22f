"""Sessions that a person is asked to join, or talks in."""

from store.duckdb.fetch import Cursor, Parameters, fetch_page, utc
from store.interface.hand_over_rows import HandOverRow, HandOverStatus
from store.interface.pages import Page

_TIMES = utc("since")


def page(
    reader: Cursor,
    tenant: str,
    *,
    user_id: str | None = None,
    status: HandOverStatus | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[HandOverRow]:
    """Return a page of sessions for a person, those that wait longest first."""
    select = f"""
        SELECT * {_TIMES} FROM hand_overs
        WHERE tenant = $tenant AND ($user_id IS NULL OR user_id = $user_id) AND ($status IS NULL OR status = $status)
            AND ($after_time IS NULL OR (hand_overs.since, session_id::VARCHAR) > ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY hand_overs.since, session_id::VARCHAR LIMIT $limit"""  # noqa: S608
    filters: Parameters = {"tenant": tenant, "user_id": user_id, "status": status}
    return fetch_page(reader, HandOverRow, select, filters, limit, cursor, lambda row: (row.since, row.session_id))

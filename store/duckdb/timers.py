"""The timers of sessions: which are due, and failed attempts to fire them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from store.duckdb.deletion import delete_rows_of
from store.duckdb.fetch import Cursor, Parameters, fetch, fetch_page, utc
from store.duckdb.insert import as_list, insert_statement
from store.interface.encoding import encode
from store.interface.pages import Page
from store.interface.timer_rows import DueTimers, TimerRow, TimerStatus

_TIMES = utc("due", "next_attempt_at")
_FIRSTS = """
FROM timers WHERE status = 'pending'
QUALIFY row_number() OVER (PARTITION BY tenant, session_id ORDER BY timers.due, timer_id) = 1
"""
_OF_SESSION = "tenant = $tenant AND session_id = try_cast($session_id AS UUID)"


def ahead(cursor: Cursor, now: datetime, limit: int) -> DueTimers:
    """Return the first timers of at most `limit` sessions that are due, and when the next one is due."""
    parameters: Parameters = {"now": now.isoformat()}
    select = f"""SELECT * {_TIMES} FROM ({_FIRSTS}) AS firsts
        WHERE firsts.next_attempt_at <= $now::TIMESTAMPTZ
        ORDER BY firsts.due, session_id LIMIT $limit"""  # noqa: S608
    due = fetch(cursor, TimerRow, select, parameters | {"limit": limit})
    later = cursor.execute(
        f"SELECT epoch(min(next_attempt_at)) FROM ({_FIRSTS}) WHERE next_attempt_at > $now::TIMESTAMPTZ",  # noqa: S608
        parameters,
    ).fetchone()
    next_due = later[0] if later is not None else None
    return DueTimers(due, datetime.fromtimestamp(next_due, UTC) if next_due is not None else None)


def page(
    reader: Cursor,
    tenant: str,
    *,
    session_id: str | None = None,
    user_id: str | None = None,
    status: TimerStatus | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[TimerRow]:
    """Return a page of timers, the earliest first."""
    place = "concat(session_id::VARCHAR, ' ', timer_id)"
    select = f"""
        SELECT * {_TIMES} FROM timers
        WHERE tenant = $tenant AND ($session_id IS NULL OR session_id = try_cast($session_id AS UUID))
            AND ($user_id IS NULL OR user_id = $user_id) AND ($status IS NULL OR status = $status)
            AND ($after_time IS NULL OR (timers.due, {place}) > ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY timers.due, {place} LIMIT $limit"""  # noqa: S608
    filters: Parameters = {"tenant": tenant, "session_id": session_id, "user_id": user_id, "status": status}
    return fetch_page(
        reader, TimerRow, select, filters, limit, cursor, lambda row: (row.due, f"{row.session_id} {row.timer_id}")
    )


def replace(cursor: Cursor, tenant: str, session_id: str, timers: Sequence[TimerRow]) -> None:
    """Replace the timers of a session. Within a transaction."""
    delete_rows_of(cursor, "timers", [(tenant, session_id)])
    if timers:
        cursor.execute(insert_statement(cursor, "timers"), [as_list(map(encode, timers))])


def hold_due(cursor: Cursor, now: datetime) -> int:
    """Hold the pending timers of all tenants that are due; return how many. Within a transaction."""
    changed = cursor.execute(
        "UPDATE timers SET status = 'held' WHERE status = 'pending' AND timers.due <= $now::TIMESTAMPTZ",
        {"now": now.isoformat()},
    ).fetchone()
    return int(changed[0]) if changed is not None else 0


def note_failure(
    cursor: Cursor, timer: TimerRow, *, status: TimerStatus, next_attempt_at: datetime, error: str
) -> None:
    """Store that an attempt to fire a timer failed, unless the session has had a turn since. Within a transaction."""
    cursor.execute(
        f"""UPDATE timers SET status = $status, attempts = attempts + 1, error = $error,
            next_attempt_at = $next_attempt_at::TIMESTAMPTZ
        WHERE {_OF_SESSION} AND turn = $turn AND timer_id = $timer_id""",  # noqa: S608
        {
            "tenant": timer.tenant,
            "session_id": timer.session_id,
            "turn": timer.turn,
            "timer_id": timer.timer_id,
            "status": status,
            "error": error,
            "next_attempt_at": next_attempt_at.isoformat(),
        },
    )

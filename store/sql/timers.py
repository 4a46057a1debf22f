"""The timers of sessions: which are due, and failed attempts to fire them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from store.interface.pages import Page
from store.interface.timer_rows import DueTimers, TimerRow, TimerStatus
from store.sql.connection import OF_SESSION, Connection, Parameters, as_uuid, fetch_moment, fetch_page, of_session
from store.sql.deletion import delete_rows_of

FIRSTS = """
SELECT DISTINCT ON (tenant, session_id) * FROM timers WHERE status = 'pending'
ORDER BY tenant, session_id, due, timer_id
"""
"""SELECT of the first pending timer of each session."""
_LATER = f"SELECT min(next_attempt_at) AS moment FROM ({FIRSTS}) AS firsts WHERE next_attempt_at > $now::TIMESTAMPTZ"  # noqa: S608


def ahead(connection: Connection, now: datetime, limit: int) -> DueTimers:
    """Return the first timers of at most `limit` sessions that are due, and when the next one is due."""
    select = f"""SELECT * FROM ({FIRSTS}) AS firsts WHERE next_attempt_at <= $now::TIMESTAMPTZ
        ORDER BY due, session_id LIMIT $limit"""  # noqa: S608
    due = connection.fetch(TimerRow, select, {"now": now.isoformat(), "limit": limit})
    return DueTimers(due, next_due(connection, now))


def next_due(connection: Connection, now: datetime) -> datetime | None:
    """Return when the next timer is due that is not due now."""
    return fetch_moment(connection, _LATER, {"now": now.isoformat()})


def page(
    connection: Connection,
    tenant: str,
    *,
    session_id: str | None = None,
    user_id: str | None = None,
    status: TimerStatus | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[TimerRow]:
    """Return a page of timers, the earliest first. Raises CursorInvalid."""
    session = None if session_id is None else as_uuid(session_id)
    filters: Parameters = {"tenant": tenant, "session_id": session, "user_id": user_id, "status": status}
    order = {"due": datetime, "session_id": UUID, "timer_id": str}
    return fetch_page(connection, TimerRow, "timers", filters, order, limit, cursor, descending=False)


def replace(connection: Connection, tenant: str, session_id: str, timers: Sequence[TimerRow], turn: int | None) -> None:
    """Replace the timers of a session by those after a turn, unless it has had another turn since.

    Without a turn, they are replaced in any case. Within a transaction.
    """
    ((latest,),) = connection.rows(f"SELECT max(turn) FROM turns WHERE {OF_SESSION}", of_session(tenant, session_id))  # noqa: S608
    if turn is not None and latest != turn:
        return
    delete_rows_of(connection, "timers", [(tenant, session_id)])
    if timers:
        connection.insert("timers", timers)


def hold_due(connection: Connection, now: datetime) -> int:
    """Hold the pending timers of all tenants that are due; return how many. Within a transaction.

    Each stays until its session has a turn, or `replace`.
    """
    return connection.change(
        "UPDATE timers SET status = 'held' WHERE status = 'pending' AND due <= $now::TIMESTAMPTZ",
        {"now": now.isoformat()},
    )


def note_failure(
    connection: Connection, timer: TimerRow, *, status: TimerStatus, next_attempt_at: datetime, error: str
) -> None:
    """Store that an attempt to fire a timer failed, unless the session has had a turn since. Within a transaction."""
    connection.change(
        f"""UPDATE timers SET status = $status, attempts = attempts + 1, error = $error,
            next_attempt_at = $next_attempt_at::TIMESTAMPTZ
        WHERE {OF_SESSION} AND turn = $turn AND timer_id = $timer_id""",  # noqa: S608
        {
            **of_session(timer.tenant, timer.session_id),
            "turn": timer.turn,
            "timer_id": timer.timer_id,
            "status": status,
            "error": error,
            "next_attempt_at": next_attempt_at.isoformat(),
        },
    )

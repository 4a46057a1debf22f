"""Turns that failed and left no turn."""

from store.fetch import Cursor, fetch, utc
from store.insert import insert
from store.rows import FailureRow


def save_failure(cursor: Cursor, failure: FailureRow) -> None:
    """Add a failure. Within a transaction."""
    insert(cursor, "turn_failures", failure)


def failures(cursor: Cursor, tenant: str, session_id: str) -> list[FailureRow]:
    """The last failures of a session, at most 100, the latest first."""
    select = f"""SELECT * {utc("failed_at")} FROM turn_failures
        WHERE tenant = $tenant AND session_id = try_cast($session_id AS UUID)
        ORDER BY turn_failures.failed_at DESC LIMIT 100"""  # noqa: S608
    return fetch(cursor, FailureRow, select, {"tenant": tenant, "session_id": session_id})

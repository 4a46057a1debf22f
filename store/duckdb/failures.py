"""Failed turns, which were not committed."""

from store.duckdb.fetch import Cursor, fetch, utc
from store.duckdb.insert import insert
from store.interface.rows import FailureRow


def save_failure(cursor: Cursor, failure: FailureRow) -> None:
    """Add a failure. Within a transaction."""
    insert(cursor, "turn_failures", failure)


def failures(cursor: Cursor, tenant: str, session_id: str) -> list[FailureRow]:
    """Return the last 100 failures of a session, the newest first."""
    select = f"""SELECT * {utc("failed_at")} FROM turn_failures
        WHERE tenant = $tenant AND session_id = try_cast($session_id AS UUID)
        ORDER BY turn_failures.failed_at DESC LIMIT 100"""  # noqa: S608
    return fetch(cursor, FailureRow, select, {"tenant": tenant, "session_id": session_id})

"""Failed turns, which were not committed."""

from store.duckdb.fetch import Cursor, Parameters, exists, fetch, utc
from store.duckdb.insert import insert
from store.interface.rows import FailureRow

_OF_SESSION = "tenant = $tenant AND session_id = try_cast($session_id AS UUID)"


def save_failure(cursor: Cursor, failure: FailureRow) -> None:
    """Add a failure. Within a transaction."""
    insert(cursor, "turn_failures", failure)


def failures(cursor: Cursor, tenant: str, session_id: str) -> list[FailureRow]:
    """Return the last 100 failures of a session, the newest first."""
    parameters: Parameters = {"tenant": tenant, "session_id": session_id}
    if not exists(cursor, "turn_failures", _OF_SESSION, parameters):
        return []
    select = f"""SELECT * {utc("failed_at")} FROM turn_failures WHERE {_OF_SESSION}
        ORDER BY turn_failures.failed_at DESC LIMIT 100"""  # noqa: S608
    return fetch(cursor, FailureRow, select, parameters)

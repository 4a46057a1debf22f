"""Failed turns, which were not committed."""

from store.interface.rows import FailureRow
from store.sql.connection import OF_SESSION, Connection, exists, of_session


def save_failure(connection: Connection, failure: FailureRow) -> bool:
    """Add a failure; return false if its session was deleted. Within a transaction."""
    has_session = exists(connection, "session_starts", OF_SESSION, of_session(failure.tenant, failure.session_id))
    if has_session:
        connection.insert("turn_failures", [failure])
    return has_session


def failures(connection: Connection, tenant: str, session_id: str) -> list[FailureRow]:
    """Return the last 100 failures of a session, the newest first."""
    parameters = of_session(tenant, session_id)
    if not exists(connection, "turn_failures", OF_SESSION, parameters):
        return []
    select = f"SELECT * FROM turn_failures WHERE {OF_SESSION} ORDER BY failed_at DESC LIMIT 100"  # noqa: S608
    return connection.fetch(FailureRow, select, parameters)

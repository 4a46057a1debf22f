"""Failed turns, which were not committed."""

from store.interface.rows import FailureRow
from store.sql.connection import OF_SESSION, Connection, exists, of_session


def save_failure(connection: Connection, failure: FailureRow) -> None:
    """Add a failure. Within a transaction."""
    connection.insert("turn_failures", [failure])


def failures(connection: Connection, tenant: str, session_id: str) -> list[FailureRow]:
    """Return the last 100 failures of a session, the newest first."""
    parameters = of_session(tenant, session_id)
    if not exists(connection, "turn_failures", OF_SESSION, parameters):
        return []
    select = f"SELECT * FROM turn_failures WHERE {OF_SESSION} ORDER BY failed_at DESC LIMIT 100"  # noqa: S608
    return connection.fetch(FailureRow, select, parameters)

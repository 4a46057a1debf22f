"""What analytics needs of the store: the changes since a file was last refreshed, and the saved queries."""

from store.analytics import saved_queries
from store.analytics.delta import write_delta
from store.duckdb.fetch import Cursor
from store.duckdb.repository import Repository, reads, writes


def tenants(cursor: Cursor) -> list[str]:
    """Return the tenants that have sessions, in order, for the server itself."""
    found = cursor.execute("SELECT DISTINCT tenant FROM session_starts ORDER BY tenant").fetchall()
    return [tenant for (tenant,) in found]


class AnalyticsRepository(Repository):
    """Read the database for analytics files, and store queries. The reads do not block turns.

    Raises the same errors as `Store`.
    """

    delta = reads(write_delta)
    tenants = reads(tenants)
    queries = reads(saved_queries.saved_queries)
    query = reads(saved_queries.saved_query)
    add_query = writes(saved_queries.add_query)
    change_query = writes(saved_queries.change_query)
    delete_query = writes(saved_queries.delete_query)

"""The part of the store that analytics reads: the changes since an analytics file was last refreshed."""

from store.analytics.delta import write_delta
from store.duckdb.fetch import Cursor
from store.duckdb.repository import Repository, reads


def tenants(cursor: Cursor) -> list[str]:
    """Return the tenants that have sessions, in order, for the server itself."""
    found = cursor.execute("SELECT DISTINCT tenant FROM session_starts ORDER BY tenant").fetchall()
    return [tenant for (tenant,) in found]


class AnalyticsRepository(Repository):
    """Read the database for analytics files. The reads do not block turns. Raises the same errors as `Store`."""

    delta = reads(write_delta)
    tenants = reads(tenants)

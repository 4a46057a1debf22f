"""What analytics needs of the store: the changes since a file was last refreshed, saved queries and dashboards."""

from store.analytics.delta import write_delta
from store.analytics.tenant_table import TenantTable
from store.duckdb.fetch import Cursor
from store.duckdb.repository import Repository, reads, writes
from store.interface.analyst_rows import DashboardRow, SavedQueryRow

ROWS_MAX = 1_000
"""Maximum number of saved queries, and of dashboards, of one tenant."""
_QUERIES = TenantTable("saved_queries", "query_id", SavedQueryRow, ROWS_MAX)
_DASHBOARDS = TenantTable("dashboards", "dashboard_id", DashboardRow, ROWS_MAX)


def tenants(cursor: Cursor) -> list[str]:
    """Return the tenants that have sessions, in order, for the server itself."""
    found = cursor.execute("SELECT DISTINCT tenant FROM session_starts ORDER BY tenant").fetchall()
    return [tenant for (tenant,) in found]


def scheduled_dashboards(cursor: Cursor) -> list[DashboardRow]:
    """Return the dashboards of all tenants that are written to files."""
    return _DASHBOARDS.where(cursor, "schedule IS NOT NULL")


class AnalyticsRepository(Repository):
    """Read the database for analytics files, and store queries and dashboards. The reads do not block turns.

    Raises the same errors as `Store`.
    """

    delta = reads(write_delta)
    tenants = reads(tenants)
    queries = reads(_QUERIES.page)
    query = reads(_QUERIES.find)
    add_query = writes(_QUERIES.add)
    change_query = writes(_QUERIES.change)
    delete_query = writes(_QUERIES.delete)
    dashboards = reads(_DASHBOARDS.page)
    dashboard = reads(_DASHBOARDS.find)
    add_dashboard = writes(_DASHBOARDS.add)
    change_dashboard = writes(_DASHBOARDS.change)
    delete_dashboard = writes(_DASHBOARDS.delete)
    scheduled_dashboards = reads(scheduled_dashboards)

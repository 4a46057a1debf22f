"""What analytics needs of the store, in any database; the changes are computed in DuckDB."""

from store.analytics.delta import write_delta
from store.duckdb.connection import with_cursor
from store.interface.analyst_rows import DashboardRow, SavedQueryRow
from store.sql.connection import Connection
from store.sql.repository import Repository, reads, writes
from store.sql.tenant_table import AnalystTable

_QUERIES = AnalystTable("saved_queries", "query_id", SavedQueryRow)
_DASHBOARDS = AnalystTable("dashboards", "dashboard_id", DashboardRow)


def tenants(connection: Connection) -> list[str]:
    """Return the tenants that have sessions, in order, for the server itself."""
    found = connection.rows("SELECT DISTINCT tenant FROM session_starts ORDER BY tenant")
    return [tenant for (tenant,) in found]


class AnalyticsRepository(Repository):
    """Read the changes since an analytics file was last refreshed, and store queries and dashboards.

    The reads do not block turns.
    """

    delta = reads(with_cursor(write_delta))
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
    all_dashboards = reads(_DASHBOARDS.all)

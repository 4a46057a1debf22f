"""What analytics needs of the store, in any database; the changes are computed in DuckDB."""

from store.analytics.delta import write_delta
from store.duckdb.connection import with_cursor
from store.interface.analyst_rows import DashboardRow, SavedQueryRow
from store.sql.connection import Connection
from store.sql.repository import Repository, reads, writes
from store.sql.tenant_table import TenantTable

ROWS_MAX = 1_000
"""Maximum number of saved queries, and of dashboards, of one tenant."""
_QUERIES = TenantTable("saved_queries", "query_id", SavedQueryRow, ROWS_MAX)
_DASHBOARDS = TenantTable("dashboards", "dashboard_id", DashboardRow, ROWS_MAX)


def tenants(connection: Connection) -> list[str]:
    """Return the tenants that have sessions, in order, for the server itself."""
    found = connection.rows("SELECT DISTINCT tenant FROM session_starts ORDER BY tenant")
    return [tenant for (tenant,) in found]


def all_dashboards(connection: Connection) -> list[DashboardRow]:
    """Return the dashboards of all tenants, for the server itself."""
    return _DASHBOARDS.all(connection)


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
    all_dashboards = reads(all_dashboards)

"""What analytics needs of the store: the changes since a file was last refreshed, saved queries and dashboards."""

from store.analytics.analytics_repository import AnalyticsRepository
from store.analytics.delta import write_delta
from store.duckdb.connection import with_cursor
from store.sql.repository import reads


class DuckDBAnalytics(AnalyticsRepository):
    """Read the database for analytics files, and store queries and dashboards. The reads do not block turns.

    Raises the same errors as `Store`.
    """

    delta = reads(with_cursor(write_delta))

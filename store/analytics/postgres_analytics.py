"""What analytics needs of the store over PostgreSQL: the changes are computed in the mirror."""

import asyncio
from pathlib import Path

from store.analytics.analytics_repository import AnalyticsRepository
from store.analytics.delta import TURNS_MAX, Delta, Known, write_delta
from store.analytics.postgres_mirror import PostgresMirror
from store.postgres.engine import PostgresEngine


class PostgresAnalytics(AnalyticsRepository):
    """Read the changes for analytics files, and store queries and dashboards."""

    def __init__(self, engine: PostgresEngine, mirror: PostgresMirror) -> None:
        super().__init__(engine)
        self._mirror = mirror

    async def delta(self, tenant: str, folder: Path, known: Known, *, units: bool, turns_max: int = TURNS_MAX) -> Delta:
        """Refresh the mirror, and write the changes since `known` into an empty folder."""
        return await asyncio.to_thread(self._delta, tenant, folder, known, units, turns_max)

    def _delta(self, tenant: str, folder: Path, known: Known, units: bool, turns_max: int) -> Delta:
        with self._mirror.refreshed(units=units) as connection:
            return write_delta(connection.cursor, tenant, folder, known, units=units, turns_max=turns_max)

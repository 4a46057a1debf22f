"""What analytics needs of the store, in any database."""

from pathlib import Path
from typing import Protocol

from store.analytics.delta import TURNS_MAX, Delta, Known
from store.interface.analyst_rows import DashboardRow, SavedQueryRow
from store.interface.pages import Page


class AnalyticsRepository(Protocol):
    """Read the changes since an analytics file was last refreshed, and store queries and dashboards."""

    async def delta(self, tenant: str, folder: Path, known: Known, *, units: bool, turns_max: int = TURNS_MAX) -> Delta:
        """Write the changes since `known` into an empty folder; memory units only if `units` is true.

        Raises AnalyticsUnreadable if the file of known sessions cannot be read, StoreUnavailable if writing fails.
        """

    async def tenants(self) -> list[str]:
        """Return the tenants that have sessions, in order, for the server itself."""

    async def queries(self, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[SavedQueryRow]:
        """Return a page of saved queries, the last changed first. Raises CursorInvalid."""

    async def query(self, tenant: str, key: str) -> SavedQueryRow | None:
        """Return a saved query."""

    async def add_query(self, row: SavedQueryRow) -> None:
        """Add a saved query. Raises RowRefused if the tenant has too many."""

    async def change_query(self, row: SavedQueryRow) -> SavedQueryRow | None:
        """Replace a saved query; return it as stored, or None if there is none."""

    async def delete_query(self, tenant: str, key: str) -> bool:
        """Delete a saved query; return whether there was one."""

    async def dashboards(self, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[DashboardRow]:
        """Return a page of dashboards, the last changed first. Raises CursorInvalid."""

    async def dashboard(self, tenant: str, key: str) -> DashboardRow | None:
        """Return a dashboard."""

    async def add_dashboard(self, row: DashboardRow) -> None:
        """Add a dashboard. Raises RowRefused if the tenant has too many."""

    async def change_dashboard(self, row: DashboardRow) -> DashboardRow | None:
        """Replace a dashboard; return it as stored, or None if there is none."""

    async def delete_dashboard(self, tenant: str, key: str) -> bool:
        """Delete a dashboard; return whether there was one."""

    async def scheduled_dashboards(self) -> list[DashboardRow]:
        """Return the dashboards of all tenants that are written to files, for the server itself."""

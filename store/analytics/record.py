"""What analysts need of the record: what changed since an analytics file was last brought up to date."""

from pathlib import Path

from store.analytics.delta import Delta, Known, write_delta
from store.fetch import Cursor
from store.readers import Readers


class AnalyticsRecord:
    """The record, for analytics files; turns are not held up by it."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def delta(self, tenant: str, folder: Path, known: Known, *, units: bool) -> Delta:
        """Write what changed since into an empty folder, with `units` of memory only where they are asked for.

        Raises StoreBusy, ReadTimedOut, StoreUnavailable.
        """
        return await self._readers.read(lambda cursor: write_delta(cursor, tenant, folder, known, units=units))

    async def tenants(self) -> list[str]:
        """Whoever has sessions, in order, for the server itself."""
        return await self._readers.read(_tenants)


def _tenants(cursor: Cursor) -> list[str]:
    found = cursor.execute("SELECT DISTINCT tenant FROM session_starts ORDER BY tenant").fetchall()
    return [tenant for (tenant,) in found]

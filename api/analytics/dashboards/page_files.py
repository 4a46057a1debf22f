"""Writes dashboards to files by their schedules, and removes the oldest."""

import asyncio
import hashlib
import re
import shutil
from collections.abc import Callable, Set
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import structlog

from api.analytics.dashboards.dashboards import Dashboards
from api.background import looking
from api.errors import ApiError
from api.local_files.atomic_files import write_whole
from api.schemas.analytics import DashboardFile
from api.schemas.timestamps import FILE_TIME_PATTERN, file_time, read_file_time
from api.settings import Settings
from runtime.state.ports import Clock
from scripts.expressions.time_values import zone_of
from store.interface.analyst_rows import DashboardRow, ScheduleRow
from store.interface.errors import StoreError
from store.interface.private_files import make_folder

FOLDER = "dashboards"
_NAME = re.compile(rf"{FILE_TIME_PATTERN}\.html")

log = structlog.get_logger()


class DashboardFiles:
    """The files of the dashboards of all tenants, without texts and user ids: `TENANT/DASHBOARD/TIME.html`."""

    def __init__(self, dashboards: Dashboards, settings: Settings, clock: Clock) -> None:
        self._dashboards = dashboards
        self._folder = settings.data / FOLDER
        self._keep = settings.dashboard_keep
        self._zone = zone_of(settings.timezone) or UTC
        self._clock = clock
        self._writing = asyncio.Lock()

    def running(self, leads: Callable[[], bool]) -> AbstractAsyncContextManager[None]:
        """Write files inside the context, while this server `leads`."""
        return looking(lambda: self.look(leads), "dashboards")

    async def look(self, leads: Callable[[], bool] = lambda: True) -> None:
        """Remove the files of dashboards that were deleted on another server; if this server `leads`, write those that
        are due. One that fails is tried again at the next call. Raises StoreError.
        """
        rows = await self._dashboards.all()
        known = {self._folder_of(row.tenant, row.dashboard_id) for row in rows}
        await asyncio.to_thread(_remove_others, self._folder, known)
        for row in rows if leads() else ():
            async with self._writing:
                if self._is_due(row):
                    try:
                        # read again under the lock: it may have been deleted or changed since the list was read
                        await self._write(await self._dashboards.get(row.tenant, row.dashboard_id))
                    except (ApiError, StoreError, OSError) as error:
                        log.warning("a dashboard was not written", dashboard=row.dashboard_id, problem=str(error))

    async def forget(self, tenant: str, dashboard_id: str | None = None) -> None:
        """Remove the files of a dashboard, or of all of a tenant, so that none contains erased data."""
        async with self._writing:  # one that is being written may still contain it
            folder = self._folder_of(tenant) if dashboard_id is None else self._folder_of(tenant, dashboard_id)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def list_files(self, tenant: str, dashboard_id: str) -> list[DashboardFile]:
        """Return the files of a dashboard, the newest first."""
        return [
            DashboardFile(file_name=path.name, written_at=read_file_time(path.stem), bytes=path.stat().st_size)
            for path in reversed(self._of(tenant, dashboard_id))
        ]

    def path(self, tenant: str, dashboard_id: str, name: str) -> Path:
        """Return the path of a file. Raises ApiError DASHBOARD_NOT_FOUND."""
        path = self._folder_of(tenant, dashboard_id) / name
        if not _NAME.fullmatch(name) or not path.is_file():
            raise ApiError("DASHBOARD_NOT_FOUND", f"the dashboard has no file {name}")
        return path

    def _is_due(self, row: DashboardRow) -> bool:
        """Return whether the last moment of the schedule has no file; moments before the last change need none."""
        if row.schedule is None:
            return False
        moment = last_moment(row.schedule, self._clock(), self._zone)
        known = self._of(row.tenant, row.dashboard_id)
        return moment > row.updated_at and (not known or read_file_time(known[-1].stem) < moment)

    async def _write(self, row: DashboardRow) -> None:
        name = f"{file_time(self._clock())}.html"
        html = await self._dashboards.html(row, masked=True)
        path = self._folder_of(row.tenant, row.dashboard_id) / name
        await asyncio.to_thread(_place, html, path)
        for old in self._of(row.tenant, row.dashboard_id)[: -self._keep]:
            old.unlink(missing_ok=True)
        log.info("dashboard written", tenant=row.tenant, dashboard=row.dashboard_id, bytes=path.stat().st_size)

    def _of(self, tenant: str, dashboard_id: str) -> list[Path]:
        """Return the files of a dashboard, the oldest first."""
        return sorted(
            path for path in self._folder_of(tenant, dashboard_id).glob("*.html") if _NAME.fullmatch(path.name)
        )

    def _folder_of(self, *names: str) -> Path:
        """Return the folder of a tenant or a dashboard. Their ids may contain anything, so names are digests."""
        return self._folder.joinpath(*(hashlib.sha256(name.encode()).hexdigest()[:32] for name in names))


def last_moment(schedule: ScheduleRow, now: datetime, zone: tzinfo) -> datetime:
    """Return the last moment of a schedule that is not after `now`."""
    day = now.astimezone(zone).replace(hour=schedule.hour, minute=0, second=0, microsecond=0)
    while day > now or not _is_on(schedule, day):
        day -= timedelta(days=1)
    return day.astimezone(UTC)


def _is_on(schedule: ScheduleRow, day: datetime) -> bool:
    match schedule.every:
        case "day":
            return True
        case "week":
            return day.weekday() == 0
        case "month":
            return day.day == 1


def _remove_others(folder: Path, known: Set[Path]) -> None:
    """Remove the folders of dashboards that are not known."""
    for path in set(folder.glob("*/*")) - known:
        shutil.rmtree(path, ignore_errors=True)


def _place(html: str, path: Path) -> None:
    """Write a page to its path atomically."""
    make_folder(path.parent)
    write_whole(html, path)

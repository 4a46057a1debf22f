"""Scheduled snapshots: the server writes one every few hours and removes the oldest."""

import asyncio
import hashlib
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import structlog

from api.analytics.queries import AnalyticsQueries
from api.background import is_due, looking
from api.errors import ApiError
from api.local_files.atomic_files import writing_whole
from api.schemas.ids import TENANT
from api.schemas.timestamps import FILE_TIME_PATTERN, file_time, read_file_time
from api.settings import Settings
from runtime.state.ports import Clock
from store.interface.errors import StoreError
from store.interface.private_files import make_folder
from store.store import Store

FOLDER = "snapshots"
_NAME_CHARS_MAX = 150  # of a tenant; a file's name has its own bound
_TIME = re.compile(FILE_TIME_PATTERN)

log = structlog.get_logger()


def folder_of(settings: Settings) -> Path:
    """Return the folder of scheduled snapshots."""
    return settings.snapshot_folder or settings.data / FOLDER


class Snapshots:
    """The scheduled snapshots of all tenants.

    Files are named `cuebook-TIME.duckdb` for the default tenant, and `cuebook-TENANT-TIME.duckdb` for others.
    """

    def __init__(self, store: Store, analytics: AnalyticsQueries, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._analytics = analytics
        self._folder = folder_of(settings)
        self._every = timedelta(hours=settings.snapshot_every_h)
        self._keep = settings.snapshot_keep
        self._masked = settings.snapshot_masked
        self._storage_version = settings.snapshot_storage_version
        self._clock = clock
        self._making = asyncio.Lock()

    def running(self, leads: Callable[[], bool]) -> AbstractAsyncContextManager[None]:
        """Write snapshots inside the context, if the settings have an interval, while this server `leads`."""
        return looking(lambda: self.look(leads), "snapshots") if self._every else nullcontext()

    async def forget(self, tenant: str) -> None:
        """Remove the snapshots of a tenant, so that none contains erased data."""
        async with self._making:  # a snapshot in progress may still contain it
            self._remove(*self._of(tenant))

    async def look(self, leads: Callable[[], bool] = lambda: True) -> None:
        """Write the snapshots that are due, if this server `leads`; a failed one is tried again at the next call.

        Raises StoreError.
        """
        for tenant in await self._store.analytics.tenants() if leads() else ():
            async with self._making:
                if self._is_due(tenant):
                    try:
                        await self._make(tenant)
                    except (ApiError, StoreError, OSError) as error:
                        log.warning("a scheduled snapshot failed", tenant=tenant, problem=str(error))

    def _is_due(self, tenant: str) -> bool:
        existing = self._of(tenant)
        return is_due(_time_of(existing[-1]) if existing else None, self._clock(), self._every)

    async def _make(self, tenant: str) -> None:
        path = self._folder / f"{_stem(tenant)}{file_time(self._clock())}.duckdb"
        snapshot = self._analytics.snapshot(tenant, masked=self._masked, storage_version=self._storage_version)
        with await snapshot as copy:
            await asyncio.to_thread(_place, copy, path)
        self._remove(*self._of(tenant)[: -self._keep])
        log.info("snapshot written", tenant=tenant, bytes=path.stat().st_size)

    def _remove(self, *paths: Path) -> None:
        """Remove snapshots, and incomplete files of a killed process."""
        for path in (*paths, *self._folder.glob(".cuebook-*.duckdb.*")):
            path.unlink(missing_ok=True)

    def _of(self, tenant: str) -> list[Path]:
        """Return the snapshots of a tenant, oldest first; those of a clock that was ahead come before them."""
        stem, now = _stem(tenant), self._clock()
        found = [path for path in self._folder.glob("cuebook-*.duckdb") if path.stem.startswith(stem)]
        of_tenant = [path for path in found if _TIME.fullmatch(path.stem.removeprefix(stem))]
        return sorted(of_tenant, key=lambda path: (_time_of(path) <= now, path))


def _time_of(path: Path) -> datetime:
    return read_file_time(_TIME.findall(path.stem)[-1])


def _stem(tenant: str) -> str:
    if tenant == TENANT:
        return "cuebook-"
    name = quote(tenant, safe="")
    if len(name) > _NAME_CHARS_MAX:
        name = hashlib.sha256(tenant.encode()).hexdigest()
    return f"cuebook-{name}-"


def _place(copy: BinaryIO, path: Path) -> None:
    """Write a copy to its path atomically."""
    make_folder(path.parent)
    with writing_whole(path) as target:
        shutil.copyfileobj(copy, target, 1 << 20)

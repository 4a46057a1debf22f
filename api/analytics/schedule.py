"""Snapshots that the server makes by itself, every so many hours; the oldest go."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import structlog

from api.analytics.asking import Analytics
from api.caller import TENANT
from api.errors import ApiError
from api.settings import Settings
from runtime.ports import Clock
from store.errors import StoreError
from store.record import Record
from store.syncing import sync

FOLDER = "snapshots"
LOOK_S = 60.0  # between two looks whether one is due
_FORM = "%Y-%m-%dT%H%M%SZ"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z")

log = structlog.get_logger()


def folder_of(settings: Settings) -> Path:
    """Where scheduled snapshots lie."""
    return settings.snapshot_folder or settings.data / FOLDER


class Snapshots:
    """The scheduled snapshots of all tenants: `cuebook-TIME.duckdb`, of other tenants than the default one
    `cuebook-TENANT-TIME.duckdb`.
    """

    def __init__(self, record: Record, analytics: Analytics, settings: Settings, clock: Clock) -> None:
        self._record = record
        self._analytics = analytics
        self._folder = folder_of(settings)
        self._every = timedelta(hours=settings.snapshot_every_h)
        self._keep = settings.snapshot_keep
        self._masked = settings.snapshot_masked
        self._clock = clock

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Makes them meanwhile, where the settings say how often."""
        if not self._every:
            yield
            return
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def forget(self, tenant: str) -> None:
        """Remove those of a tenant: what was erased from the record is in none of them afterwards."""
        for path in self._of(tenant):
            path.unlink(missing_ok=True)

    async def _run(self) -> None:
        while True:
            try:
                for tenant in await self._record.analytics.tenants():
                    if self._is_due(tenant):
                        await self._make(tenant)
            except (ApiError, StoreError, OSError) as error:  # tried again at the next look
                log.warning("no scheduled snapshot", problem=str(error))
            await asyncio.sleep(LOOK_S)

    def _is_due(self, tenant: str) -> bool:
        made = self._of(tenant)
        return not made or self._clock() - _time_of(made[-1]) >= self._every

    async def _make(self, tenant: str) -> None:
        now = self._clock().astimezone(UTC)
        path = self._folder / f"{_stem(tenant)}{now.strftime(_FORM)}.duckdb"
        async with self._analytics.snapshot(tenant, masked=self._masked) as copy:
            await asyncio.to_thread(_place, copy, path)
        for old in self._of(tenant)[: -self._keep]:
            old.unlink(missing_ok=True)
        log.info("snapshot made", tenant=tenant, bytes=path.stat().st_size)

    def _of(self, tenant: str) -> list[Path]:
        """Those of a tenant, the oldest first."""
        stem = _stem(tenant)
        found = [path for path in self._folder.glob("cuebook-*.duckdb") if path.stem.startswith(stem)]
        return sorted(path for path in found if _TIME.fullmatch(path.stem.removeprefix(stem)))


def _stem(tenant: str) -> str:
    return "cuebook-" if tenant == TENANT else f"cuebook-{quote(tenant, safe='')[:150]}-"


def _time_of(path: Path) -> datetime:
    return datetime.strptime(_TIME.findall(path.stem)[-1], _FORM).replace(tzinfo=UTC)


def _place(copy: Path, path: Path) -> None:
    """Move a copy to where it stays, whole or not at all; across disks it is copied first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}")
    with copy.open("rb") as source, fresh.open("wb") as target:
        while piece := source.read(1 << 20):
            target.write(piece)
        target.flush()
        os.fsync(target.fileno())
    fresh.replace(path)
    sync(path.parent)

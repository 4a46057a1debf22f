"""Snapshots that the server makes by itself, every so many hours; the oldest go."""

import asyncio
import hashlib
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import structlog

from api.analytics.asking import Analytics
from api.caller import TENANT
from api.errors import ApiError
from api.files import writing_whole
from api.settings import Settings
from runtime.ports import Clock
from store.errors import StoreError
from store.record import Record

FOLDER = "snapshots"
LOOK_S = 60.0  # between two looks whether one is due
_FORM = "%Y-%m-%dT%H%M%SZ"
_NAME_CHARS_MAX = 150  # of a tenant; a file's name has its own bound
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
        self._storage_version = settings.snapshot_storage_version
        self._clock = clock
        self._making = asyncio.Lock()

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
        async with self._making:  # one that is under way may have it still
            self._remove(*self._of(tenant))

    async def look(self) -> None:
        """Make those that are due; one that cannot be made is tried again at the next look. Raises StoreError."""
        for tenant in await self._record.analytics.tenants():
            async with self._making:
                if self._is_due(tenant):
                    try:
                        await self._make(tenant)
                    except (ApiError, StoreError, OSError) as error:
                        log.warning("no scheduled snapshot", tenant=tenant, problem=str(error))

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except StoreError as error:
                log.warning("no scheduled snapshots", problem=str(error))
            await asyncio.sleep(LOOK_S)

    def _is_due(self, tenant: str) -> bool:
        made = self._of(tenant)
        return not made or self._clock() - _time_of(made[-1]) >= self._every

    async def _make(self, tenant: str) -> None:
        now = self._clock().astimezone(UTC)
        path = self._folder / f"{_stem(tenant)}{now.strftime(_FORM)}.duckdb"
        snapshot = self._analytics.snapshot(tenant, masked=self._masked, storage_version=self._storage_version)
        with await snapshot as copy:
            await asyncio.to_thread(_place, copy, path)
        self._remove(*self._of(tenant)[: -self._keep])
        log.info("snapshot made", tenant=tenant, bytes=path.stat().st_size)

    def _remove(self, *paths: Path) -> None:
        """Remove some, and what a process that was killed has left half written."""
        for path in (*paths, *self._folder.glob(".cuebook-*.duckdb.*")):
            path.unlink(missing_ok=True)

    def _of(self, tenant: str) -> list[Path]:
        """Those of a tenant, the oldest first."""
        stem = _stem(tenant)
        found = [path for path in self._folder.glob("cuebook-*.duckdb") if path.stem.startswith(stem)]
        return sorted(path for path in found if _TIME.fullmatch(path.stem.removeprefix(stem)))


def _stem(tenant: str) -> str:
    if tenant == TENANT:
        return "cuebook-"
    name = quote(tenant, safe="")
    if len(name) > _NAME_CHARS_MAX:
        name = hashlib.sha256(tenant.encode()).hexdigest()
    return f"cuebook-{name}-"


def _time_of(path: Path) -> datetime:
    return datetime.strptime(_TIME.findall(path.stem)[-1], _FORM).replace(tzinfo=UTC)


def _place(copy: BinaryIO, path: Path) -> None:
    """Write a copy to where it stays, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with writing_whole(path) as target:
        shutil.copyfileobj(copy, target, 1 << 20)

"""Backups: folders with a copy of the database and the secrets that belong to it, on request and by schedule."""

import asyncio
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import UTC, timedelta
from importlib.metadata import version
from pathlib import Path

import msgspec
import structlog

from api.analytics.pseudonyms import FILE_NAME as PSEUDONYM_KEY
from api.background import is_due, looking
from api.errors import ApiError
from api.notifications.web_push import KEY_FILE as WEB_PUSH_KEY
from api.schemas.operations import BackupView
from api.schemas.timestamps import FILE_TIME_PATTERN, file_time
from api.settings import Settings
from api.webhooks.signing import KEY_FILE as WEBHOOK_KEY
from runtime.state.ports import Clock
from store.interface.errors import BackupFailed, BackupRunning, StoreUnavailable
from store.interface.maintenance_rows import RunningCopy
from store.interface.private_files import FILE_NAME, make_folder, sync
from store.store import Store

FOLDER = "backups"
SECRETS = (WEBHOOK_KEY, PSEUDONYM_KEY, WEB_PUSH_KEY)
"""Key files that a backup contains besides the database; participants get new tokens without theirs."""
ABOUT = "backup.json"
_NAME = re.compile(FILE_TIME_PATTERN)
_PARTIAL = ".partial"

log = structlog.get_logger()


def folder_of(settings: Settings) -> Path:
    """Return the folder of the backups."""
    return settings.backup_folder or settings.data / FOLDER


def backups_in(folder: Path) -> Iterator[BackupView]:
    """Yield the backups in a folder, the newest first; those that are not complete or not readable are left out."""
    for path in sorted(folder.glob("*"), reverse=True):
        if _NAME.fullmatch(path.name) and (path / FILE_NAME).is_file():
            try:
                yield msgspec.json.decode((path / ABOUT).read_bytes(), type=BackupView)
            except (OSError, msgspec.MsgspecError) as error:
                log.warning("a backup cannot be read", path=str(path), problem=str(error))


class Backups:
    """The backups of a server. One is written at a time; the oldest are deleted."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._keys = settings.keys_in
        self.folder = folder_of(settings)
        self._every = timedelta(hours=settings.backup_every_h)
        self._keep = settings.backup_keep
        self._clock = clock
        self._writing = asyncio.Lock()

    @property
    def progress(self) -> RunningCopy | None:
        """The backup that is being written, if there is one."""
        return self._store.maintenance.backup

    def running(self) -> AbstractAsyncContextManager[None]:
        """Write backups inside the context, if the settings have an interval."""
        return looking(self.look, "backups") if self._every else nullcontext()

    async def all(self) -> list[BackupView]:
        """Return the complete backups, the newest first."""
        return await asyncio.to_thread(lambda: list(backups_in(self.folder)))

    async def create(self) -> BackupView:
        """Write a backup, and delete the oldest ones. Raises StoreError."""
        if self._writing.locked():
            raise BackupRunning("a backup of the database is being written")
        async with self._writing:
            return await self._create()

    async def _create(self) -> BackupView:
        now = self._clock().astimezone(UTC).replace(microsecond=0)
        place = self.folder / file_time(now)
        partial = self.folder / f".{place.name}{_PARTIAL}"
        is_new = not self.folder.exists()
        try:
            await asyncio.to_thread(self._prepare, partial, place)
            size = await self._store.maintenance.back_up(partial)
            backup = BackupView(backup_id=place.name, created_at=now, bytes=size, version=version("cuebook"))
            await asyncio.to_thread(self._finish, backup, partial, place)
        except OSError as error:
            raise BackupFailed(f"the backup in {self.folder} could not be written: {error.strerror}") from error
        except StoreUnavailable as error:
            if type(error) is not StoreUnavailable:  # the database itself cannot be used
                raise
            raise BackupFailed(f"the backup in {self.folder} could not be written: {error}") from error
        finally:
            if self.progress is None:  # else it goes on, because only the caller was cancelled
                await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
                if is_new:
                    with suppress(OSError):  # it is not empty, because the backup was written
                        self.folder.rmdir()
        log.info("backup written", path=str(place), bytes=size)
        return backup

    async def delete(self, backup_id: str) -> None:
        """Delete a backup. Raises ApiError BACKUP_NOT_FOUND."""
        place = self.folder / backup_id
        if not _NAME.fullmatch(backup_id) or not place.is_dir():
            raise ApiError("BACKUP_NOT_FOUND", f"there is no backup {backup_id}")
        await asyncio.to_thread(_remove, place)

    async def look(self) -> None:
        """Write a backup if one is due; one that fails is tried again at the next call. Raises StoreError."""
        newest = next(iter(await asyncio.to_thread(self._by_age)), None)
        if is_due(newest.created_at if newest is not None else None, self._clock(), self._every):
            await self.create()

    def _by_age(self) -> list[BackupView]:
        """Return the backups, the newest first; those of a clock that was ahead are the last, whatever their age."""
        now = self._clock()
        return sorted(backups_in(self.folder), key=lambda each: each.created_at > now)

    def _prepare(self, partial: Path, place: Path) -> None:
        """Create the folder of a backup, and delete those that a killed process left."""
        make_folder(self.folder)
        if place.exists():
            raise BackupRunning("a backup was begun in this second already; begin another one later")
        if self.progress is None:
            for leftover in self.folder.glob(f".*{_PARTIAL}"):
                shutil.rmtree(leftover, ignore_errors=True)
        make_folder(partial)

    def _finish(self, backup: BackupView, partial: Path, place: Path) -> None:
        """Add what belongs to the copy of the database, give the folder its name, and delete the oldest backups."""
        for name in SECRETS:
            if (self._keys / name).exists():
                shutil.copyfile(self._keys / name, partial / name)
        (partial / ABOUT).write_bytes(msgspec.json.format(msgspec.json.encode(backup)))
        for path in partial.iterdir():
            path.chmod(0o600)
            sync(path)
        sync(partial)
        partial.rename(place)
        sync(self.folder)
        for old in self._by_age()[self._keep :]:
            _remove(self.folder / old.backup_id)


def _remove(place: Path) -> None:
    """Delete a backup; one that is being deleted is not listed any more."""
    leaving = place.with_name(f".{place.name}{_PARTIAL}")
    place.rename(leaving)
    shutil.rmtree(leaving)

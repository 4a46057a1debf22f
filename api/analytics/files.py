"""The analytics files of all tenants, which are refreshed from the database before they are read.

The store writes the changes (a delta) to a folder; a worker process applies it to the file. While the file has readers,
further readers use its current data if that is recent enough for them; otherwise they wait for the refresh.
"""

import asyncio
import hashlib
import math
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from api.analytics.jobs import Finished, Refresh
from api.analytics.locks import FILE_NAME as LOCK
from api.analytics.locks import FolderLock, ReadersWriterLock
from api.analytics.outlines import outline_of
from api.analytics.process import Processes
from api.analytics.pseudonyms import salt_of
from api.background import cancel_all
from api.catalog.catalog import Catalog
from api.errors import ApiError
from api.metrics import Metrics
from api.schemas.analytics import MAX_AGE_DEFAULT_S
from scripts.model.script import Script
from store.analytics.delta import Delta
from store.analytics.file import ANALYTICS_FILES, COPY, Place
from store.analytics.outlines import OUTLINES, Outline
from store.analytics.refresh import Masking
from store.interface.errors import AnalyticsUnreadable, DatabaseUnreadable, FolderUnwritable, StoreBusy, write_failure
from store.interface.private_files import size_bytes
from store.store import Store

FOLDER = "analytics"
DELTA = "-delta-"
PARTS = "-parts-"
_TEMPORARY = (DELTA, PARTS, COPY)  # parts of the names of temporary files
REFRESH_S = 300.0  # time limit of one delta
WAIT_S = 20.0  # wait of a request for a refresh, which continues afterwards
ENTER_S = 90.0  # wait for other readers and refreshes
RENEW = timedelta(hours=1)  # after this time a file without changes gets a new time too
SHARE = 10  # the store spends at most one tenth of its time on deltas
_REMOVED = "the analytics file was removed in the meantime; try again"

log = structlog.get_logger()


class RefreshProgress(Struct, frozen=True):
    """Progress of a refresh: turns done, and in all."""

    done: int
    total: int


class _State:
    """The state of one file, of a tenant and masked or not, while the server runs."""

    def __init__(self, tenant: str, masked: bool, place: Place) -> None:
        self.tenant, self.masked, self.place = tenant, masked, place
        self.readers = ReadersWriterLock()
        self.progress: RefreshProgress | None = None
        self.task: asyncio.Task[None] | None = None
        self.forget()

    def forget(self) -> None:
        """Note that the file is to be refreshed before it is read."""
        self.has_units = False  # whether the last refresh included memory units
        self.next_look = 0.0
        self.looked_at = -math.inf  # last time that it equalled the database; monotonic clock
        self.as_of: datetime | None = None  # the same time as UTC

    @property
    def is_refreshing(self) -> bool:
        """Return whether a refresh is running."""
        return self.task is not None and not self.task.done()


class AnalyticsFiles:
    """The analytics files of all tenants, masked and unmasked."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        processes: Processes,
        data: Path,
        metrics: Metrics,
        keys: Path | None = None,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._processes = processes
        self._keys = keys or data
        self._metrics = metrics
        self._folder = data.absolute() / FOLDER
        self._lock = FolderLock(self._folder)
        self._states: dict[tuple[str, bool], _State] = {}

    @asynccontextmanager
    async def reading(
        self, tenant: str, *, masked: bool, units: bool = False, max_age_s: float = MAX_AGE_DEFAULT_S
    ) -> AsyncIterator[Place]:
        """Yield a file with data at most `max_age_s` old, refreshed if needed; it does not change inside the context.

        `units` requires the memory units. Raises ApiError ANALYTICS_NOT_READY during a long refresh, StoreBusy,
        FolderUnwritable.
        """
        state = self._state(tenant, masked=masked)
        since = time.monotonic() - max_age_s
        async with self._lock.hold(ENTER_S):
            async with state.readers.exclusive_entry(ENTER_S):
                if not self._may_stay(state, since, units=units):
                    await state.readers.wait_empty(ENTER_S)
                    await self._refresh_or_wait(state, since, units=units)
                if state.place.as_of() is None:
                    raise StoreBusy(_REMOVED)
                state.readers.enter()
            try:
                yield state.place
            except (DatabaseUnreadable, FileNotFoundError) as error:  # it was removed before it was opened
                if state.place.as_of() is None:
                    raise StoreBusy(_REMOVED) from error
                raise
            finally:
                state.readers.leave()

    def refresh_progress(self, tenant: str, *, masked: bool) -> RefreshProgress | None:
        """Return the progress of a running refresh, or None."""
        return self._state(tenant, masked=masked).progress

    def as_of(self, tenant: str, *, masked: bool) -> datetime | None:
        """Return the time of the data in a file, or None if there is no file."""
        state = self._state(tenant, masked=masked)
        in_file = state.place.as_of()
        return in_file if in_file is None or state.as_of is None else max(in_file, state.as_of)

    async def forget(self, tenant: str | None = None) -> None:
        """Remove the files of a tenant, or of all tenants, so that no file contains erased data.

        Running queries fail, or continue on the unlinked file.
        """
        await cancel_all(*(state.task for state in self._states_of(tenant) if state.task is not None))
        await asyncio.to_thread(self._remove, "" if tenant is None else _stem(tenant))
        for state in self._states_of(tenant):
            state.forget()

    def _states_of(self, tenant: str | None) -> list[_State]:
        return [state for state in self._states.values() if tenant in {None, state.tenant}]

    async def tidy(self) -> None:
        """Remove the temporary files of a killed process; no other process may have the database open."""
        for part in _TEMPORARY:
            await asyncio.to_thread(self._remove, f"*{part}")

    def size_bytes(self) -> int:
        """Return the size of all files on the disk."""
        return size_bytes(self._folder, "*.duckdb")

    async def close(self) -> None:
        """Cancel running refreshes."""
        await cancel_all(*(state.task for state in self._states_of(None) if state.task is not None))

    def _remove(self, begin: str) -> None:
        """Remove all files and folders whose names begin with `begin`."""
        for path in self._folder.glob(f"{begin}*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink(missing_ok=True)

    def _state(self, tenant: str, *, masked: bool) -> _State:
        known = self._states.get((tenant, masked))
        if known is None:
            name = f"{_stem(tenant)}-{'masked' if masked else 'full'}.duckdb"
            known = self._states[tenant, masked] = _State(tenant, masked, Place(self._folder / name))
        return known

    def _may_stay(self, state: _State, since: float, *, units: bool) -> bool:
        """Return whether a file can be read without a refresh.

        It must have equalled the database at or after `since`, and either have readers or the next delta is not due.
        """
        if state.is_refreshing or (units and not state.has_units) or state.place.read_known().sessions is None:
            return False
        return state.looked_at >= since and (state.readers.has_readers or time.monotonic() < state.next_look)

    async def _refresh_or_wait(self, state: _State, since: float, *, units: bool) -> None:
        """Start a refresh, or wait for a running one, which continues if no request waits any more."""
        await self._await_refresh(state, units=units)
        if state.looked_at < since or (units and not state.has_units):  # it had begun before
            await self._await_refresh(state, units=units)

    async def _await_refresh(self, state: _State, *, units: bool) -> None:
        if state.task is None or state.task.done():
            state.task = asyncio.create_task(self._refresh_all(state, units=units))
        task = state.task
        done, _ = await asyncio.wait({task}, timeout=WAIT_S)
        if not done:
            at = state.progress or RefreshProgress(0, 0)
            progress = f": {at.done:,} of {at.total:,} turns are done" if at.total else ""
            raise ApiError(
                "ANALYTICS_NOT_READY",
                f"the analytics tables are being built from the database{progress}; try again later",
                context={"turns": at.done, "of": at.total},
                retry_after_s=1,
            )
        if task.cancelled():
            raise StoreBusy(_REMOVED)
        try:
            task.result()
        except OSError as error:
            raise write_failure(error, ANALYTICS_FILES, FolderUnwritable(self._folder, error)) from error

    async def _refresh_all(self, state: _State, *, units: bool) -> None:
        """Apply deltas until none is left; rebuild a damaged file. Raises StoreError."""
        masking = Masking(state.masked, await asyncio.to_thread(salt_of, self._keys, state.tenant))
        done, is_rebuilt = 0, False
        state.has_units = False
        async with self._lock.hold(ENTER_S):
            # left by a killed command: under the lock no other process refreshes this file
            await asyncio.to_thread(self._remove, f"{state.place.path.stem}{DELTA}")
            if not state.place.has_salt(masking.salt):  # the secret was lost: a user would have two pseudonyms
                state.place.remove()
            try:
                while True:
                    started = time.monotonic()
                    try:
                        delta = await self._refresh(state, masking, done, units=units)
                    except AnalyticsUnreadable as error:
                        if is_rebuilt:
                            raise
                        log.warning("rebuilding an analytics file", problem=str(error))
                        state.place.remove()
                        done, is_rebuilt = 0, True
                        continue
                    done += delta.turns
                    state.progress = RefreshProgress(done, done + delta.left)
                    if not delta.left:
                        state.has_units, state.looked_at, state.as_of = units, started, delta.as_of
                        return
            finally:
                state.progress = None

    async def _refresh(self, state: _State, masking: Masking, done: int, *, units: bool) -> Delta:
        """Apply one delta; `done` turns were applied before."""
        async with folder_beside(state.place, DELTA) as folder:
            known, started = state.place.read_known(), time.monotonic()
            delta = await self._store.analytics.delta(state.tenant, folder, known, units=units)
            took = time.monotonic() - started
            state.progress = RefreshProgress(done, done + delta.turns + delta.left)
            state.next_look = time.monotonic() + took * (SHARE - 1)
            is_old = delta.as_of - (state.place.as_of() or delta.as_of) > RENEW
            if known.sessions is None or is_old or not delta.is_empty(known):
                outlines = await self._outlines(state.tenant, delta.digests)
                await asyncio.to_thread((folder / OUTLINES).write_bytes, msgspec.json.encode(outlines))
                await self._processes.run(
                    Refresh(str(state.place.path), str(folder), masking), Finished, timeout_s=REFRESH_S
                )
                self._metrics.refresh_seconds.inc(time.monotonic() - started)
            return delta

    async def _outlines(self, tenant: str, digests: list[str]) -> Outline:
        scripts: dict[str, Script | None] = {}
        for digest in digests:
            try:
                scripts[digest] = (await self._catalog.program(tenant, digest)).script
            except ApiError:  # this version of Cuebook cannot read it, or it was deleted
                scripts[digest] = None
        return outline_of(scripts.items())


@asynccontextmanager
async def folder_beside(place: Place, kind: str = PARTS) -> AsyncIterator[Path]:
    """Create a temporary folder in the folder of the file."""
    prefix = f"{place.path.stem}{kind}"
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=prefix, dir=place.path.parent))
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _stem(tenant: str) -> str:
    """Return the base name of a tenant's files: a hash, because a tenant's name may contain any character."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:24]

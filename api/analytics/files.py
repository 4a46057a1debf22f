"""The analytics files of all tenants: brought up to date from the record before somebody reads them.

The record writes what changed into a folder; a process of its own takes that into the file. Where readers are in it,
others read what it shows already, as long as that is no older than they want; else they wait until it was brought up to
date.
"""

import asyncio
import hashlib
import math
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from api.analytics.gate import Gate
from api.analytics.jobs import Bring, Brought
from api.analytics.lock import FILE_NAME as LOCK
from api.analytics.lock import FolderLock
from api.analytics.outlines import joined, outline, unreadable
from api.analytics.process import Processes
from api.analytics.pseudonyms import salt_of
from api.catalogue import Catalogue
from api.errors import ApiError
from api.metrics import Metrics
from api.schemas.analytics import MAX_AGE_DEFAULT_S
from store.analytics.bringing import Masking
from store.analytics.delta import Delta
from store.analytics.file import COPY, Place
from store.analytics.outlines import OUTLINES, Outline
from store.errors import AnalyticsUnreadable, StoreBusy
from store.record import Record

FOLDER = "analytics"
DELTA = "-delta-"
PARTS = "-parts-"
_UNDER_WAY = (DELTA, PARTS, COPY)  # in the names of what is gone again soon
BRING_S = 300.0  # for one delta
WAIT_S = 20.0  # for a file that is being made; it goes on being made
ENTER_S = 90.0  # for others who bring it up to date or read it
RENEW = timedelta(hours=1)  # after which a file of which nothing has changed tells a later moment all the same
SHARE = 10  # of the time the record spends on deltas it spends nine times as much without them


log = structlog.get_logger()


class Making(Struct, frozen=True):
    """How far a file is that is being made or brought up to date: turns, of how many."""

    done: int
    total: int


class _State:
    """What is known of one file while the server runs."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.gate = Gate()
        self.has_units = False  # and those of its last bringing up to date
        self.next_look = 0.0
        self.looked_at = -math.inf  # when it was last found, or made, the same as the record; the clock is monotonic
        self.as_of: datetime | None = None  # the moment of the record that this was
        self.making: Making | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def is_brought(self) -> bool:
        """Whether it is being made or brought up to date just now."""
        return self.task is not None and not self.task.done()


class AnalyticsFiles:
    """Those of all tenants, masked and not."""

    def __init__(
        self, record: Record, catalogue: Catalogue, processes: Processes, data: Path, metrics: Metrics
    ) -> None:
        self._record = record
        self._catalogue = catalogue
        self._processes = processes
        self._data = data
        self._metrics = metrics
        self._folder = data.absolute() / FOLDER
        self._lock = FolderLock(self._folder)
        self._states: dict[tuple[str, bool], _State] = {}

    @asynccontextmanager
    async def reading(
        self,
        tenant: str,
        *,
        masked: bool,
        units: bool = False,
        whole: bool = False,
        max_age_s: float = MAX_AGE_DEFAULT_S,
    ) -> AsyncIterator[Place]:
        """The file, at most so many seconds behind the record, with `units` of memory only where they are asked for; it
        stays as it is meanwhile. Where it is to leave as a `whole`, it is made anew if anything was taken out of it.

        Raises ApiError ANALYTICS_NOT_READY while a file takes long to be made, StoreBusy, StoreUnavailable.
        """
        state = self._state(tenant, masked=masked)
        since = time.monotonic() - max_age_s
        async with self._lock.held(ENTER_S):
            async with state.gate.ahead(ENTER_S):
                is_worn = whole and state.place.is_worn()
                if is_worn or not self._may_stay(state, since, units=units):
                    await state.gate.empty(ENTER_S)
                    if is_worn and not state.is_brought:
                        state.place.remove()
                    await self._bring_or_wait(tenant, state, since, masked=masked, units=units)
                if state.place.as_of() is None:
                    raise StoreBusy("the analytics file was removed meanwhile")
                state.gate.enter()
            try:
                yield state.place
            finally:
                state.gate.leave()

    def making(self, tenant: str, *, masked: bool) -> Making | None:
        """How far a file is that is being made; null where none is."""
        return self._state(tenant, masked=masked).making

    def as_of(self, tenant: str, *, masked: bool) -> datetime | None:
        """The moment of the record that a file shows; null where there is none."""
        state = self._state(tenant, masked=masked)
        in_file = state.place.as_of()
        return in_file if in_file is None or state.as_of is None else max(in_file, state.as_of)

    async def drop(self, tenant: str | None = None) -> None:
        """Remove the files of a tenant, or of all: those that queries are in too, which then fail or go on unlinked.

        What was erased from the record is in no file afterwards.
        """
        for (whose, _), state in list(self._states.items()):
            if tenant in {None, whose} and state.task is not None:
                state.task.cancel()
                await asyncio.wait({state.task})
        await asyncio.to_thread(self._remove, "" if tenant is None else _stem(tenant))
        for (whose, _), state in self._states.items():
            if tenant in {None, whose}:
                state.next_look, state.has_units = 0.0, False
                state.looked_at, state.as_of = -math.inf, None

    async def tidy(self) -> None:
        """Remove what a process that was killed has left under way; nobody else may have the record open."""
        for part in _UNDER_WAY:
            await asyncio.to_thread(self._remove, f"*{part}")

    def size_bytes(self) -> int:
        """How much room they take on the disk."""
        sizes = 0
        for path in self._folder.glob("*.duckdb"):
            with suppress(FileNotFoundError):  # it is removed just now
                sizes += path.stat().st_size
        return sizes

    async def close(self) -> None:
        """Stop what is being made."""
        tasks = {state.task for state in self._states.values() if state.task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _remove(self, begin: str) -> None:
        """All whose names begin so."""
        for path in self._folder.glob(f"{begin}*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink(missing_ok=True)

    def _state(self, tenant: str, *, masked: bool) -> _State:
        known = self._states.get((tenant, masked))
        if known is None:
            name = f"{_stem(tenant)}-{'masked' if masked else 'full'}.duckdb"
            known = self._states[tenant, masked] = _State(Place(self._folder / name))
        return known

    def _may_stay(self, state: _State, since: float, *, units: bool) -> bool:
        """Whether a file is read as it is, without looking for what is new: it was the same as the record `since`,
        and somebody reads it, or the record has spent its share of time.
        """
        if state.is_brought or (units and not state.has_units) or state.place.known().sessions is None:
            return False
        return state.looked_at >= since and (state.gate.has_readers or time.monotonic() < state.next_look)

    async def _bring_or_wait(self, tenant: str, state: _State, since: float, *, masked: bool, units: bool) -> None:
        """Bring the file up to date, or wait for what does so already; it goes on when nobody waits any more."""
        is_joined = state.is_brought
        await self._brought(tenant, state, masked=masked, units=units)
        if is_joined and (state.looked_at < since or (units and not state.has_units)):  # it was under way before
            await self._brought(tenant, state, masked=masked, units=units)

    async def _brought(self, tenant: str, state: _State, *, masked: bool, units: bool) -> None:
        if state.task is None or state.task.done():
            state.task = asyncio.create_task(self._bring_all(tenant, state, masked=masked, units=units))
        task = state.task
        done, _ = await asyncio.wait({task}, timeout=WAIT_S)
        if not done:
            at = state.making or Making(0, 0)
            far = f": {at.done:,} of {at.total:,} turns are in" if at.total else ""
            raise ApiError(
                "ANALYTICS_NOT_READY",
                f"the analytics are being made from the record{far}; ask again",
                details={"turns": at.done, "of": at.total},
                retry_after_s=1,
            )
        if task.cancelled():
            raise StoreBusy("the analytics file was removed meanwhile")
        task.result()

    async def _bring_all(self, tenant: str, state: _State, *, masked: bool, units: bool) -> None:
        """Take deltas until there is nothing left to take; a damaged file is made anew. Raises StoreError."""
        masking = Masking(masked, await asyncio.to_thread(salt_of, self._data, tenant))
        done, is_anew = 0, False
        state.has_units = False
        async with self._lock.held(ENTER_S):
            # what a command that was killed has left: nobody else brings this file now
            await asyncio.to_thread(self._remove, f"{state.place.path.stem}{DELTA}")
            if not state.place.has_salt(masking.salt):  # the secret was lost: a user would have two names
                state.place.remove()
            try:
                while True:
                    began = time.monotonic()
                    try:
                        delta = await self._bring(tenant, state, masking, done, units=units)
                    except AnalyticsUnreadable as error:
                        if is_anew:
                            raise
                        log.warning("an analytics file is made anew", problem=str(error))
                        state.place.remove()
                        done, is_anew = 0, True
                        continue
                    done += delta.turns
                    state.making = Making(done, done + delta.left)
                    if not delta.left:
                        state.has_units, state.looked_at, state.as_of = units, began, delta.as_of
                        return
            finally:
                state.making = None

    async def _bring(self, tenant: str, state: _State, masking: Masking, done: int, *, units: bool) -> Delta:
        """Take one delta, after so many turns."""
        prefix = f"{state.place.path.stem}{DELTA}"
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=prefix, dir=self._folder))
        try:
            known, began = state.place.known(), time.monotonic()
            delta = await self._record.analytics.delta(tenant, folder, known, units=units)
            took = time.monotonic() - began
            state.making = Making(done, done + delta.turns + delta.left)
            state.next_look = time.monotonic() + took * (SHARE - 1)
            is_old = delta.as_of - (state.place.as_of() or delta.as_of) > RENEW
            if known.sessions is None or is_old or not delta.is_empty(known):
                outlines = await self._outlines(tenant, delta.digests)
                await asyncio.to_thread((folder / OUTLINES).write_bytes, msgspec.json.encode(outlines))
                await self._processes.run(
                    Bring(str(state.place.path), str(folder), masking), Brought, timeout_s=BRING_S
                )
                self._metrics.count_bringing(time.monotonic() - began)
            return delta
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _outlines(self, tenant: str, digests: list[str]) -> Outline:
        found = []
        for digest in digests:
            try:
                program = await self._catalogue.program(tenant, digest)
            except ApiError:  # this version of the program cannot read it, or it is gone
                found.append(unreadable(digest))
            else:
                found.append(outline(digest, program.script))
        return joined(found)


@asynccontextmanager
async def folder_beside(place: Place) -> AsyncIterator[Path]:
    """A folder beside the file, gone again afterwards."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=f"{place.path.stem}{PARTS}", dir=place.path.parent))
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _stem(tenant: str) -> str:
    """The name of a tenant's files: a tenant may be called anything."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:24]

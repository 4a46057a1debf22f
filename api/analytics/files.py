"""The analytics files of all tenants: brought up to date from the record before somebody reads them.

The record writes what changed into a folder; a process of its own takes that into the file. Where readers are in it,
others read what it shows already, for at most a minute; then those who come wait until it was brought up to date.
"""

import asyncio
import hashlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from api.analytics.gate import Gate
from api.analytics.jobs import Bring, Brought
from api.analytics.outlines import joined, outline, unreadable
from api.analytics.process import Processes
from api.analytics.pseudonyms import salt_of
from api.catalogue import Catalogue
from api.errors import ApiError
from store.analytics.bringing import Masking
from store.analytics.delta import Delta
from store.analytics.file import Place
from store.analytics.outlines import OUTLINES, Outline
from store.errors import AnalyticsUnreadable, StoreError
from store.record import Record

FOLDER = "analytics"
COPY = "snapshot-"
DELTA = "delta-"
PARTS = "parts-"
_UNDER_WAY = (DELTA, COPY, PARTS)  # begin the names of what is gone again soon
BRING_S = 300.0  # for one delta
WAIT_S = 20.0  # for a file that is being made; it goes on being made
ENTER_S = 90.0  # for others who bring it up to date or read it
STALE_S = 60.0  # how old what readers see may get because of other readers
SHARE = 10  # of the time the record spends on deltas it spends nine times as much without them


class Making(Struct, frozen=True):
    """How far a file is that is being made or brought up to date: turns, of how many."""

    done: int
    total: int


class _State:
    """What is known of one file while the server runs."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.gate = Gate()
        self.has_units = False
        self.next_look = 0.0
        self.making: Making | None = None
        self.task: asyncio.Task[None] | None = None


class AnalyticsFiles:
    """Those of all tenants, masked and not."""

    def __init__(self, record: Record, catalogue: Catalogue, processes: Processes, data: Path) -> None:
        self._record = record
        self._catalogue = catalogue
        self._processes = processes
        self._data = data
        self._folder = data.absolute() / FOLDER
        self._states: dict[tuple[str, bool], _State] = {}

    @asynccontextmanager
    async def reading(self, tenant: str, *, masked: bool, units: bool = False) -> AsyncIterator[Place]:
        """The file, as up to date as it can be, with `units` of memory only where they are asked for; it stays as it is
        meanwhile.

        Raises ApiError ANALYTICS_NOT_READY while a file takes long to be made, StoreBusy, StoreUnavailable.
        """
        state = self._state(tenant, masked=masked)
        async with state.gate.ahead(ENTER_S):
            if not self._may_stay(state, units=units):
                await state.gate.empty(ENTER_S)
                await self._bring_or_wait(tenant, state, masked=masked, units=units)
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
        return self._state(tenant, masked=masked).place.as_of()

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

    async def tidy(self) -> None:
        """Remove what a process that was killed has left under way; nobody else may have the record open."""
        await asyncio.to_thread(self._remove, *_UNDER_WAY)

    async def close(self) -> None:
        """Stop what is being made."""
        tasks = {state.task for state in self._states.values() if state.task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _remove(self, *stems: str) -> None:
        for stem in stems:
            for path in self._folder.glob(f"{stem}*"):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def _state(self, tenant: str, *, masked: bool) -> _State:
        known = self._states.get((tenant, masked))
        if known is None:
            name = f"{_stem(tenant)}-{'masked' if masked else 'full'}.duckdb"
            known = self._states[tenant, masked] = _State(Place(self._folder / name))
        return known

    def _may_stay(self, state: _State, *, units: bool) -> bool:
        """Whether a file is read as it is, without looking for what is new."""
        if (units and not state.has_units) or state.place.known().sessions is None:
            return False
        now = time.monotonic()
        if state.gate.has_readers:
            return now < state.next_look + STALE_S
        return now < state.next_look

    async def _bring_or_wait(self, tenant: str, state: _State, *, masked: bool, units: bool) -> None:
        """Bring the file up to date, or wait for what does so already; it goes on when nobody waits any more."""
        if state.task is None or state.task.done():
            state.task = asyncio.create_task(self._bring_all(tenant, state, masked=masked, units=units))
        done, _ = await asyncio.wait({state.task}, timeout=WAIT_S)
        if not done:
            at = state.making or Making(0, 0)
            raise ApiError(
                "ANALYTICS_NOT_READY",
                "the analytics are being made from the record; ask again",
                details={"turns": at.done, "of": at.total},
                retry_after_s=1,
            )
        await state.task

    async def _bring_all(self, tenant: str, state: _State, *, masked: bool, units: bool) -> None:
        """Take deltas until there is nothing left to take. Raises StoreError."""
        masking = Masking(masked, await asyncio.to_thread(salt_of, self._data, tenant))
        self._folder.mkdir(mode=0o700, exist_ok=True)
        try:
            done = 0
            while True:
                try:
                    delta = await self._bring(tenant, state, masking, units=units)
                except AnalyticsUnreadable:
                    if state.place.known().sessions is None:
                        raise
                    state.place.remove()  # damaged: it is made anew
                    continue
                done += delta.turns
                state.making = Making(done, done + delta.left)
                if not delta.left:
                    state.has_units = state.has_units or units
                    return
        finally:
            state.making = None

    async def _bring(self, tenant: str, state: _State, masking: Masking, *, units: bool) -> Delta:
        """Take one delta."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=DELTA, dir=self._folder))
        try:
            known, began = state.place.known(), time.monotonic()
            delta = await self._record.analytics.delta(tenant, folder, known, units=units)
            took = time.monotonic() - began
            state.next_look = time.monotonic() + took * (SHARE - 1)
            if known.sessions is None or not delta.is_empty(known):
                outlines = await self._outlines(tenant, delta.digests)
                await asyncio.to_thread((folder / OUTLINES).write_bytes, msgspec.json.encode(outlines))
                await self._processes.run(
                    Bring(str(state.place.path), str(folder), masking), Brought, timeout_s=BRING_S
                )
            return delta
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _outlines(self, tenant: str, digests: list[str]) -> Outline:
        found = []
        for digest in digests:
            try:
                program = await self._catalogue.program(tenant, digest)
            except (ApiError, StoreError):
                found.append(unreadable(digest))
            else:
                found.append(outline(digest, program.script))
        return joined(found)


def _stem(tenant: str) -> str:
    """The name of a tenant's files: a tenant may be called anything."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:24]

"""``cuebook serve --reload``: a script that changes in the scripts folder is published anew in the running server.

What cannot be run is reported, and its last good version stays. Sessions keep the version they began with.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from msgspec import Struct
from watchfiles import awatch

from api.caller import TENANT
from api.catalogue import Catalogue, Saved, second
from api.watched import touches
from scripts.diagnostics import Problem
from scripts.folder import read_path, script_files
from scripts.model import Script
from scripts.parse import Reading, is_script
from store.errors import StoreError

LOOK_MS = 200  # how often the end of the server is looked for while nothing changes
STEP_MS = 50  # changes that follow one another this fast count as one

log = structlog.get_logger()


class _Known(Struct, frozen=True):
    """A file of the folder that is meant to be a script; one that is broken has no `script_id`, but problems."""

    script_id: str
    files: frozenset[Path]  # it and its side files
    problems: tuple[Problem, ...] = ()


class Reloader:
    """Publishes what changes in a folder of scripts."""

    def __init__(self, catalogue: Catalogue, folder: Path, look_at: Callable[[Script], None]) -> None:
        self._catalogue = catalogue
        self._look_at = look_at
        self._folder = folder.resolve()
        self._shown = folder
        self._known: dict[Path, _Known] = {}

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watches as long as the context lasts; whatever changes after its beginning is handled once `started`."""
        self._started = asyncio.Event()
        watches, stop = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(self._watch(watches, stop))
        waiting = asyncio.create_task(watches.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            if task.done():
                await task  # raises what keeps it from watching
            yield
        finally:
            stop.set()
            self._started.set()
            await task

    def started(self, outcomes: Sequence[Saved | Reading]) -> None:
        """Takes note of what the folder held when it was published."""
        for outcome in outcomes:
            reading = outcome.reading if isinstance(outcome, Saved) else outcome
            script_id = outcome.row.script_id if isinstance(outcome, Saved) else ""
            path = self._resolved(reading)
            self._known[path] = _Known(script_id, _files(path, reading), reading.errors)
        self._started.set()

    async def _watch(self, watches: asyncio.Event, stop: asyncio.Event) -> None:
        async for changes in awatch(
            self._folder,
            step=STEP_MS,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
            stop_event=stop,
            ignore_permission_denied=True,
        ):
            watches.set()
            await self._started.wait()
            if changes:
                await self._reread(frozenset(Path(path) for _, path in changes))

    async def _reread(self, changed: frozenset[Path]) -> None:
        """Handles what a change touches: scripts whose files it names, new files, and the broken ones again."""
        there = await asyncio.to_thread(lambda: frozenset(script_files(self._folder)))
        for path in [path for path in self._known if path not in there]:
            gone = self._known.pop(path)
            if gone.script_id:
                log.warning(
                    "script removed", script=gone.script_id, file=str(self._named(path)), note="it stays published"
                )
        known = {path for path, known in self._known.items() if known.problems or touches(changed, known.files)}
        for path in sorted(known | {path for path in there if touches(changed, (path,))}):
            try:
                await self._publish(path)
            except StoreError as error:
                log.warning("script not published", file=str(self._named(path)), problem=str(error))

    async def _publish(self, path: Path) -> None:
        reading = await asyncio.to_thread(read_path, self._named(path))
        if reading.errors and reading.source.text and not is_script(reading.source):
            if self._known.pop(path, None) is not None:
                log.warning("no script any more", file=str(self._named(path)), note="it stays published")
            return
        before = self._known.get(path)
        files = _files(path, reading)
        script_id = reading.script.id if reading.script is not None else ""
        others = [other for other, known in self._known.items() if known.script_id == script_id and other != path]
        if reading.script is not None and others:
            reading = second(reading, script_id, str(self._named(others[0])))
        if reading.script is None:
            self._known[path] = _Known("", files, reading.errors)
            if before is None or before.problems != reading.errors:
                for problem in reading.errors:
                    log.warning("script not published", problem=str(problem), fix=problem.fix)
            return
        saved = await self._catalogue.publish(TENANT, reading, reading.script)
        self._known[path] = _Known(script_id, files)
        if saved.new:
            log.info("script published", script=script_id, version=saved.row.version, file=str(self._named(path)))
            self._look_at(reading.script)

    def _named(self, path: Path) -> Path:
        """A file as whoever started the server would name it."""
        return self._shown / path.relative_to(self._folder)

    def _resolved(self, reading: Reading) -> Path:
        return self._folder / Path(reading.source.file).relative_to(self._shown)


def _files(path: Path, reading: Reading) -> frozenset[Path]:
    return frozenset({path, *(path.parent / name for name in reading.source.side_files)})

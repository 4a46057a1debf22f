"""``cuebook serve --reload``: publishes a script of the scripts folder again when it changes.

A script that cannot be run is reported, and its last valid version stays published. Sessions keep their version.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence, Set
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from msgspec import Struct
from watchfiles import awatch

from api.background import wait_started
from api.catalog.catalog import Catalog, SavedScript, second
from api.schemas.ids import TENANT
from scripts.model.diagnostics import Problem
from scripts.model.script import Script
from scripts.parse.folder import read_path, script_files
from scripts.parse.read_script import Reading, is_script
from store.interface.errors import StoreError

LOOK_MS = 200  # interval at which the end of the server is checked
STEP_MS = 50  # changes within this time count as one

log = structlog.get_logger()


class _ScriptFile(Struct, frozen=True):
    """A file of the folder that should be a script; a broken one has no `script_id`, but problems."""

    script_id: str
    files: frozenset[Path]  # it and its include files
    problems: tuple[Problem, ...] = ()


class Reloader:
    """Publishes changed scripts of a folder."""

    def __init__(self, catalog: Catalog, folder: Path, look_at: Callable[[Script], None]) -> None:
        self._catalog = catalog
        self._look_at = look_at
        self._folder = folder.resolve()
        self._shown = folder
        self._scripts: dict[Path, _ScriptFile] = {}

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch while the context lasts; changes after its start are handled once `note_start` is called."""
        self._started = asyncio.Event()
        watches, stop = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(self._watch(watches, stop))
        try:
            await wait_started(task, watches)
            yield
        finally:
            stop.set()
            self._started.set()
            await task

    def note_start(self, outcomes: Sequence[SavedScript | Reading]) -> None:
        """Register the state of the folder when it was published."""
        for outcome in outcomes:
            reading = outcome.reading if isinstance(outcome, SavedScript) else outcome
            script_id = outcome.row.script_id if isinstance(outcome, SavedScript) else ""
            path = self._folder / Path(reading.source.file).relative_to(self._shown)
            self._scripts[path] = _ScriptFile(script_id, _files(path, reading), reading.errors)
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
        """Handle a change: scripts whose files it names, new files, and all broken scripts."""
        there = await asyncio.to_thread(lambda: frozenset(script_files(self._folder)))
        for path in [path for path in self._scripts if path not in there]:
            removed = self._scripts.pop(path)
            if removed.script_id:
                file = str(self._relative(path))
                log.warning("script removed", script=removed.script_id, file=file, note="it stays published")
        known = {path for path, known in self._scripts.items() if known.problems or touches(changed, known.files)}
        for path in sorted(known | {path for path in there if touches(changed, (path,))}):
            try:
                await self._publish(path)
            except StoreError as error:
                log.warning("script not published", file=str(self._relative(path)), problem=str(error))

    async def _publish(self, path: Path) -> None:
        reading = await self._catalog.with_own_id(TENANT, await asyncio.to_thread(read_path, self._relative(path)))
        if reading.errors and reading.source.text and not is_script(reading.source):
            if self._scripts.pop(path, None) is not None:
                log.warning("not a script any more", file=str(self._relative(path)), note="it stays published")
            return
        before = self._scripts.get(path)
        files = _files(path, reading)
        script_id = reading.script.id if reading.script is not None else ""
        others = [other for other, known in self._scripts.items() if known.script_id == script_id and other != path]
        if reading.script is not None and others:
            reading = second(reading, script_id, str(self._relative(others[0])))
        if reading.script is None:
            self._scripts[path] = _ScriptFile("", files, reading.errors)
            if before is None or before.problems != reading.errors:
                for problem in reading.errors:
                    log.warning("script not published", problem=str(problem), fix=problem.fix)
            return
        saved = await self._catalog.publish(TENANT, reading, reading.script)
        self._scripts[path] = _ScriptFile(script_id, files)
        if saved.new:
            log.info("script published", script=script_id, version=saved.row.version, file=str(self._relative(path)))
            self._look_at(reading.script)

    def _relative(self, path: Path) -> Path:
        """Return a file by the path that the user gave."""
        return self._shown / path.relative_to(self._folder)


def _files(path: Path, reading: Reading) -> frozenset[Path]:
    return frozenset({path, *(path.parent / name for name in reading.source.side_files)})


def touches(changed: Set[Path], files: Iterable[Path]) -> bool:
    """Return whether one of these files changed: itself, or a folder above it.

    A created, deleted or moved folder counts for all its files, because the watcher reports only the folder.
    """
    return any(not changed.isdisjoint((file, *file.parents)) for file in files)

"""External memories: read-only collections beside the users' own, which queries name.

One is read when it is first asked: into a record of its own, in a folder that is there as long as the server runs. So
it is searched and filtered as any memory is, while what it was read from is closed again and never written.
"""

import asyncio
import shutil
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import structlog
from msgspec import Struct
from msgspec.structs import replace

from api.memory.asked import Query, RecalledChain
from api.memory.banks import Banks
from api.memory.embedding import Embedding
from api.memory.finding import find
from api.memory.refusals import MemoryRefused
from api.memory.sources import ExternalSettings
from api.memory.transfers import as_json, as_parquet, as_sqlite, as_texts
from api.memory.transfers.checking import Content, checked
from api.memory.transfers.document import DocumentInvalid, Source
from api.memory.transfers.exporting import export_memory
from api.memory.transfers.importing import Target, import_content
from runtime.ports import Clock, Ids
from scripts.memories import DEFAULT_PLAN, MemoryPlan
from store.database import FILE_NAME
from store.embedders.embedder import EmbedderMisconfigured, EmbedderUnavailable
from store.errors import StoreError
from store.record import Record

OPEN_S = 300.0
REST_S = 30.0  # after a failure it is not tried again
BYTES_MAX = 2_000_000_000
_TENANT = "default"

log = structlog.get_logger()


class _Opened(Struct, frozen=True):
    """One that has been read: a record with one user's memory, whose name is its own."""

    record: Record
    banks: Banks


class _Embedder(Struct, frozen=True):
    """Which vectors can be compared with those of questions: the embedder's id, and what the settings call it."""

    id: str | None
    name: str


class Externals:
    """The external memories of a server. All of it belongs to one event loop."""

    def __init__(
        self,
        settings: Mapping[str, ExternalSettings],
        embedding: Embedding,
        embedder_name: str,
        folder: Path,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._settings = settings
        self._embedding = embedding
        self._embedder_name = embedder_name
        self._folder = folder
        self._clock = clock
        self._ids = ids
        self._opening: dict[str, asyncio.Task[_Opened]] = {}
        self._failed_at: dict[str, float] = {}

    async def search(self, query: Query) -> list[RecalledChain]:
        """What the external memories of a query hold of it; nothing is visited. Raises MemoryRefused, StoreError."""
        for name in query.external:
            if name not in self._settings:
                known = ", ".join(sorted(self._settings)) or "none is set"
                raise MemoryRefused(f"there is no external memory {name!r}; there are: {known}")
        found = [await self._search(name, query) for name in dict.fromkeys(query.external)]
        return [chain for chains in found for chain in chains]

    async def _search(self, name: str, query: Query) -> list[RecalledChain]:
        opened = await self._opened(name)
        asked = replace(
            query, group="", exclude_context=False, short_term_only=False, long_term_only=True, add_to_short_term=False
        )
        async with opened.banks.held(_TENANT, name) as loaded:
            allowed = None
            if query.filters is not None:
                allowed = await opened.record.memory.matching(_TENANT, name, query.filters)
            found = await asyncio.to_thread(find, loaded, asked, allowed, self._clock())
        return [replace(chain, external=name) for chain in found.recalled.chains]

    async def clear(self) -> None:
        """Let go of all of them, and of what was copied, also by a server that was killed."""
        for task in list(self._opening.values()):
            task.cancel()
            with suppress(asyncio.CancelledError, MemoryRefused):
                await (await task).record.close()
        self._opening.clear()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    # -- opening ------------------------------------------------------------------------------------------------------

    async def _opened(self, name: str) -> _Opened:
        """One that is read, now or before; whoever gives up waiting leaves it to the next. Raises MemoryRefused."""
        if time.monotonic() - self._failed_at.get(name, -REST_S) < REST_S:
            raise _unreadable(name)
        if name not in self._opening:
            self._opening[name] = asyncio.create_task(self._open(name, self._settings[name]))
            self._opening[name].add_done_callback(_looked_at)
        return await asyncio.shield(self._opening[name])

    async def _open(self, name: str, settings: ExternalSettings) -> _Opened:
        folder = self._folder / self._ids()
        try:
            await asyncio.to_thread(folder.mkdir, parents=True)
            async with asyncio.timeout(OPEN_S):
                return await self._read(name, settings, folder)
        except BaseException as error:
            del self._opening[name]
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            if not isinstance(error, StoreError | DocumentInvalid | OSError):  # OSError: also out of time
                raise
            self._failed_at[name] = time.monotonic()
            log.warning("an external memory cannot be read", memory=name, why=str(error) or type(error).__name__)
            raise _unreadable(name) from error

    async def _read(self, name: str, settings: ExternalSettings, folder: Path) -> _Opened:
        embedder = _Embedder(await self._embedder(), self._embedder_name)
        if settings.path.is_dir() or settings.path.name == FILE_NAME:
            content = await self._of_record(settings, folder, embedder)
        else:
            content = await asyncio.to_thread(_of_file, settings, embedder, self._clock)
        record = await asyncio.to_thread(Record.open, folder / "record")
        try:
            target = Target(tenant=_TENANT, user_id=name, memory_id=self._ids(), now=self._clock())
            await import_content(record.memory, target, content)
        except BaseException:
            await record.close()
            raise
        banks = Banks(record.memory, self._embedding, _no_plans, self._clock, self._ids, folder / "index")
        return _Opened(record, banks)

    async def _of_record(self, settings: ExternalSettings, folder: Path, embedder: _Embedder) -> Content:
        """What a user's memory in a data folder holds. Raises DocumentInvalid, StoreError."""
        path = settings.path if settings.path.is_dir() else settings.path.parent
        record = await asyncio.to_thread(Record.open, path, read_only=True)
        try:
            copy, owner = folder / "memory.sqlite", (settings.tenant, settings.user or "")
            if await export_memory(record.memory, *owner, copy, "sqlite", embedder=embedder.id) is None:
                raise DocumentInvalid("the user has no memory in that data folder")
        finally:
            await record.close()
        return await asyncio.to_thread(_of_file, replace(settings, path=copy), embedder, self._clock)

    async def _embedder(self) -> str | None:
        if self._embedding.is_lexical:
            return None
        try:
            return (await self._embedding.embedder()).id
        except (EmbedderUnavailable, EmbedderMisconfigured):
            return None


def _of_file(settings: ExternalSettings, embedder: _Embedder, clock: Clock) -> Content:
    """What a file holds. Raises DocumentInvalid, OSError."""
    path = settings.path
    if path.stat().st_size > BYTES_MAX:
        raise DocumentInvalid(f"the file has more than {BYTES_MAX} bytes")
    file: AbstractContextManager[Source]
    match path.suffix.lower():
        case ".json":
            file = as_json.reading(path)
        case ".sqlite" | ".db":
            file = as_sqlite.reading(path, clock())
        case ".parquet" if as_parquet.is_memory(path):
            file = as_parquet.reading(path)
        case ".parquet":
            made_by = embedder.id if settings.embedder == embedder.name else None
            file = as_texts.reading(path, made_by, clock())
        case _:
            raise DocumentInvalid("the file's name is to end with .parquet, .json, .sqlite or .db")
    with file as source:
        return checked(source, lambda done, total: None)


def _looked_at(opening: asyncio.Task[_Opened]) -> None:
    """So that asyncio does not report a failure that nobody waits for any more; it is in the log."""
    if not opening.cancelled():
        opening.exception()


async def _no_plans(tenant: str, digest: str) -> MemoryPlan:
    return DEFAULT_PLAN


def _unreadable(name: str) -> MemoryRefused:
    return MemoryRefused(f"the external memory {name!r} cannot be read; the server's log says why")

"""External memories: read-only collections that queries may name in addition to the user's own memory.

The first query of one imports it into a temporary database, which is deleted when the server stops. So it is searched
and filtered like any memory, and its source is never written.
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

from api.background import retrieve_exception
from api.memory.cache import MemoryCache
from api.memory.embedding import EmbeddingService
from api.memory.requests import Query
from api.memory.search import find, recalled_chains
from api.memory.transfers import as_parquet
from api.memory.transfers.export_memory import export_memory
from api.memory.transfers.import_memory import Content, ImportTarget, import_content, open_source, read_content
from api.memory.transfers.memory_document import FORM_OF_SUFFIX, DocumentInvalid, MemorySource
from api.schemas.memory import ChainView
from api.schemas.memory_errors import InvalidMemoryRequest
from api.settings import ExternalSettings
from runtime.state.ports import Clock, Ids
from scripts.model.memory_plan import DEFAULT_PLAN, MemoryPlan
from store.interface.errors import StoreError
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from store.store import Store

OPEN_S = 300.0
REST_S = 30.0  # pause after a failure
BYTES_MAX = 2_000_000_000
_TENANT = "default"

log = structlog.get_logger()


class _ExternalMemory(Struct, frozen=True):
    """An imported external memory: a database with the memory of one user, who is named like it."""

    store: Store
    memory_cache: MemoryCache


class Externals(Struct):
    """The external memories of a server. Use it in one event loop only."""

    settings: Mapping[str, ExternalSettings]
    embedding: EmbeddingService
    embedder_name: str
    folder: Path
    clock: Clock
    ids: Ids
    _opening: dict[str, asyncio.Task[_ExternalMemory]] = {}
    _failed_at: dict[str, float] = {}

    async def search(self, query: Query) -> list[ChainView]:
        """Search the external memories of a query; no visit is counted. Raises InvalidMemoryRequest, StoreError."""
        for name in query.external:
            if name not in self.settings:
                known = f"there are {', '.join(sorted(self.settings))}" if self.settings else "the settings name none"
                raise InvalidMemoryRequest(f"there is no external memory {name!r}; {known}")
        found = [await self._search(name, query) for name in dict.fromkeys(query.external)]
        return [chain for chains in found for chain in chains]

    async def _search(self, name: str, query: Query) -> list[ChainView]:
        memory = await self._get(name)
        long_term_query = replace(
            query, group="", exclude_context=False, short_term_only=False, long_term_only=True, add_to_short_term=False
        )
        async with memory.memory_cache.lock(_TENANT, name) as loaded:
            allowed = None
            if query.filters is not None:
                allowed = await memory.store.memory.matching(_TENANT, name, query.filters)
            found = await asyncio.to_thread(find, loaded, long_term_query, allowed, self.clock())
            return recalled_chains(loaded, found, external=name)

    async def clear(self) -> None:
        """Close all external memories and delete their databases, including those that a killed server left."""
        for task in list(self._opening.values()):
            task.cancel()
            with suppress(asyncio.CancelledError, InvalidMemoryRequest):
                await (await task).store.close()
        self._opening.clear()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    # -- opening ------------------------------------------------------------------------------------------------------

    async def _get(self, name: str) -> _ExternalMemory:
        """Return an external memory, importing it on first use; a cancelled waiter does not stop the import.

        Raises InvalidMemoryRequest.
        """
        if time.monotonic() - self._failed_at.get(name, -REST_S) < REST_S:
            raise _unreadable(name)
        if name not in self._opening:
            self._opening[name] = asyncio.create_task(self._open(name, self.settings[name]))
            self._opening[name].add_done_callback(retrieve_exception)
        return await asyncio.shield(self._opening[name])

    async def _open(self, name: str, settings: ExternalSettings) -> _ExternalMemory:
        folder = self.folder / self.ids()
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

    async def _read(self, name: str, settings: ExternalSettings, folder: Path) -> _ExternalMemory:
        available = await self.embedding.available()
        embedder = None if available is None else available.id
        if settings.path.is_dir() or settings.path.name == FILE_NAME:
            content = await self._read_database(settings, folder, embedder)
        else:
            of_texts = embedder if settings.embedder == self.embedder_name else None
            content = await asyncio.to_thread(_read_file, settings.path, of_texts, self.clock)
        store = await asyncio.to_thread(open_store, folder / "record")
        try:
            target = ImportTarget(tenant=_TENANT, user_id=name, memory_id=self.ids(), now=self.clock())
            await import_content(store.memory, target, content)
        except BaseException:
            await store.close()
            raise
        memory_cache = MemoryCache(store.memory, self.embedding, _no_plans, self.clock, self.ids, folder / "index")
        return _ExternalMemory(store, memory_cache)

    async def _read_database(self, settings: ExternalSettings, folder: Path, embedder: str | None) -> Content:
        """Return the content of a user's memory in a data folder. Raises DocumentInvalid, StoreError."""
        path = settings.path if settings.path.is_dir() else settings.path.parent
        store = await asyncio.to_thread(open_store, path, read_only=True)
        try:
            copy, owner = folder / "memory.sqlite", (settings.tenant, settings.user or "")
            if not await export_memory(store.memory, *owner, copy, "sqlite", embedder=embedder):
                raise DocumentInvalid("the user has no memory in that data folder")
        finally:
            await store.close()
        return await asyncio.to_thread(_read_file, copy, None, self.clock)


def _read_file(path: Path, embedder: str | None, clock: Clock) -> Content:
    """Return the content of a memory file, or of a Parquet file of texts with vectors of `embedder`.

    Raises DocumentInvalid, OSError.
    """
    if path.stat().st_size > BYTES_MAX:
        raise DocumentInvalid(f"the file has more than {BYTES_MAX} bytes")
    file: AbstractContextManager[MemorySource]
    form = FORM_OF_SUFFIX.get(path.suffix.lower())
    if form is None:
        raise DocumentInvalid(f"the suffix of the file must be one of {', '.join(FORM_OF_SUFFIX)}")
    if form == "parquet" and not as_parquet.is_memory(path):
        file = as_parquet.reading_texts(path, embedder, clock())
    else:
        file = open_source(path, form, clock())
    with file as source:
        return read_content(source)


async def _no_plans(tenant: str, digest: str) -> MemoryPlan:
    return DEFAULT_PLAN


def _unreadable(name: str) -> InvalidMemoryRequest:
    return InvalidMemoryRequest(f"the external memory {name!r} cannot be read; see the server's log for the reason")

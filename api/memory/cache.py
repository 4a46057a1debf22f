"""Cache of loaded memories, least recently used first out; each ingests all committed turns before it is used."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from api.memory.embedding import READ_S, EmbeddingService
from api.memory.ingest import begin, ingest_turns
from api.memory.loaded_memory import LoadedMemory, OwnerId
from api.memory.transaction import MemoryTransaction
from runtime.memory.recall.memory_index import MemoryIndex
from runtime.state.ports import Clock, Ids
from scripts.model.memory_plan import MemoryPlan
from store.interface.errors import MemoryMoved
from store.interface.memory_rows import BehindRow, MemoryChange, OwnerRow
from store.interface.shared_database import SharedDatabase
from store.memory.memory_repository import MemoryRepository
from store.vectors.index import GRAPH_FROM, VectorIndex
from store.vectors.snapshot import drop, drop_others

LOADED_UNITS_MAX = 200_000
"""Maximum units of all loaded memories, about 2 KB each; a larger memory is loaded alone."""
LOADED_MAX = 2_000
"""Maximum number of loaded memories, however small."""
PAGE_UNITS = 5_000
PAGE_TURNS = 500

log = structlog.get_logger()

Plans = Callable[[str, str], Awaitable[MemoryPlan]]
"""Returns the memory plan of the script with a digest, of a tenant."""


class MemoryCache(Struct):
    """Loads memories, locks them for one task at a time, and writes changes to them."""

    store: MemoryRepository
    embedding: EmbeddingService
    plans: Plans
    clock: Clock
    ids: Ids
    folder: Path
    """The folder of all saved indexes."""
    shared: SharedDatabase | None = None
    graph_from: int = GRAPH_FROM  # number of vectors from which a memory has an index
    loaded: OrderedDict[OwnerId, LoadedMemory] = field(default_factory=OrderedDict)
    """The loaded memories, the least recently used first."""
    _loading: WeakValueDictionary[OwnerId, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    @property
    def units(self) -> int:
        """Return the number of loaded units."""
        return sum(len(loaded.units) for loaded in self.loaded.values())

    @asynccontextmanager
    async def lock(self, tenant: str, user_id: str, *, flushed: bool = True) -> AsyncIterator[LoadedMemory]:
        """Lock a memory and yield it with all committed turns ingested. Raises StoreError.

        With `flushed` its buffered writes are written to the database first.
        """
        owner = (tenant, user_id)
        while True:
            loaded = self._find_loaded(owner) or await self._load(owner)
            async with loaded.lock:
                if loaded.is_dropped:
                    continue
                if not await self._is_current(loaded):
                    self.drop(tenant, user_id)
                    continue
                loaded.is_behind = loaded.is_behind or self.shared is not None  # turns of other servers
                # the embedder was not available at loading
                is_outdated = loaded.embedder is None and self.embedding.current is not None
                try:
                    if flushed or is_outdated:
                        await self._flush(loaded)
                    if is_outdated:
                        self.drop(tenant, user_id)
                        continue
                    await self._refresh(loaded)
                except MemoryMoved:  # another server has changed it meanwhile, or ingested the same turns
                    continue
                yield loaded
                return

    async def _is_current(self, loaded: LoadedMemory) -> bool:
        """Return whether no other server has changed a memory since it was loaded; unsaved visits are then lost."""
        return self.shared is None or await self.shared.memory_version(*loaded.id) == loaded.version

    @asynccontextmanager
    async def exclusive(self, tenant: str, user_id: str) -> AsyncIterator[None]:
        """Lock a memory against all use, and on exit drop its cached state and its index files (used by erasure).

        Raises StoreUnavailable if the files cannot be removed.
        """
        owner = (tenant, user_id)
        async with self._loading_of(owner):
            loaded = self.loaded.get(owner)
            if loaded is not None:
                async with loaded.lock:
                    if not loaded.is_dropped:
                        with suppress(MemoryMoved):  # another server has changed the memory; unsaved visits are lost
                            await self._flush(loaded)
                    self.drop(tenant, user_id)
            try:
                yield
            finally:
                await asyncio.to_thread(drop, self.folder_of(tenant, user_id))

    def _loading_of(self, owner: OwnerId) -> asyncio.Lock:
        """Return the lock for loading a memory; it is freed when no task holds it or waits for it."""
        return self._loading.setdefault(owner, asyncio.Lock())

    def invalidate(self, tenant: str, user_id: str) -> None:
        """Note that a turn of the user was committed, so that the next use of the memory ingests it."""
        loaded = self.loaded.get((tenant, user_id))
        if loaded is not None:
            loaded.is_behind = True

    def drop(self, tenant: str, user_id: str) -> None:
        """Remove a memory from the cache, so that its next use loads it from the database."""
        loaded = self.loaded.pop((tenant, user_id), None)
        if loaded is not None:
            loaded.is_dropped = True
            if loaded.index is not None:
                loaded.index.close()

    async def write(self, loaded: LoadedMemory, change: MemoryChange | None) -> None:
        """Commit a change to a locked memory and apply it. Raises StoreError."""
        if change is None:
            return
        await self._flush(loaded)
        try:
            if loaded.index is not None and change.removes:
                # before the commit: a crash after it must not leave a file with vectors that were removed
                await asyncio.to_thread(loaded.index.drop_saved)
            loaded.version = await self.store.change(replace(change, version=self._expected_version(loaded)))
            await asyncio.to_thread(loaded.apply, change)
        except BaseException:
            self.drop(*loaded.id)
            raise

    def write_later(self, loaded: LoadedMemory, change: MemoryChange | None) -> None:
        """Apply a change to a locked memory and buffer its write (used for visits, which no caller waits for).

        The buffer is written before the next change, and by the next maintenance of the memory.
        """
        if change is not None:
            loaded.apply(change)
            loaded.unwritten.add(change)

    async def flush(self) -> None:
        """Write all buffered changes. Raises StoreError."""
        for owner, loaded in list(self.loaded.items()):
            if loaded.unwritten:
                async with self.lock(*owner):
                    pass

    async def _flush(self, loaded: LoadedMemory) -> None:
        if not loaded.unwritten:
            return
        try:
            change = replace(loaded.unwritten.drain(*loaded.id), version=self._expected_version(loaded))
            loaded.version = await self.store.change(change)
        except BaseException:
            self.drop(*loaded.id)
            raise

    def _expected_version(self, loaded: LoadedMemory) -> int | None:
        return None if self.shared is None else loaded.version

    # -- loading ------------------------------------------------------------------------------------------------------

    async def _load(self, owner: OwnerId) -> LoadedMemory:
        async with self._loading_of(owner):
            cached = self._find_loaded(owner)
            if cached is not None:
                return cached
            loaded = await self._read(owner)
            self.loaded[owner] = loaded
            self._evict()
        return loaded

    def _find_loaded(self, owner: OwnerId) -> LoadedMemory | None:
        loaded = self.loaded.get(owner)
        if loaded is not None:
            self.loaded.move_to_end(owner)
        return loaded

    def _evict(self) -> None:
        """Drop the least recently used memories above the limits, except those in use or with buffered writes."""
        for owner, loaded in list(self.loaded.items())[:-1]:
            if len(self.loaded) <= LOADED_MAX and self.units <= LOADED_UNITS_MAX:
                return
            if not loaded.lock.locked() and not loaded.unwritten:
                self.drop(*owner)

    async def _read(self, owner: OwnerId) -> LoadedMemory:
        version = 0 if self.shared is None else await self.shared.memory_version(*owner)
        row = await self.store.owner(*owner)
        if row is None:
            row = OwnerRow(tenant=owner[0], user_id=owner[1], memory_id=self.ids(), sequence=0, created_at=self.clock())
        embedder = await self.embedding.available(READ_S)
        embedder_id, dimension = (None, 0) if embedder is None else (embedder.id, embedder.dimension)
        loaded = LoadedMemory(row, MemoryIndex(embedder_id or ""), embedder_id, dimension)
        loaded.version = version
        loaded.apply(MemoryChange(tenant=owner[0], user_id=owner[1], groups=await self.store.groups(*owner)))
        after = 0
        while True:
            units = await self.store.units(*owner, after=after, limit=PAGE_UNITS)
            await asyncio.to_thread(loaded.add, units)
            if len(units) < PAGE_UNITS:
                break
            after = units[-1].sequence
        if loaded.embedder is not None:
            vectors = await self.store.vectors(*owner, loaded.embedder)
            await asyncio.to_thread(loaded.add_vectors, vectors.sequences, vectors.vectors)
            loaded.mark_embedding_stale(await self.store.stale_embeddings(*owner, loaded.embedder))
            await self._open_index(loaded, loaded.embedder)
        return loaded

    async def maintain_index(self, loaded: LoadedMemory) -> VectorIndex | None:
        """Return the vector index of a locked memory, or None if it has too few vectors. Raises StoreUnavailable."""
        if loaded.index is None and loaded.embedder is not None:
            await self._open_index(loaded, loaded.embedder)
            if loaded.index is None:  # it may have had more vectors before
                await asyncio.to_thread(drop, self.folder_of(*loaded.id))
        return loaded.index

    async def _open_index(self, loaded: LoadedMemory, embedder: str) -> None:
        """Open the index of a memory's vectors, if there are enough."""
        if loaded.bank.vectors < self.graph_from:
            return
        labels, vectors = loaded.bank.labelled_vectors()
        opened = partial(VectorIndex.open, self.folder_of(*loaded.id), embedder, loaded.dimension, labels, vectors)
        loaded.index = await asyncio.to_thread(opened, graph_from=self.graph_from)
        if loaded.index.reason is not None:
            log.warning("rebuilding a memory index", problem=loaded.index.reason)

    async def sweep(self) -> None:
        """Remove index files of erased memories, which a crash during an erasure may leave. Raises StoreError."""
        owners = await self.store.owners_of_all()
        in_use = {self.folder_of(owner.tenant, owner.user_id).name for owner in owners}
        await asyncio.to_thread(drop_others, self.folder, in_use)

    def folder_of(self, tenant: str, user_id: str) -> Path:
        """Return the folder of a memory's index; its name is a hash, so that it does not reveal the user."""
        return self.folder / hashlib.sha256(f"{tenant}\0{user_id}".encode()).hexdigest()[:32]

    # -- committed turns ----------------------------------------------------------------------------------------------

    async def _refresh(self, loaded: LoadedMemory) -> None:
        """Ingest the turns that were committed since the last use."""
        if not loaded.is_behind:
            return
        loaded.is_behind = False  # before the query: a later commit sets it again
        try:
            for behind in await self.store.pending_ingest(*loaded.id):
                await self._ingest(loaded, behind)
        except BaseException:
            loaded.is_behind = True
            raise

    async def _ingest(self, loaded: LoadedMemory, behind: BehindRow) -> None:
        plan = await self.plans(loaded.owner.tenant, behind.digest)
        draft = MemoryTransaction(loaded, self.clock())
        begin(draft, loaded, behind, plan)
        after = draft.group(behind.session_id).turn
        while True:
            turns = await self.store.admissible(loaded.owner.tenant, behind.session_id, after=after, limit=PAGE_TURNS)
            ingest_turns(draft, loaded, behind.session_id, turns, plan)
            await self.write(loaded, draft.change())
            if len(turns) < PAGE_TURNS:
                return
            after = turns[-1].turn
            draft = MemoryTransaction(loaded, self.clock())

"""The memories that are loaded: those used last, each brought up to what has been committed before it is used."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import structlog
from numpy.typing import NDArray

from api.memory.admission import admit, begin
from api.memory.draft import Draft
from api.memory.embedding import Embedding
from api.memory.loaded import Loaded, OwnerId
from runtime.memory.recall.bank import Bank
from runtime.ports import Clock, Ids
from scripts.memories import MemoryPlan
from store.embedders.embedder import Embedder, EmbedderMisconfigured, EmbedderUnavailable
from store.memory.record import MemoryRecord
from store.memory.rows import BehindRow, MemoryChange, OwnerRow, VectorsRead
from store.vectors.index import GRAPH_FROM, VectorIndex
from store.vectors.snapshot import drop, drop_others

LOADED_UNITS_MAX = 200_000
"""Units of all memories that are loaded together, about 2 KB each; one that is larger is loaded alone."""
LOADED_MAX = 2_000
"""Memories that are loaded together, however small."""
PAGE_UNITS = 5_000
PAGE_TURNS = 500

log = structlog.get_logger()

Plans = Callable[[str, str], Awaitable[MemoryPlan]]
"""What the script with a digest, of a tenant, says of memory."""


class Banks:
    """Loads memories, lends them to one user at a time, and writes what is done to them."""

    def __init__(
        self,
        record: MemoryRecord,
        embedding: Embedding,
        plans: Plans,
        clock: Clock,
        ids: Ids,
        folder: Path,
        *,
        graph_from: int = GRAPH_FROM,
    ) -> None:
        self._record = record
        self._embedding = embedding
        self._plans = plans
        self._clock = clock
        self._ids = ids
        self.folder = folder
        """Of all saved indexes."""
        self._graph_from = graph_from  # vectors from which a memory has an index
        self._loaded: OrderedDict[OwnerId, Loaded] = OrderedDict()
        self._loading: WeakValueDictionary[OwnerId, asyncio.Lock] = WeakValueDictionary()

    @property
    def units(self) -> int:
        """Units that are loaded."""
        return sum(len(loaded.units) for loaded in self._loaded.values())

    @asynccontextmanager
    async def held(self, tenant: str, user_id: str, *, settled: bool = True) -> AsyncIterator[Loaded]:
        """A memory that nobody else uses meanwhile, with all that has been committed. Raises StoreError.

        Where it is `settled`, the record has all that was to be written later.
        """
        owner = (tenant, user_id)
        while True:
            loaded = self._known(owner) or await self._load(owner)
            async with loaded.lock:
                if loaded.is_dropped:
                    continue
                if settled:
                    await self._settle(loaded)
                if loaded.embedder is None and self._embedding.current is not None:  # it could not be had before
                    await self._settle(loaded)
                    self.drop(tenant, user_id)
                    continue
                await self._bring_up(loaded)
                yield loaded
                return

    @asynccontextmanager
    async def barred(self, tenant: str, user_id: str) -> AsyncIterator[None]:
        """Nobody uses a memory meanwhile, and afterwards nothing of it is known, here or in its index's files: for who
        removes something of it from the record.

        Raises StoreUnavailable where the files cannot be removed.
        """
        owner = (tenant, user_id)
        async with self._loading_of(owner):
            loaded = self._loaded.get(owner)
            if loaded is not None:
                async with loaded.lock:
                    if not loaded.is_dropped:
                        await self._settle(loaded)
                    self.drop(tenant, user_id)
            try:
                yield
            finally:
                await asyncio.to_thread(drop, self.folder_of(tenant, user_id))

    def _loading_of(self, owner: OwnerId) -> asyncio.Lock:
        """What is held while a memory is loaded; gone when nobody holds it or waits for it."""
        lock = self._loading.get(owner)
        if lock is None:
            lock = self._loading[owner] = asyncio.Lock()
        return lock

    def turned(self, tenant: str, user_id: str) -> None:
        """Something of a user's sessions has been committed."""
        loaded = self._loaded.get((tenant, user_id))
        if loaded is not None:
            loaded.is_behind = True

    def drop(self, tenant: str, user_id: str) -> None:
        """Load a memory anew when it is next used: what is known of it may be wrong, or gone."""
        loaded = self._loaded.pop((tenant, user_id), None)
        if loaded is not None:
            loaded.is_dropped = True
            if loaded.index is not None:
                loaded.index.close()

    async def write(self, loaded: Loaded, change: MemoryChange | None) -> None:
        """Do something to a held memory, durably. Raises StoreError."""
        if change is None:
            return
        await self._settle(loaded)
        try:
            if loaded.index is not None and change.removes:
                # before the commit: a crash after it must not leave a file with vectors that were removed
                await asyncio.to_thread(loaded.index.drop_saved)
            await self._record.change(change)
            await asyncio.to_thread(loaded.take, change)
        except BaseException:
            self.drop(*loaded.id)
            raise

    def later(self, loaded: Loaded, change: MemoryChange | None) -> None:
        """Do something to a held memory that nobody waits for, visits: it is written before anything else is, and when
        the memory is next worked on.
        """
        if change is not None:
            loaded.take(change)
            loaded.unwritten.note(change)

    async def settle(self) -> None:
        """Write all that was to be written later. Raises StoreError."""
        for owner, loaded in list(self._loaded.items()):
            if loaded.unwritten:
                async with self.held(*owner):
                    pass

    async def _settle(self, loaded: Loaded) -> None:
        if not loaded.unwritten:
            return
        try:
            await self._record.change(loaded.unwritten.taken(*loaded.id))
        except BaseException:
            self.drop(*loaded.id)
            raise

    # -- loading ------------------------------------------------------------------------------------------------------

    async def _load(self, owner: OwnerId) -> Loaded:
        async with self._loading_of(owner):
            known = self._known(owner)
            if known is not None:
                return known
            loaded = await self._read(owner)
            self._loaded[owner] = loaded
            self._make_room()
        return loaded

    def _known(self, owner: OwnerId) -> Loaded | None:
        loaded = self._loaded.get(owner)
        if loaded is not None:
            self._loaded.move_to_end(owner)
        return loaded

    def _make_room(self) -> None:
        """Lets go of those that were used the longest time ago, but for those that are in use."""
        for owner, loaded in list(self._loaded.items())[:-1]:
            if len(self._loaded) <= LOADED_MAX and self.units <= LOADED_UNITS_MAX:
                return
            if not loaded.lock.locked() and not loaded.unwritten:
                self.drop(*owner)

    async def _read(self, owner: OwnerId) -> Loaded:
        row = await self._record.owner(*owner)
        if row is None:
            row = OwnerRow(
                tenant=owner[0], user_id=owner[1], memory_id=self._ids(), sequence=0, created_at=self._clock()
            )
        embedder = await self._embedder()
        embedder_id, dimension = (None, 0) if embedder is None else (embedder.id, embedder.dimension)
        loaded = Loaded(row, Bank(embedder_id or ""), embedder_id, dimension)
        groups = await self._record.groups(*owner)
        loaded.take(MemoryChange(tenant=owner[0], user_id=owner[1], groups=groups))
        after = 0
        while True:
            units = await self._record.units(*owner, after=after, limit=PAGE_UNITS)
            await asyncio.to_thread(loaded.add, units)
            if len(units) < PAGE_UNITS:
                break
            after = units[-1].sequence
        if loaded.embedder is not None:
            vectors = await self._record.vectors(*owner, loaded.embedder)
            await asyncio.to_thread(loaded.add_vectors, vectors.sequences, vectors.vectors)
            loaded.mark_seen_otherwise(await self._record.seen_otherwise(*owner, loaded.embedder))
            await self._open_index(loaded, vectors)
        return loaded

    async def see_to_index(self, loaded: Loaded) -> VectorIndex | None:
        """The index of a held memory's vectors, if there are so many that it has one. Raises StoreError."""
        if loaded.index is None and loaded.embedder is not None:
            if loaded.bank.vectors >= self._graph_from:
                await self._open_index(loaded, await self._record.vectors(*loaded.id, loaded.embedder))
            else:  # there were more once
                await asyncio.to_thread(drop, self.folder_of(*loaded.id))
        return loaded.index

    async def _open_index(self, loaded: Loaded, vectors: VectorsRead) -> None:
        if loaded.bank.vectors >= self._graph_from and loaded.embedder is not None:
            folder = self.folder_of(*loaded.id)
            opened = partial(_index, folder, loaded.embedder, loaded.dimension, vectors, self._graph_from)
            loaded.index = await asyncio.to_thread(opened)
            if loaded.index.reason is not None:
                log.warning("an index of memories is made anew", problem=loaded.index.reason)

    async def sweep(self) -> None:
        """Remove the indexes of memories that are no more: what a crash left of an erasure. Raises StoreError."""
        owners = await self._record.owners_of_all()
        kept = {self.folder_of(owner.tenant, owner.user_id).name for owner in owners}
        await asyncio.to_thread(drop_others, self.folder, kept)

    def folder_of(self, tenant: str, user_id: str) -> Path:
        """Where the index of a memory is saved; its name does not tell whose it is."""
        return self.folder / hashlib.sha256(f"{tenant}\0{user_id}".encode()).hexdigest()[:32]

    async def _embedder(self) -> Embedder | None:
        """The embedder, if there is one and it can be had now; else units are found by their words alone."""
        if self._embedding.is_lexical:
            return None
        try:
            return await self._embedding.embedder()
        except (EmbedderUnavailable, EmbedderMisconfigured):
            return None

    # -- what has been committed --------------------------------------------------------------------------------------

    async def _bring_up(self, loaded: Loaded) -> None:
        """Admit the turns that were committed since it was last used."""
        if not loaded.is_behind:
            return
        loaded.is_behind = False  # before looking: what is committed from now on sets it again
        try:
            for behind in await self._record.behind(*loaded.id):
                await self._admit(loaded, behind)
        except BaseException:
            loaded.is_behind = True
            raise

    async def _admit(self, loaded: Loaded, behind: BehindRow) -> None:
        plan = await self._plans(loaded.owner.tenant, behind.digest)
        group = loaded.groups.get(behind.session_id)
        draft = Draft(loaded, self._clock())
        begin(draft, loaded, behind, plan)
        after = draft.group(behind.session_id).turn if group is None else group.turn
        while True:
            turns = await self._record.admissible(loaded.owner.tenant, behind.session_id, after=after, limit=PAGE_TURNS)
            admit(draft, loaded, behind.session_id, turns, plan)
            await self.write(loaded, draft.change())
            if len(turns) < PAGE_TURNS:
                return
            after = turns[-1].turn
            draft = Draft(loaded, self._clock())


def _index(folder: Path, embedder: str, dimension: int, vectors: VectorsRead, graph_from: int) -> VectorIndex:
    full = [
        (sequence, vector)
        for sequence, vector in zip(vectors.sequences, vectors.vectors, strict=True)
        if len(vector) == 4 * dimension
    ]
    labels = np.array([sequence for sequence, _ in full], np.int64)
    rows = np.frombuffer(b"".join(vector for _, vector in full), "<f4").reshape(-1, dimension)

    def rows_of(wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        return rows[np.searchsorted(labels, wanted)]

    return VectorIndex.open(folder, embedder, dimension, labels, rows_of, graph_from=graph_from)

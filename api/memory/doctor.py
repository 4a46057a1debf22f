"""Whether memories are as they should be: their rows, and what is saved of their indexes; and how they are mended."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from api.memory.banks import Banks
from api.memory.embedding import Embedding
from store.embedders.embedder import Embedder, EmbedderMisconfigured, EmbedderUnavailable
from store.memory.integrity import Finding
from store.memory.reading import OwnerOf
from store.memory.record import MemoryRecord
from store.memory.rows import VectorsRead
from store.vectors.comparing import problems
from store.vectors.snapshot import drop

ROUNDS_MAX = 20
"""Of mending: one damage may come to light only when another is mended, and only some of a kind are found at a time."""
_NOT_SOUND = "its saved index does not fit its rows"
_OF_NOBODY = "an index is saved of a memory that is not there"
_MADE_ANEW = "the saved index goes, and is made anew from the rows"
_GOES = "it goes"


class Mended(Struct, frozen=True):
    """What was found and mended, and what is left."""

    mended: Sequence[Finding]
    left: Sequence[Finding]


class Doctor:
    """Checks one memory, or all of every tenant. Raises StoreError."""

    def __init__(
        self, record: MemoryRecord, banks: Banks, embedding: Embedding, notice: Callable[[str, str], None]
    ) -> None:
        self._record = record
        self._banks = banks
        self._embedding = embedding
        self._notice = notice

    async def check(self, tenant: str | None = None, user_id: str | None = None) -> list[Finding]:
        """What is wrong, and what is still to be done; the rows first, as indexes are made from them."""
        embedder = await self._embedder()
        found = await self._record.check(
            tenant=tenant, user_id=user_id, embedder=None if embedder is None else embedder.id
        )
        return [*found, *await self._indexes(tenant, user_id, embedder)]

    async def repair(self, tenant: str | None = None, user_id: str | None = None) -> Mended:
        """Mend what can be. Nothing that stands nowhere else is removed."""
        mended: list[Finding] = []
        for _ in range(ROUNDS_MAX):
            found = await self.check(tenant, user_id)
            wrong = [finding for finding in found if finding.mended]
            if not wrong:
                break
            await self._mend(wrong)
            mended += wrong
        return Mended(mended, await self.check(tenant, user_id))

    async def _mend(self, wrong: Sequence[Finding]) -> None:
        for owner in dict.fromkeys((finding.tenant, finding.user_id) for finding in wrong if finding.user_id):
            async with self._banks.barred(*owner):
                await self._record.repair([each for each in wrong if (each.tenant, each.user_id) == owner])
            self._notice(*owner)
        for finding in wrong:
            if finding.code == "index_astray":
                await asyncio.to_thread(drop, self._banks.folder / finding.subject)

    async def _embedder(self) -> Embedder | None:
        if self._embedding.is_lexical:
            return None
        try:
            return await self._embedding.embedder()
        except (EmbedderUnavailable, EmbedderMisconfigured):
            return None

    # -- indexes ------------------------------------------------------------------------------------------------------

    async def _indexes(self, tenant: str | None, user_id: str | None, embedder: Embedder | None) -> list[Finding]:
        """What is saved of indexes, beside the rows: a bad one is slow or misses something, and makes nothing up."""
        saved = await asyncio.to_thread(_folders, self._banks.folder)
        owners = await self._record.owners_of_all()
        of_owners = {self._banks.folder_of(owner.tenant, owner.user_id).name: owner for owner in owners}
        found: list[Finding] = []
        for name in saved:
            owner = of_owners.get(name)
            if owner is not None and tenant in {None, owner.tenant} and user_id in {None, owner.user_id}:
                found += [] if embedder is None else await self._index(owner, embedder)
            elif owner is None and tenant is None:
                found.append(Finding("index_astray", "", "", name, None, _OF_NOBODY, _GOES))
        return found

    async def _index(self, owner: OwnerOf, embedder: Embedder) -> list[Finding]:
        vectors = await self._record.vectors(owner.tenant, owner.user_id, embedder.id)
        folder = self._banks.folder_of(owner.tenant, owner.user_id)
        told = await asyncio.to_thread(_told, folder, embedder, vectors)
        return [
            Finding("index_unsound", owner.tenant, owner.user_id, each, None, _NOT_SOUND, _MADE_ANEW) for each in told
        ]


def _folders(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []


def _told(folder: Path, embedder: Embedder, vectors: VectorsRead) -> list[str]:
    size = 4 * embedder.dimension
    pairs: Iterable[tuple[int, bytes]] = zip(vectors.sequences, vectors.vectors, strict=True)
    full = [(sequence, vector) for sequence, vector in pairs if len(vector) == size]
    labels = np.array([sequence for sequence, _ in full], np.int64)
    rows = np.frombuffer(b"".join(vector for _, vector in full), "<f4").reshape(-1, embedder.dimension)
    return problems(folder, embedder.id, embedder.dimension, labels, rows)

"""Exports memories to files, and imports them."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import asdict

from api.errors import ApiError, refusing
from api.memory.cache import MemoryCache
from api.memory.transfers.export_memory import export_memory
from api.memory.transfers.import_memory import IdsExist, ImportOptions, ImportTarget, import_memory
from api.memory.transfers.memory_document import DocumentInvalid, Form
from api.schemas.memory_work import MemoryImportView
from runtime.state.ports import Clock, Ids
from store.memory.memory_repository import MemoryRepository


class MemoryTransfer(Struct, frozen=True):
    """Exports and imports memories. Every method raises StoreError."""

    store: MemoryRepository
    memory_cache: MemoryCache
    clock: Clock
    ids: Ids
    enqueue: Callable[[str, str], None]

    async def export_to(self, tenant: str, user_id: str, form: Form, *, vectors: bool) -> IO[bytes]:
        """Export a memory and return an open, already deleted file, which the caller closes.

        Raises ApiError if the user has no memory.
        """
        async with self.memory_cache.lock(tenant, user_id) as loaded:
            embedder = loaded.embedder if vectors else None
        with tempfile.TemporaryDirectory(prefix="cuebook-") as folder:
            path = Path(folder) / f"memory.{form}"
            if not await export_memory(self.store, tenant, user_id, path, form, embedder=embedder):
                raise ApiError("MEMORY_NOT_FOUND", "this user has no memory")
            return await asyncio.to_thread(path.open, "rb")

    async def import_from(
        self, tenant: str, user_id: str, content: bytes, form: Form, options: ImportOptions
    ) -> MemoryImportView:
        """Import a file into a memory, completely or not at all. Raises ApiError."""
        async with self.memory_cache.lock(tenant, user_id) as loaded:  # no other task may number units meanwhile
            target = ImportTarget(
                **asdict(options), tenant=tenant, user_id=user_id, memory_id=loaded.owner.memory_id, now=self.clock()
            )
            try:
                with tempfile.TemporaryDirectory(prefix="cuebook-") as folder:
                    path = Path(folder) / f"memory.{form}"
                    await asyncio.to_thread(path.write_bytes, content)
                    with refusing("DOCUMENT_INVALID", DocumentInvalid), refusing("MEMORY_UNIT_EXISTS", IdsExist):
                        found = await import_memory(self.store, target, path, form)
            finally:
                if not options.dry_run:
                    self.memory_cache.drop(tenant, user_id)
        if not options.dry_run:
            self.enqueue(tenant, user_id)
        return found

"""Exports memories to files, and imports them."""

import asyncio
import tempfile
from pathlib import Path
from typing import IO

from api.errors import ApiError, refusing
from api.memory.memory_system import MemorySystem
from api.memory.transfers.export_memory import export_memory
from api.memory.transfers.import_memory import IdsExist, ImportTarget, import_memory
from api.memory.transfers.memory_document import DocumentInvalid, Form
from api.schemas.memory_work import MemoryImportView


async def export_file(memory: MemorySystem, tenant: str, user_id: str, form: Form, *, vectors: bool) -> IO[bytes]:
    """Export a memory and return an open, already deleted file, which the caller closes.

    Raises ApiError if the user has no memory, and StoreError.
    """
    async with memory.cache.lock(tenant, user_id) as loaded:
        embedder = loaded.embedder if vectors else None
    with tempfile.TemporaryDirectory(prefix="cuebook-") as folder:
        path = Path(folder) / f"memory.{form}"
        if not await export_memory(memory.cache.store, tenant, user_id, path, form, embedder=embedder):
            raise ApiError("MEMORY_NOT_FOUND", "this user has no memory")
        return await asyncio.to_thread(path.open, "rb")


async def import_file(
    memory: MemorySystem, tenant: str, user_id: str, content: bytes, form: Form, *, is_trusted: bool, dry_run: bool
) -> MemoryImportView:
    """Import a file into a memory, completely or not at all. Raises ApiError and StoreError."""
    cache = memory.cache
    async with cache.lock(tenant, user_id) as loaded:  # no other task may number units meanwhile
        target = ImportTarget(
            tenant=tenant,
            user_id=user_id,
            memory_id=loaded.owner.memory_id,
            now=cache.clock(),
            is_trusted=is_trusted,
            dry_run=dry_run,
        )
        try:
            with tempfile.TemporaryDirectory(prefix="cuebook-") as folder:
                path = Path(folder) / f"memory.{form}"
                await asyncio.to_thread(path.write_bytes, content)
                with refusing("DOCUMENT_INVALID", DocumentInvalid), refusing("MEMORY_UNIT_EXISTS", IdsExist):
                    found = await import_memory(cache.store, target, path, form)
        finally:
            if not dry_run:
                cache.drop(tenant, user_id)
    if not dry_run:
        memory.worker.enqueue(tenant, user_id)
    return found

"""Memories as files: out of the record, with all that was said until then, and into it."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

from api.errors import ApiError
from api.memory.banks import Banks
from api.memory.transfers.document import DocumentInvalid, Form
from api.memory.transfers.exporting import export_memory
from api.memory.transfers.importing import IdsTaken, Imported, OnTaken, Target, import_memory
from runtime.ports import Clock, Ids
from store.memory.record import MemoryRecord


class Bringing(Struct, frozen=True, kw_only=True):
    """How a file becomes part of a memory."""

    form: Form
    on_taken: OnTaken = "refuse"
    is_trusted: bool = False
    dry_run: bool = False


class Carrying:
    """Takes memories out and brings them in. Raises StoreError."""

    def __init__(
        self, record: MemoryRecord, banks: Banks, clock: Clock, ids: Ids, notice: Callable[[str, str], None]
    ) -> None:
        self._record = record
        self._banks = banks
        self._clock = clock
        self._ids = ids
        self._notice = notice

    async def out(self, tenant: str, user_id: str, form: Form, *, vectors: bool) -> IO[bytes]:
        """A memory as an open file that is nowhere else; the caller closes it. Raises ApiError where there is none."""
        async with self._banks.held(tenant, user_id) as loaded:
            embedder = loaded.embedder if vectors else None
        with _folder() as folder:
            path = folder / f"memory.{form}"
            written = await export_memory(self._record, tenant, user_id, path, form, embedder=embedder)
            if written is None:
                raise ApiError("MEMORY_NOT_FOUND", "nothing has been remembered of this user")
            return await asyncio.to_thread(path.open, "rb")

    async def into(self, tenant: str, user_id: str, content: bytes, how: Bringing) -> Imported:
        """Bring a file into a memory, whole or not at all. Raises ApiError."""
        async with self._banks.held(tenant, user_id) as loaded:  # so that nobody else gives numbers meanwhile
            target = Target(
                tenant=tenant,
                user_id=user_id,
                memory_id=loaded.owner.memory_id,
                now=self._clock(),
                on_taken=how.on_taken,
                is_trusted=how.is_trusted,
                dry_run=how.dry_run,
            )
            try:
                with _folder() as folder:
                    path = folder / f"memory.{how.form}"
                    await asyncio.to_thread(path.write_bytes, content)
                    found = await import_memory(self._record, target, path, how.form)
            except DocumentInvalid as error:
                raise ApiError("DOCUMENT_INVALID", str(error)) from error
            except IdsTaken as error:
                raise ApiError("MEMORY_UNIT_TAKEN", str(error)) from error
            finally:
                if not how.dry_run:
                    self._banks.drop(tenant, user_id)
        if not how.dry_run:
            self._notice(tenant, user_id)
        return found


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cuebook-") as folder:
        yield Path(folder)

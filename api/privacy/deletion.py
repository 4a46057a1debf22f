"""Deletes sessions, and users with all their data, from the database and from memory."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import structlog
from msgspec import Struct
from msgspec.structs import replace

from api.auth.api_keys import ApiKeys
from api.errors import require_session
from api.local_files.atomic_files import create_private
from api.schemas.users import ReceiptView
from api.sessions.chat import Chat
from api.sessions.turn_runner import TurnRunner
from store.interface.errors import FolderUnwritable, StoreError, write_failure
from store.interface.private_files import make_folder
from store.interface.rows import is_uuid

FOLDER = "erasures"
"""Folder of a file for each erasure after which the files of its tenant are not deleted yet; it contains the tenant."""

log = structlog.get_logger()


Forget: TypeAlias = Callable[[str], Awaitable[None]]
"""Removes the files of a tenant that the server wrote from the database, so that none contains erased data."""


class Deletion(Struct, frozen=True):
    """Deletes sessions and users of all tenants."""

    chat: Chat
    runner: TurnRunner
    keys: ApiKeys
    copies: Sequence[Forget]

    @property
    def _folder(self) -> Path:
        return self.runner.settings.data / FOLDER

    async def delete(self, tenant: str, session_id: str, expected_turn: int | None) -> None:
        """Delete a session after its running turn. Raises ApiError SESSION_NOT_FOUND, SESSION_BUSY, TURN_CONFLICT."""
        require_session(is_uuid(session_id), session_id)
        is_deleted = await self.chat.run_shielded(self._delete(tenant, session_id, expected_turn))
        require_session(is_deleted, session_id)

    async def _delete(self, tenant: str, session_id: str, expected_turn: int | None) -> bool:
        async with self.chat.locks.hold((tenant, session_id)):
            if expected_turn is not None:  # else a session whose state cannot be read can be deleted too
                self.chat.require_turn(await self.chat.session(tenant, session_id), expected_turn)
            try:
                start = await self.runner.store.sessions.start(tenant, session_id)
                if start is None:
                    return False
                async with self.runner.memory_system.exclusive_for_erasure(tenant, start.user_id):
                    return await self.runner.store.maintenance.delete_session(tenant, session_id)
            finally:
                self.chat.evict(tenant, session_id)

    async def erase(self, tenant: str, user_id: str, *, compact: bool) -> ReceiptView:
        """Erase a user with all sessions after their running turns; with `compact` also from the database file.

        The erasure continues if the caller is cancelled, and `finish` completes it after a restart. Raises ApiError
        SESSION_BUSY, CompactionRunning and DiskTooSmall; then nothing is deleted.
        """
        if compact:
            await self.runner.store.maintenance.require_compactable()
        receipt = await self.chat.run_shielded(self._erase_with_copies(tenant, user_id))
        if not compact:
            return receipt
        try:
            await self.runner.store.maintenance.compact()
        except StoreError as error:  # the user is erased anyway, and the receipt says so
            log.warning("not compacted after an erasure", problem=str(error), receipt=receipt.receipt_id)
            return receipt
        return replace(receipt, compacted=True)

    async def finish(self) -> None:
        """Delete the files that may contain erased data because a process died during an erasure."""
        for unfinished in await asyncio.to_thread(lambda: list(self._folder.glob("*"))):
            await self.drop_copies(await asyncio.to_thread(unfinished.read_text, "utf-8"))
            await asyncio.to_thread(unfinished.unlink)

    async def drop_copies(self, tenant: str) -> None:
        """Delete the files of this server that may contain data of an erased user, made for analytics."""
        for forget in self.copies:
            await forget(tenant)

    async def _erase_with_copies(self, tenant: str, user_id: str) -> ReceiptView:
        receipt = await self._erase(tenant, user_id)
        await self.drop_copies(tenant)
        await asyncio.to_thread((self._folder / receipt.receipt_id).unlink, missing_ok=True)
        return receipt

    async def _erase(self, tenant: str, user_id: str) -> ReceiptView:
        locked_ids: set[str] = set()
        async with self.chat.creations.block((tenant, user_id)), AsyncExitStack() as locks:
            while more := set(await self.runner.store.sessions.ids_of_user(tenant, user_id)) - locked_ids:
                for session_id in sorted(more):
                    await locks.enter_async_context(self.chat.locks.hold((tenant, session_id)))
                locked_ids |= more
            receipt_id, now = self.runner.ids(), self.runner.clock()
            try:
                async with self.runner.memory_system.exclusive_for_erasure(tenant, user_id):
                    await asyncio.to_thread(_note_unfinished, self._folder / receipt_id, tenant)
                    erased = await self.runner.store.maintenance.erase_user(tenant, user_id, receipt_id, now)
                locked_ids |= set(erased.sessions)
            finally:
                for session_id in locked_ids:
                    self.chat.evict(tenant, session_id)
                self.runner.spending.forget(tenant, user_id)
                self.keys.forget(tenant, user_id)
        return ReceiptView(receipt_id=receipt_id, erased_at=now, counts=erased.counts, compacted=False)


def _note_unfinished(path: Path, tenant: str) -> None:
    try:
        make_folder(path.parent)
        create_private(path, tenant.encode())
    except OSError as error:
        raise write_failure(error, "the note that an erasure began", FolderUnwritable(path.parent, error)) from error

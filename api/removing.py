"""Removing sessions, and users with all that is known of them: from the record, and from the memory of the server."""

from contextlib import AsyncExitStack
from datetime import datetime

import structlog
from msgspec import Struct

from api.access.keys import Keys
from api.analytics.files import AnalyticsFiles
from api.analytics.schedule import Snapshots
from api.chat import Chat
from api.errors import ApiError
from api.running import Running
from store.errors import StoreError
from store.record import Record
from store.rows import is_uuid

log = structlog.get_logger()


class Receipt(Struct, frozen=True):
    """What was erased of a user, whom it does not name."""

    receipt_id: str
    erased_at: datetime
    counts: dict[str, int]
    compacted: bool


class Removing:
    """What can be removed, of all tenants."""

    def __init__(
        self, chat: Chat, running: Running, keys: Keys, analytics: AnalyticsFiles, snapshots: Snapshots
    ) -> None:
        self._chat = chat
        self._analytics = analytics
        self._snapshots = snapshots
        self._keys = keys
        self._record: Record = running.record
        self._clock = running.clock
        self._ids = running.ids
        self._spending = running.spending
        self._house = running.house

    async def delete(self, tenant: str, session_id: str) -> None:
        """Removes a session, once the turn it takes is over. Raises ApiError SESSION_NOT_FOUND, SESSION_BUSY."""
        if not is_uuid(session_id) or not await self._chat.to_its_end(self._delete(tenant, session_id)):
            raise ApiError("SESSION_NOT_FOUND", "Session not found", context={"sessionId": session_id})

    async def _delete(self, tenant: str, session_id: str) -> bool:
        async with self._chat.alone(tenant, session_id):
            try:
                user_id = await self._owner(tenant, session_id)
                if user_id is None:
                    return False
                async with self._house.removing(tenant, user_id):
                    return await self._record.delete_session(tenant, session_id)
            finally:
                self._chat.removed(tenant, session_id)

    async def _owner(self, tenant: str, session_id: str) -> str | None:
        start = await self._record.session_start(tenant, session_id)
        return None if start is None else start.user_id

    async def erase(self, tenant: str, user_id: str, *, compact: bool) -> Receipt:
        """Removes a user with all sessions, once the turns they take are over; with `compact` also from the file.

        Raises ApiError SESSION_BUSY, CompactionRunning and DiskTooSmall; then nothing is removed.
        """
        if compact:
            await self._record.require_compactable()
        receipt = await self._chat.to_its_end(self._erase(tenant, user_id))
        await self._analytics.drop(tenant)
        await self._snapshots.forget(tenant)
        if not compact:
            return receipt
        try:
            await self._record.compact()
        except StoreError as error:  # the user is erased all the same, and has a receipt that says so
            log.warning("not compacted after an erasure", problem=str(error), receipt=receipt.receipt_id)
            return receipt
        return Receipt(receipt.receipt_id, receipt.erased_at, receipt.counts, compacted=True)

    async def _erase(self, tenant: str, user_id: str) -> Receipt:
        alone: set[str] = set()
        async with self._chat.unbegun(tenant, user_id), AsyncExitStack() as held:
            while more := set(await self._record.user_session_ids(tenant, user_id)) - alone:
                for session_id in sorted(more):
                    await held.enter_async_context(self._chat.alone(tenant, session_id))
                alone |= more
            receipt_id, now = self._ids(), self._clock()
            try:
                async with self._house.removing(tenant, user_id):
                    erased = await self._record.erase_user(tenant, user_id, receipt_id, now)
                alone |= set(erased.sessions)
            finally:
                for session_id in alone:
                    self._chat.removed(tenant, session_id)
                self._spending.forget(tenant, user_id)
                self._keys.forget(tenant, user_id)
        return Receipt(receipt_id, now, dict(erased.counts), compacted=False)

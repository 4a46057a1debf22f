"""The keys of the API: made, looked at, revoked; those that are good are in memory, found by the digest of their text.

One process holds the record, so that what is revoked here is revoked.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Coroutine, Mapping
from datetime import datetime, timedelta
from typing import Any, get_args

import structlog
from msgspec import Struct

from api.caller import Caller, Role
from api.errors import ApiError
from api.schemas.keys import NewKey
from runtime.ports import Clock
from store.errors import RowRefused, StoreError
from store.fetch import Page
from store.record import Record
from store.rows import KeyRow

PREFIX = "cbk"
USE_NOTED = timedelta(hours=1)
"""How often it is written down that a key is used: a write for every request would double the cost of most."""

log = structlog.get_logger()


def digest_of(text: str) -> str:
    """What is kept of a key. It has 256 random bits and nothing of it can be guessed, so that a plain hash will do."""
    return hashlib.sha256(text.encode()).hexdigest()


class Known(Struct):
    """A key that is not revoked, and who comes with it."""

    row: KeyRow
    caller: Caller
    revoked: asyncio.Event
    """Ends what was begun with it."""
    used_at: datetime | None


class Made(Struct, frozen=True):
    """A new key, with its text, which nobody will see again."""

    row: KeyRow
    text: str

    def __repr__(self) -> str:
        return f"Made({self.row!r})"


class Keys:
    """The keys of all tenants."""

    def __init__(self, record: Record, clock: Clock) -> None:
        self._record = record
        self._clock = clock
        self._known: dict[str, Known] = {}
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.are_loaded = False
        self.any_made = False
        """Whether the record ever had a key: then nobody comes without one, though all may be revoked."""

    async def load(self) -> None:
        """Reads them from the record, once. Raises StoreError."""
        async with self._changing:
            if self.are_loaded:
                return
            found = await self._record.known_keys()
            for row in found.live:
                self._remember(row)
            self.any_made = found.any_made
            self.are_loaded = True

    async def close(self) -> None:
        """Waits for what is still to be written down."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    # -- a request ----------------------------------------------------------------------------------------------------

    def holder(self, text: str) -> Known | None:
        """The key of this text, if it is good."""
        known = self._known.get(digest_of(text))
        if known is None:
            return None
        now = self._clock()
        if known.row.expires_at is not None and known.row.expires_at <= now:
            return None
        if known.used_at is None or now - known.used_at >= USE_NOTED:
            known.used_at = now
            self._task(self._noted(known.row, now))
        return known

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _noted(self, row: KeyRow, now: datetime) -> None:
        try:
            await self._record.note_key_use(row.tenant, row.key_id, now)
        except StoreError as error:
            log.warning("the use of a key was not noted", key=row.key_id, problem=str(error))

    # -- changes ------------------------------------------------------------------------------------------------------

    async def make(self, tenant: str, new: NewKey) -> Made:
        """Makes a key. Raises ApiError REQUEST_INVALID, StoreError."""
        await self.load()
        now = self._clock()
        key_id = secrets.token_hex(8)
        text = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
        row = KeyRow(
            tenant=tenant,
            key_id=key_id,
            name=new.name,
            digest=digest_of(text),
            roles=sorted(set(new.roles)),
            user_id=new.user_id,
            created_at=now,
            expires_at=now + timedelta(days=new.expires_days) if new.expires_days is not None else None,
        )
        await asyncio.shield(self._task(self._keep(row)))
        return Made(row, text)

    async def _keep(self, row: KeyRow) -> None:
        async with self._changing:
            try:
                await self._record.add_key(row)
            except RowRefused as error:
                raise ApiError("REQUEST_INVALID", str(error)) from error
            self._remember(row)
            self.any_made = True

    async def revoke(self, tenant: str, key_id: str) -> None:
        """Revokes a key at once: what it had begun to listen to ends too. Raises ApiError KEY_NOT_FOUND, StoreError.

        It goes on when whoever asked for it is gone: a key that is revoked in the record must be so in memory.
        """
        await self.load()
        await asyncio.shield(self._task(self._revoke(tenant, key_id)))

    async def _revoke(self, tenant: str, key_id: str) -> None:
        async with self._changing:
            known = self._by_id(tenant).get(key_id)
            if known is None:
                raise ApiError("KEY_NOT_FOUND", "there is no such key, or it was revoked before")
            await self._record.revoke_key(tenant, key_id, self._clock())
            del self._known[known.row.digest]
            known.revoked.set()

    def forget(self, tenant: str, user_id: str) -> None:
        """Lets go of the keys that were bound to a user who is erased; what they had begun to listen to ends."""
        for digest, known in list(self._known.items()):
            if (known.row.tenant, known.row.user_id) == (tenant, user_id):
                del self._known[digest]
                known.revoked.set()

    async def page(self, tenant: str, limit: int, cursor: str | None) -> Page[KeyRow]:
        """A page of a tenant's keys, the newest first, also those that were revoked. Raises StoreError."""
        return await self._record.keys(tenant, limit=limit, cursor=cursor)

    def _by_id(self, tenant: str) -> Mapping[str, Known]:
        return {known.row.key_id: known for known in self._known.values() if known.row.tenant == tenant}

    def _remember(self, row: KeyRow) -> None:
        roles: frozenset[Role] = frozenset(role for role in get_args(Role) if role in row.roles)
        caller = Caller(row.tenant, roles, row.user_id, f"key {row.key_id}")
        self._known[row.digest] = Known(row, caller, asyncio.Event(), row.last_used_at)

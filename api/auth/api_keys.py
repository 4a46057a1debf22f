"""API keys: created, listed and revoked. Valid keys are cached in memory by the digest of their text.

A key revoked here is revoked here at once, and within a second on other servers on the same database.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, get_args

import structlog
from msgspec import Struct

from api.auth.principal import Principal
from api.background import retain
from api.errors import ApiError, refusing
from api.schemas.keys import NewKey, Role
from runtime.state.ports import Clock
from store.interface.errors import RowRefused, StoreError
from store.interface.rows import KeyRow
from store.store import Store

PREFIX = "cbk"
USE_NOTED = timedelta(hours=1)
"""How often the use of a key is recorded: a write per request would double the cost of most requests."""

log = structlog.get_logger()


def digest_of(text: str) -> str:
    """Return the stored digest of a key. A key has 256 random bits and cannot be guessed, so a plain hash suffices."""
    return hashlib.sha256(text.encode()).hexdigest()


class KnownKey(Struct):
    """A key that is not revoked, and its principal."""

    row: KeyRow
    principal: Principal
    revoked: asyncio.Event
    """Set when the key is revoked; ends its streams."""
    used_at: datetime | None


class CreatedKey(Struct, frozen=True):
    """A new key with its text, which is not stored."""

    row: KeyRow
    text: str

    def __repr__(self) -> str:
        return f"CreatedKey({self.row!r})"


class ApiKeys:
    """The keys of all tenants."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cache: dict[str, KnownKey] = {}
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.are_loaded = False
        self.any_made = False
        """Whether the database ever had a key: then every request needs one, even if all are revoked."""

    async def load(self) -> None:
        """Load the keys from the database, once. Raises StoreError."""
        if not self.are_loaded:
            await self.reload()

    async def reload(self) -> None:
        """Read the keys again, after another server changed some; end the streams of revoked ones."""
        async with self._changing:
            known = await self._store.keys.known()
            live = {row.digest for row in known.live}
            for digest in self._cache.keys() - live:
                self._cache.pop(digest).revoked.set()
            for row in known.live:
                if row.digest not in self._cache:
                    self._remember(row)
            self.any_made, self.are_loaded = known.any_made, True

    async def close(self) -> None:
        """Wait for pending writes."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    # -- a request ----------------------------------------------------------------------------------------------------

    def holder(self, text: str) -> KnownKey | None:
        """Return the valid key with this text, or None."""
        known = self._cache.get(digest_of(text))
        if known is None:
            return None
        now = self._clock()
        if known.row.expires_at is not None and known.row.expires_at <= now:
            return None
        if known.used_at is None or now - known.used_at >= USE_NOTED:
            known.used_at = now
            self._task(self._record_use(known.row, now))
        return known

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return retain(self._tasks, asyncio.create_task(work))

    async def _record_use(self, row: KeyRow, now: datetime) -> None:
        try:
            await self._store.keys.note_use(row.tenant, row.key_id, now)
        except StoreError as error:
            log.warning("the use of a key was not recorded", key=row.key_id, problem=str(error))

    # -- changes ------------------------------------------------------------------------------------------------------

    async def make(self, tenant: str, new: NewKey) -> CreatedKey:
        """Create a key. Raises ApiError REQUEST_INVALID, StoreError."""
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
        await asyncio.shield(self._task(self._save(row)))
        return CreatedKey(row, text)

    async def _save(self, row: KeyRow) -> None:
        async with self._changing:
            with refusing("REQUEST_INVALID", RowRefused):
                await self._store.keys.add(row)
            self._remember(row)
            self.any_made = True

    async def revoke(self, tenant: str, key_id: str) -> None:
        """Revoke a key at once and end its streams. Raises ApiError KEY_NOT_FOUND, StoreError.

        Continues if the caller is cancelled: a key revoked in the database must be revoked in memory too.
        """
        await self.load()
        await asyncio.shield(self._task(self._revoke(tenant, key_id)))

    async def _revoke(self, tenant: str, key_id: str) -> None:
        async with self._changing:
            row = await self._store.keys.get(tenant, key_id)  # another server may have just made it
            if row is None or row.revoked_at is not None:
                raise ApiError("KEY_NOT_FOUND", "there is no such key, or it is revoked already")
            await self._store.keys.revoke(tenant, key_id, self._clock())
            known = self._cache.pop(row.digest, None)
            if known is not None:
                known.revoked.set()

    def forget(self, tenant: str, user_id: str) -> None:
        """Drop the keys that are bound to an erased user, and end their streams."""
        for digest, known in list(self._cache.items()):
            if (known.row.tenant, known.row.user_id) == (tenant, user_id):
                del self._cache[digest]
                known.revoked.set()

    def _remember(self, row: KeyRow) -> None:
        roles: frozenset[Role] = frozenset(role for role in get_args(Role) if role in row.roles)
        principal = Principal(row.tenant, roles, row.user_id, f"key {row.key_id}", row.name)
        self._cache[row.digest] = KnownKey(row, principal, asyncio.Event(), row.last_used_at)

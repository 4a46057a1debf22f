"""API keys."""

from datetime import datetime
from typing import Protocol

from store.interface.pages import Page
from store.interface.rows import KeyRow, KnownKeys


class KeyRepository(Protocol):
    """Store and read API keys."""

    async def add(self, key: KeyRow) -> None:
        """Add an API key. Raises RowRefused if its tenant has too many."""

    async def revoke(self, tenant: str, key_id: str, now: datetime) -> None:
        """Revoke an API key; a revoked key is not changed."""

    async def note_use(self, tenant: str, key_id: str, now: datetime) -> None:
        """Store when an API key was last used."""

    async def known(self) -> KnownKeys:
        """Return the keys of all tenants that are not revoked, to find the owner of a key."""

    async def get(self, tenant: str, key_id: str) -> KeyRow | None:
        """Return a key, also one that is revoked."""

    async def page(self, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[KeyRow]:
        """Return a page of a tenant's keys, the newest first, including revoked keys. Raises CursorInvalid."""

"""Verification over PostgreSQL: the rules are checked in the mirror, as of the moment at which it was refreshed.

Memories are fixed in the database itself.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from store.analytics.postgres_mirror import PostgresMirror
from store.duckdb.connection import DuckDBConnection
from store.postgres.engine import PostgresEngine
from store.verification import rules
from store.verification.rules import Rule
from store.verification.session_parts import Place, SessionSize
from store.verification.verification_repository import VerificationRepository

T = TypeVar("T")


class _MirrorEngine:
    """Reads in the mirror, writes to the database."""

    def __init__(self, engine: PostgresEngine, mirror: PostgresMirror) -> None:
        self._mirror = mirror
        self.read_durable, self.write = engine.read_durable, engine.write

    async def read(self, work: Callable[[DuckDBConnection], T], *, is_fresh: bool = False) -> T:
        """Run a function in a thread, with the mirror as of its last refresh or of now. Raises StoreUnavailable."""

        def read() -> T:
            with self._mirror.opened(is_fresh=is_fresh) as connection:
                return work(connection)

        return await asyncio.to_thread(read)


class PostgresVerification(VerificationRepository):
    """Read the data of all tenants for verification, and fix memories."""

    def __init__(self, engine: PostgresEngine, mirror: PostgresMirror) -> None:
        self._mirror_engine = _MirrorEngine(engine, mirror)
        super().__init__(self._mirror_engine)

    async def refresh(self) -> None:
        """Refresh the mirror."""
        await self._mirror_engine.read(lambda _: None, is_fresh=True)

    async def session_count(self) -> int:
        """Refresh the mirror, and return the number of sessions of all tenants."""
        await self.refresh()
        return await super().session_count()

    async def sessions_after(self, after: Place | None, limit: int) -> list[SessionSize]:
        """Return at most `limit` sessions after the tenant and session `after`; the first ones after a refresh."""
        if after is None:
            await self.refresh()
        return await super().sessions_after(after, limit)

    async def fix(self, rule: Rule, tenant: str, user_id: str) -> None:
        """Rebuild the derived rows of a memory that violated a rule at the last refresh, and have not changed since."""
        keys = await self._engine.read(lambda mirror: rules.broken_keys(mirror.cursor, rule, tenant, user_id))
        await self._engine.write(lambda connection: rules.fix(connection, rule, tenant, user_id, keys))

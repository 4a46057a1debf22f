"""Verification over PostgreSQL: the rules are checked in the mirror, as of the moment at which it was refreshed.

Memories are fixed in the database itself.
"""

from store.analytics.postgres_mirror import ALL, PostgresMirror
from store.postgres.engine import PostgresEngine
from store.verification import rules
from store.verification.rules import Rule
from store.verification.session_parts import Place, SessionSize
from store.verification.verification_repository import VerificationRepository


class _MirrorEngine:
    """Reads in the mirror, writes to the database."""

    def __init__(self, engine: PostgresEngine, mirror: PostgresMirror) -> None:
        self.read, self.read_durable, self.write = mirror.read, engine.read_durable, engine.write


class PostgresVerification(VerificationRepository):
    """Read the data of all tenants for verification, and fix memories."""

    def __init__(self, engine: PostgresEngine, mirror: PostgresMirror) -> None:
        self._mirror = mirror
        super().__init__(_MirrorEngine(engine, mirror))

    async def refresh(self) -> None:
        """Refresh the mirror."""
        await self._mirror.read(lambda _: None, ALL)

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

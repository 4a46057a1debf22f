"""Verification over PostgreSQL: the rules are checked in the mirror, as of the moment at which it was refreshed.

Memories are fixed in the database itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from store.analytics.postgres_mirror import PostgresMirror
from store.duckdb.connection import DuckDBConnection
from store.interface.findings import Finding
from store.interface.rows import ScriptTextRow
from store.postgres.engine import PostgresEngine
from store.sql.script_texts import texts_after
from store.verification import rules, session_parts
from store.verification.rules import Rule
from store.verification.session_parts import Place, SessionPart, SessionSize

T = TypeVar("T")


class PostgresVerification:
    """Read the data of all tenants for verification, and fix memories."""

    def __init__(self, engine: PostgresEngine, mirror: PostgresMirror) -> None:
        self._engine = engine
        self._mirror = mirror

    async def refresh(self) -> None:
        """Refresh the mirror."""
        await self._read(lambda _: None, is_fresh=True)

    async def session_count(self) -> int:
        """Refresh the mirror, and return the number of sessions of all tenants."""
        return await self._read(lambda connection: session_parts.session_count(connection.cursor), is_fresh=True)

    async def sessions_after(self, after: Place | None, limit: int) -> list[SessionSize]:
        """Return at most `limit` sessions of all tenants after the tenant and session `after`, in order."""
        return await self._read(
            lambda connection: session_parts.sessions_after(connection.cursor, after, limit), is_fresh=after is None
        )

    async def parts(self, places: Sequence[Place], first: int, last: int, *, every_state: bool) -> list[SessionPart]:
        """Return turns `first` to `last` of these sessions; deleted sessions are left out."""
        return await self._read(
            lambda connection: session_parts.read_parts(connection.cursor, places, first, last, every_state=every_state)
        )

    async def broken(self, rule: Rule) -> list[Finding]:
        """Return the violations of a rule, at most FOUND_MAX."""
        return await self._read(lambda connection: rules.broken(connection.cursor, rule))

    async def fix(self, rule: Rule, tenant: str, user_id: str) -> None:
        """Rebuild the derived rows of a memory that violated a rule at the last refresh, and have not changed since."""
        keys = await self._read(lambda connection: rules.broken_keys(connection.cursor, rule, tenant, user_id))
        await self._engine.write(lambda connection: rules.fix(connection, rule, tenant, user_id, keys))

    async def texts_after(self, after: tuple[str, str] | None, limit: int) -> list[ScriptTextRow]:
        """Return at most `limit` texts of all tenants after the tenant and digest `after`, in order."""
        return await self._read(lambda connection: texts_after(connection, after, limit))

    async def _read(self, work: Callable[[DuckDBConnection], T], *, is_fresh: bool = False) -> T:
        def read() -> T:
            with self._mirror.opened(is_fresh=is_fresh) as connection:
                return work(connection)

        return await asyncio.to_thread(read)

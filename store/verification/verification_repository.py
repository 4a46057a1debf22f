"""The part of the store that verification uses."""

from abc import ABC, abstractmethod

from store.duckdb.connection import with_cursor
from store.sql.repository import Repository, reads
from store.sql.script_texts import texts_after
from store.verification import rules, session_parts
from store.verification.rules import Rule


class VerificationRepository(Repository, ABC):
    """Read the data of all tenants for verification, in DuckDB, and fix memories. Raises the same errors as `Store`."""

    session_count = reads(with_cursor(session_parts.session_count))
    sessions_after = reads(with_cursor(session_parts.sessions_after))
    parts = reads(with_cursor(session_parts.read_parts))
    broken = reads(with_cursor(rules.broken))
    texts_after = reads(texts_after)

    @abstractmethod
    async def refresh(self) -> None:
        """Let the following reads see the present state of the database."""

    @abstractmethod
    async def fix(self, rule: Rule, tenant: str, user_id: str) -> None:
        """Rebuild the derived rows of a memory that violated a rule at the last refresh, and have not changed since."""

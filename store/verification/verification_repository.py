"""The part of the store that verification uses."""

from store.duckdb.connection import DuckDBConnection, with_cursor
from store.sql.repository import Repository, reads, writes
from store.sql.script_texts import texts_after
from store.verification import rules, session_parts
from store.verification.rules import Rule


def _fix(connection: DuckDBConnection, rule: Rule, tenant: str, user_id: str) -> None:
    rules.fix(connection, rule, tenant, user_id, rules.broken_keys(connection.cursor, rule, tenant, user_id))


class VerificationRepository(Repository):
    """Read the data of all tenants for verification, in DuckDB, and fix memories. Raises the same errors as `Store`."""

    session_count = reads(with_cursor(session_parts.session_count))
    sessions_after = reads(with_cursor(session_parts.sessions_after))
    parts = reads(with_cursor(session_parts.read_parts))
    broken = reads(with_cursor(rules.find_violations))
    texts_after = reads(texts_after)

    fix = writes(_fix)

    async def refresh(self) -> None:
        """Let the following reads see the present state of the database; one in DuckDB always does."""

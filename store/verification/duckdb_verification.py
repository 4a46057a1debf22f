"""Verification over DuckDB: the rules are checked in the database itself."""

from store.duckdb.connection import DuckDBConnection
from store.sql.repository import writes
from store.verification import rules
from store.verification.rules import Rule
from store.verification.verification_repository import VerificationRepository


def _fix(connection: DuckDBConnection, rule: Rule, tenant: str, user_id: str) -> None:
    rules.fix(connection, rule, tenant, user_id, rules.broken_keys(connection.cursor, rule, tenant, user_id))


class DuckDBVerification(VerificationRepository):
    """Read the data of all tenants for verification, and fix memories."""

    fix = writes(_fix)

    async def refresh(self) -> None:
        """Reads see the present state."""

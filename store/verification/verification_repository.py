"""The part of the store that verification uses, in any database."""

from collections.abc import Sequence
from typing import Protocol

from store.interface.findings import Finding
from store.interface.rows import ScriptTextRow
from store.verification.rules import Rule
from store.verification.session_parts import Place, SessionPart, SessionSize


class VerificationRepository(Protocol):
    """Read the data of all tenants for verification, and fix memories. Raises the same errors as `Store`."""

    async def refresh(self) -> None:
        """Let the following reads see the present state of the database."""

    async def session_count(self) -> int:
        """Return the number of sessions of all tenants."""

    async def sessions_after(self, after: Place | None, limit: int) -> list[SessionSize]:
        """Return at most `limit` sessions of all tenants after the tenant and session `after`, in order."""

    async def parts(self, places: Sequence[Place], first: int, last: int, *, every_state: bool) -> list[SessionPart]:
        """Return turns `first` to `last` of these sessions, of one moment; deleted sessions are left out.

        Without `every_state`, only the states of the latest turns are read.
        """

    async def broken(self, rule: Rule) -> list[Finding]:
        """Return the violations of a rule, at most FOUND_MAX."""

    async def fix(self, rule: Rule, tenant: str, user_id: str) -> None:
        """Rebuild the derived rows of a memory that violated a rule at the last refresh, and have not changed since."""

    async def texts_after(self, after: tuple[str, str] | None, limit: int) -> list[ScriptTextRow]:
        """Return at most `limit` texts of all tenants after the tenant and digest `after`, in order."""

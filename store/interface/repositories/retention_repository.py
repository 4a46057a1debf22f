"""Retention: the sessions that are due, and their redaction or deletion."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from store.interface.retention_rows import Due, DueByPolicy, Policy, RetentionResult


class RetentionRepository(Protocol):
    """Apply retention policies to the database."""

    async def counts(self, policies: Sequence[Policy], now: datetime) -> list[DueByPolicy]:
        """Count what each policy would redact or delete now; policies without a due session are left out."""

    async def due(self, policies: Sequence[Policy], now: datetime) -> list[Due]:
        """Return at most DUE_MAX due sessions of all tenants, those that have been inactive the longest first."""

    async def apply(
        self, tenant: str, session_ids: list[str], policies: Sequence[Policy], now: datetime
    ) -> RetentionResult:
        """Apply the policies to these sessions, all or none; the caller holds their locks."""

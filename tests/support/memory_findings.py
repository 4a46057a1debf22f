"""The findings of the verification in memories."""

from store.interface.findings import Finding
from store.store import Store
from store.verification.memory_rules import MEMORY_RULES


async def memory_findings(store: Store) -> list[Finding]:
    """Return all findings in the memories of a database."""
    await store.verification.refresh()
    return [finding for rule in MEMORY_RULES for finding in await store.verification.broken(rule)]

"""Rebuilds derived rows of memories that violate a rule; rows that are the truth are never changed."""

from api.memory.memory_system import MemorySystem
from store.interface.findings import Finding
from store.verification.memory_rules import MEMORY_RULES
from store.verification.rules import Rule
from store.verification.verification_repository import VerificationRepository


async def fix_memories(verification: VerificationRepository, memories: MemorySystem) -> list[Finding]:
    """Fix what can be rebuilt and return the fixed findings. Raises StoreError.

    Maintenance then completes the memories: it embeds units without a vector and summarises units without a parent.
    """
    fixed: list[Finding] = []
    await verification.refresh()
    for rule in MEMORY_RULES:
        if rule.fix:
            fixed += await _fix(verification, memories, rule)
    return fixed


async def _fix(verification: VerificationRepository, memories: MemorySystem, rule: Rule) -> list[Finding]:
    fixed: list[Finding] = []
    done: set[tuple[str, str]] = set()
    while True:  # the number of findings is limited: there may be more memories
        found = [(each, (each.tenant, each.user_id or "")) for each in await verification.broken(rule)]
        owners = dict.fromkeys(owner for _, owner in found if owner not in done)
        if not owners:
            return fixed
        for owner in owners:
            async with memories.cache.exclusive(*owner):  # it also drops the saved index, which may have the same rows
                await verification.fix(rule, *owner)
            memories.worker.enqueue(*owner)
        fixed += [each for each, owner in found if owner in owners]
        done.update(owners)
        await verification.refresh()

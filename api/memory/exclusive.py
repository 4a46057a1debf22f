"""Which of several servers on one database maintains a memory."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from api.background import background
from api.memory.loaded_memory import OwnerId
from store.interface.errors import StoreError
from store.interface.shared_database import SharedDatabase

CLAIM_S = 60
"""A server that died has a memory for so long."""
PROLONG_S = 15.0

log = structlog.get_logger()


class Exclusive:
    """Has a memory maintained by one server at a time. A server alone needs no claims."""

    def __init__(self, shared: SharedDatabase | None) -> None:
        self._shared = shared

    @property
    def has_others(self) -> bool:
        """Return whether other servers may use the database."""
        return self._shared is not None

    @asynccontextmanager
    async def claim(self, owner: OwnerId) -> AsyncIterator[bool]:
        """Claim a memory inside the context; the value is False if another server has it. Raises StoreError."""
        if self._shared is None:
            yield True
            return
        job = "memory " + hashlib.sha256("\0".join(owner).encode()).hexdigest()
        if not await self._shared.lead(job, CLAIM_S):
            yield False
            return
        try:
            async with background(self._prolong(self._shared, job), "the claim on a memory is not prolonged"):
                yield True
        finally:
            await _release(self._shared, job)

    async def _prolong(self, shared: SharedDatabase, job: str) -> None:
        while True:
            await asyncio.sleep(PROLONG_S)
            try:
                await shared.lead(job, CLAIM_S)
            except StoreError as error:
                log.warning("the claim on a memory could not be prolonged", problem=str(error))


async def _release(shared: SharedDatabase, job: str) -> None:
    try:
        await shared.stop_leading(job)
    except StoreError as error:  # it expires
        log.warning("the claim on a memory could not be released", problem=str(error))

"""Claims of memories: of several servers on one database, one at a time maintains a memory."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import structlog

from api.background import background, repeat
from api.memory.loaded_memory import OwnerId
from store.interface.errors import StoreError
from store.interface.shared_database import SharedDatabase

CLAIM_S = 60
"""How long a memory stays with a server that died."""
PROLONG_S = 15.0

log = structlog.get_logger()


@asynccontextmanager
async def claim(shared: SharedDatabase | None, owner: OwnerId) -> AsyncIterator[bool]:
    """Claim a memory inside the context, so that one server at a time maintains it; a server alone needs no claims.

    The value is False if another server has it. Raises StoreError.
    """
    if shared is None:
        yield True
        return
    job = "memory " + hashlib.sha256("\0".join(owner).encode()).hexdigest()
    if not await shared.lead(job, CLAIM_S):
        yield False
        return
    try:
        prolong = partial(shared.lead, job, CLAIM_S)
        prolonging = repeat(prolong, PROLONG_S, "the claim on a memory could not be prolonged", first_s=PROLONG_S)
        async with background(prolonging, "the claim on a memory is not prolonged"):
            yield True
    finally:
        try:
            await shared.stop_leading(job)
        except StoreError as error:  # it expires
            log.warning("the claim on a memory could not be released", problem=str(error))

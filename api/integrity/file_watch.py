"""Watches the database file, and logs once if it is no longer at its path."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from api.background import background
from store.store import Store

LOOK_S = 1.0

log = structlog.get_logger()


@asynccontextmanager
async def watching_file(store: Store) -> AsyncIterator[None]:
    """Watch the database file inside the context."""
    async with background(_watch(store), "the database file is not watched until the server is restarted"):
        yield


async def _watch(store: Store) -> None:
    lost: str | None = None
    while True:
        before, lost = lost, store.lost()
        if lost is not None and before is None:
            log.critical("the database file is lost: writes are refused", problem=lost)
        elif lost is None and before is not None:
            log.warning("the database file is at its path again: writes are accepted")
        await asyncio.sleep(LOOK_S)

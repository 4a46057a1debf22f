"""Logs that the database file is no longer at its path, once, whether or not anybody asks the server for anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from store.record import Record

LOOK_S = 1.0

log = structlog.get_logger()


@asynccontextmanager
async def watching_file(record: Record) -> AsyncIterator[None]:
    """Watch the database file meanwhile."""
    task = asyncio.create_task(_watch(record))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _watch(record: Record) -> None:
    lost: str | None = None
    while True:
        before, lost = lost, record.lost()
        if lost is not None and before is None:
            log.critical("the database file is lost: nothing is written any more", problem=lost)
        elif lost is None and before is not None:
            log.warning("the database file is at its path again: turns are taken")
        await asyncio.sleep(LOOK_S)

"""Run by test_durability: for a while the log cannot grow; then it can, and the process ends without closing."""

import asyncio
import os
import resource
import sys
from pathlib import Path

from store.interface.errors import StoreUnavailable
from store.open_store import open_store
from tests.support.store_rows import Conversation


async def main(folder: Path) -> None:
    store = open_store(folder)
    conversation = Conversation()
    await conversation.create(store)
    log = folder / "cuebook.duckdb.wal"
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 10_000, resource.RLIM_INFINITY))
    while True:
        try:
            await conversation.say(store)
        except StoreUnavailable:
            conversation.turns -= 1
            break
    refused_because = store.ready()
    assert refused_because is not None
    assert "too large" in refused_because
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    last = await conversation.say(store)
    assert store.ready() is None
    print(conversation.session_id, last.turn, flush=True)
    os._exit(0)


asyncio.run(main(Path(sys.argv[1])))

"""A compaction that cannot replace the file leaves the database open, closable and without another file."""

import asyncio
from pathlib import Path

from store.open_store import open_store
from tests.support.store_rows import Conversation


async def test_a_store_can_be_closed_while_the_file_is_replaced(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    talk = Conversation()
    await talk.create(store)
    loop, closing = asyncio.get_running_loop(), []

    def close_at(step: str) -> None:
        if step == "replacing the file":
            closing.append(asyncio.run_coroutine_threadsafe(store.close(), loop))
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0.1), loop).result()

    await store.maintenance.compact(close_at)
    await asyncio.wrap_future(closing[0])
    again = open_store(tmp_path)
    assert await again.sessions.start("clinic", talk.session_id) is not None
    await again.close()

"""A compaction that cannot replace the file leaves the database open, closable and without another file."""

import asyncio
import os
from pathlib import Path

import pytest

from store.duckdb.engine import READERS
from store.interface.errors import ReadTimedOut, StoreBusy, StoreUnavailable
from store.interface.private_files import sync
from store.open_store import open_store
from tests.support.duckdb_engine import engine_of
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


@pytest.mark.parametrize("place", ["file", "folder"])
async def test_a_failed_sync_leaves_a_database_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    store = open_store(tmp_path)
    talk = Conversation()
    await talk.create(store)

    def fail(path: Path) -> None:
        if path.is_dir() == (place == "folder"):
            raise OSError(5, "Input/output error")
        sync(path)

    with monkeypatch.context() as faulty:
        faulty.setattr("store.duckdb.database.sync", fail)
        with pytest.raises(StoreUnavailable, match="Input/output error"):
            await store.maintenance.compact()
    assert not engine_of(store).database.fresh.exists()
    await talk.say(store)
    await store.close()
    again = open_store(tmp_path)
    assert len(await again.turns.range("clinic", talk.session_id)) == 2
    await again.close()


async def test_reads_that_do_not_end_leave_no_other_file(tmp_path: Path) -> None:
    store = open_store(tmp_path, read_timeout_s=0.1)
    loop, reads = asyncio.get_running_loop(), []
    read_end, write_end = os.pipe()

    async def wait_for_byte() -> None:
        await engine_of(store).read(lambda _: os.read(read_end, 1))

    def read_at(step: str) -> None:
        if step == "writing the new file to disk":
            reads.extend(asyncio.run_coroutine_threadsafe(wait_for_byte(), loop) for _ in range(READERS))

    with pytest.raises(StoreBusy):
        await store.maintenance.compact(read_at)
    assert not engine_of(store).database.fresh.exists()
    os.write(write_end, bytes(READERS))
    assert [type(read.exception()) for read in reads] == [ReadTimedOut] * READERS
    await store.close()
    os.close(read_end)
    os.close(write_end)

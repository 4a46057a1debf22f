"""The state of the writing thread: how long it works, and that its end is never silent."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.engine import DuckDBEngine
from store.duckdb.writer import Writer
from store.duckdb_store import DuckDBStore
from store.interface.errors import RestartNeeded, StoreUnavailable
from store.open_store import open_store
from store.store import Store


@asynccontextmanager
async def writing(folder: Path) -> AsyncIterator[tuple[Store, Writer]]:
    database = Database.open(folder)
    writer = Writer(database)
    store = DuckDBStore(DuckDBEngine(database, writer))
    try:
        yield store, writer
    finally:
        await store.close()


async def test_a_disk_that_hangs_shows_as_a_growing_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with writing(tmp_path) as (store, writer):
        begun, disk_answers = threading.Event(), threading.Event()

        def hang(_: DuckDBConnection) -> None:
            begun.set()
            disk_answers.wait(60)

        assert (writer.lag_s, writer.waiting) == (0.0, 0)
        hanging = asyncio.create_task(writer.run(hang))
        await asyncio.to_thread(begun.wait, 60)
        queued = asyncio.create_task(writer.run(lambda _: None))
        await asyncio.sleep(0.01)
        first = store.writer_lag_s
        await asyncio.sleep(0.01)
        assert 0 < first < store.writer_lag_s
        assert writer.waiting == 1
        assert store.ready() is None
        monkeypatch.setattr("store.duckdb_store.LAG_MAX_S", 0.0)
        assert store.ready() == "a write has taken 0 s"
        disk_answers.set()
        await asyncio.gather(hanging, queued)
        async with asyncio.timeout(60):
            while store.writer_lag_s:
                await writer.run(lambda _: None)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_defect_that_ends_the_thread_fails_all_waiting_writes(tmp_path: Path, conversation) -> None:
    async with writing(tmp_path) as (store, writer):
        begun, go = threading.Event(), threading.Event()

        def defective(_: DuckDBConnection) -> None:
            begun.set()
            go.wait(60)
            raise ZeroDivisionError

        assert store.ready() is None
        failing = asyncio.create_task(writer.run(defective))
        await asyncio.to_thread(begun.wait, 60)
        waiting = [asyncio.create_task(writer.run(lambda _: None)) for _ in range(3)]
        await asyncio.sleep(0.01)
        go.set()
        outcomes = await asyncio.wait_for(asyncio.gather(failing, *waiting, return_exceptions=True), 60)
        assert [str(outcome) for outcome in outcomes] == ["the writing thread has ended"] * 4
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        await asyncio.to_thread(writer._thread.join, 60)
        assert "the writing thread has ended" in str(store.ready())
        with pytest.raises(StoreUnavailable, match="the database is closed"):
            await conversation.create(store)


async def test_failed_sync_of_the_folder_stops_writes_until_a_restart(
    tmp_path: Path, conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with writing(tmp_path) as (store, writer):
        with monkeypatch.context() as patched:
            patched.setattr("store.duckdb.database.sync", fail)
            with pytest.raises(RestartNeeded, match="could not be synced: Input/output error"):
                await conversation.create(store)
        writer._look()  # what the thread does while nothing is written
        with pytest.raises(RestartNeeded):
            await writer.ensure_durable()
        with pytest.raises(RestartNeeded):
            await writer.run(lambda _: None)
        assert "restart the server" in str(store.ready())
    again = open_store(tmp_path)
    assert again.ready() is None
    await again.close()


async def test_an_idle_server_is_ready_when_the_disk_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with writing(tmp_path) as (store, writer):
        with monkeypatch.context() as patched:
            patched.setattr("store.duckdb.database.Database.mark", fail)
            with pytest.raises(StoreUnavailable, match="No space left"):
                await writer.run(lambda _: None)
            assert "No space left" in str(store.ready())
        monkeypatch.setattr("store.duckdb.writer.LOOK_S", 0.01)
        async with asyncio.timeout(60):
            while True:
                if store.ready() is None:
                    break
                await asyncio.sleep(0.01)

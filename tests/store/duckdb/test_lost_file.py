"""The database file is deleted, moved or replaced while it is open: nothing is acknowledged that would be lost."""

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from store.duckdb.commit_mark import MARK
from store.duckdb.connection import DuckDBConnection
from store.interface.errors import DatabaseFileLost
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from store.store import Store
from tests.support.duckdb_engine import engine_of

WAL = f"{FILE_NAME}.wal"


def delete_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def delete_file(folder: Path) -> None:
    (folder / FILE_NAME).unlink()


def move_folder(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def restore_backup(folder: Path) -> None:
    """Replace the files by a copy, as a restored backup does."""
    folder.rename(folder.with_name("moved"))
    shutil.copytree(folder.with_name("moved"), folder)


def put_folder_at_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


async def save(store: Store, number: int) -> None:
    """Write something that is durable on return."""
    await engine_of(store).write(partial(_insert, number=number))


def _insert(connection: DuckDBConnection, number: int) -> None:
    connection.cursor.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER)")
    connection.cursor.execute("INSERT INTO numbers VALUES (?)", [number])


async def saved(store: Store) -> list[int]:
    rows = await engine_of(store).read(lambda connection: connection.rows("SELECT number FROM numbers"))
    return [number for (number,) in rows]


@pytest.mark.parametrize("lose", [delete_folder, delete_file, move_folder, restore_backup, put_folder_at_file])
async def test_nothing_is_written_to_a_lost_file(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    folder = tmp_path / "data"
    store = open_store(folder)
    await save(store, 1)
    assert store.ready() is None
    lose(folder)
    how = "replaced" if lose is restore_backup else "deleted or moved while the server had it open; put the file back"
    assert how in (store.ready() or "")
    for _ in range(2):
        with pytest.raises(DatabaseFileLost, match=how):
            await save(store, 2)
    with pytest.raises(DatabaseFileLost):
        await store.maintenance.compact()
    assert await saved(store) == [1]  # so that the messages can be rescued
    await store.close()


async def test_a_restored_backup_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = open_store(folder)
    for number in range(3):
        await save(store, number)
    restore_backup(folder)
    backup = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert backup.keys() == {FILE_NAME, WAL, FILE_NAME + MARK}
    with pytest.raises(DatabaseFileLost):
        await save(store, 3)
    await store.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == backup
    again = open_store(folder)
    assert await saved(again) == [0, 1, 2]
    await again.close()


async def test_a_file_that_is_back_takes_writes_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = open_store(folder)
    await save(store, 1)
    move_folder(folder)
    with pytest.raises(DatabaseFileLost):
        await save(store, 2)
    folder.with_name("moved").rename(folder)
    assert store.ready() is None
    await save(store, 3)
    await store.close()
    again = open_store(folder)
    assert await saved(again) == [1, 3]
    await again.close()


@pytest.mark.parametrize("more", [0, 1])
async def test_a_deleted_log_loses_nothing(tmp_path: Path, more: int) -> None:
    """What was committed to it is written to the database file: with the next commit, or within a second or two."""
    folder, copy = tmp_path / "data", tmp_path / "copy"
    store = open_store(folder)
    await save(store, 1)
    await save(store, 2)
    (folder / WAL).unlink()
    for number in range(more):
        await save(store, 3 + number)
    if not more:
        await _until_written(folder)
        async with engine_of(store).writer.pause():
            pass  # the writing thread has finished the checkpoint
    shutil.copytree(folder, copy)  # as a process that is killed now leaves it
    await store.close()
    again = open_store(copy)
    assert await saved(again) == [1, 2, 3][: 2 + more]
    await again.close()


async def _until_written(folder: Path) -> None:
    before = (folder / FILE_NAME).stat().st_mtime_ns
    async with asyncio.timeout(30):
        while True:
            if (folder / FILE_NAME).stat().st_mtime_ns != before:
                return
            await asyncio.sleep(0.05)


async def test_a_compaction_is_no_replaced_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    seen: list[str | None] = []
    await store.maintenance.compact(lambda _: seen.append(store.ready()))
    assert len(seen) > 3
    assert set(seen) == {None}
    await save(store, 2)
    assert await saved(store) == [2]
    await store.close()


async def test_checkpoints_are_no_lost_log(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(20):
        await save(store, number)
        if number % 5 == 0:
            await engine_of(store).write(lambda _: None)
            engine_of(store).database.cursor().execute("CHECKPOINT cuebook")
    assert store.ready() is None
    assert await saved(store) == list(range(20))
    await store.close()

"""The database file is deleted, moved or replaced while it is open: nothing is acknowledged that would be lost."""

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from store.database import FILE_NAME
from store.errors import DatabaseFileLost
from store.record import Record

WAL = f"{FILE_NAME}.wal"


def delete_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def delete_file(folder: Path) -> None:
    (folder / FILE_NAME).unlink()


def move_folder(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def restore_backup(folder: Path) -> None:
    """A copy of the files in their place, as a restored backup is."""
    folder.rename(folder.with_name("moved"))
    shutil.copytree(folder.with_name("moved"), folder)


def put_folder_at_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


async def save(record: Record, number: int) -> None:
    """A write that returns once it is durable."""
    await record._writing.run(partial(_insert, number=number))


def _insert(cursor: Any, number: int) -> None:
    cursor.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER)")
    cursor.execute("INSERT INTO numbers VALUES (?)", [number])


async def saved(record: Record) -> list[int]:
    rows = await record._readers.read(lambda cursor: cursor.execute("SELECT number FROM numbers").fetchall())
    return [number for (number,) in rows]


@pytest.mark.parametrize("lose", [delete_folder, delete_file, move_folder, restore_backup, put_folder_at_file])
async def test_nothing_is_written_to_a_lost_file(
    tmp_path: Path, opened: Callable[[Path], Record], lose: Callable[[Path], None]
) -> None:
    folder = tmp_path / "data"
    record = opened(folder)
    await save(record, 1)
    assert record.ready() is None
    lose(folder)
    how = "replaced" if lose is restore_backup else "deleted or moved"
    assert how in (record.ready() or "")
    for _ in range(2):
        with pytest.raises(DatabaseFileLost, match=how):
            await save(record, 2)
    with pytest.raises(DatabaseFileLost):
        await record.compact()
    assert await saved(record) == [1]  # for whoever wants to rescue what was said
    await record.close()


async def test_a_restored_backup_is_left_as_it_is(tmp_path: Path, opened: Callable[[Path], Record]) -> None:
    folder = tmp_path / "data"
    record = opened(folder)
    for number in range(3):
        await save(record, number)
    restore_backup(folder)
    backup = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert backup.keys() == {FILE_NAME, WAL}
    with pytest.raises(DatabaseFileLost):
        await save(record, 3)
    await record.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == backup
    again = opened(folder)
    assert await saved(again) == [0, 1, 2]
    await again.close()


async def test_a_file_that_is_back_takes_writes_again(tmp_path: Path, opened: Callable[[Path], Record]) -> None:
    folder = tmp_path / "data"
    record = opened(folder)
    await save(record, 1)
    move_folder(folder)
    with pytest.raises(DatabaseFileLost):
        await save(record, 2)
    folder.with_name("moved").rename(folder)
    assert record.ready() is None
    await save(record, 3)
    await record.close()
    again = opened(folder)
    assert await saved(again) == [1, 3]
    await again.close()


@pytest.mark.parametrize("more", [0, 1])
async def test_a_deleted_log_loses_nothing(tmp_path: Path, opened: Callable[[Path], Record], more: int) -> None:
    """What was committed to it is written to the database file: with the next commit, or within a second or two."""
    folder, copy = tmp_path / "data", tmp_path / "copy"
    record = opened(folder)
    await save(record, 1)
    await save(record, 2)
    (folder / WAL).unlink()
    for number in range(more):
        await save(record, 3 + number)
    if not more:
        await _until_written(folder)
    shutil.copytree(folder, copy)  # as a process that is killed now leaves it
    await record.close()
    again = opened(copy)
    assert await saved(again) == [1, 2, 3][: 2 + more]
    await again.close()


async def _until_written(folder: Path) -> None:
    before = (folder / FILE_NAME).stat().st_mtime_ns
    async with asyncio.timeout(30):
        while True:
            if (folder / FILE_NAME).stat().st_mtime_ns != before:
                return
            await asyncio.sleep(0.05)


async def test_a_compaction_is_no_replaced_file(tmp_path: Path, opened: Callable[[Path], Record]) -> None:
    record = opened(tmp_path)
    seen: list[str | None] = []
    await record.compact(lambda _: seen.append(record.ready()))
    assert len(seen) > 3
    assert set(seen) == {None}
    await save(record, 2)
    assert await saved(record) == [2]
    await record.close()


async def test_checkpoints_are_no_lost_log(tmp_path: Path, opened: Callable[[Path], Record]) -> None:
    record = opened(tmp_path)
    for number in range(20):
        await save(record, number)
        if number % 5 == 0:
            await record._writing.run(lambda cursor: None)
            record._database.cursor().execute("CHECKPOINT cuebook")
    assert record.ready() is None
    assert await saved(record) == list(range(20))
    await record.close()

"""A log that lost its end after a crash is noticed when the database is opened."""

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from store.duckdb.commit_mark import LOST, MARK
from store.duckdb.schema import known_migrations, migrate
from store.interface.errors import DatabaseUnreadable
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from tests.support.killed_process import kill_after, start
from tests.support.store_rows import Conversation

UNACKNOWLEDGED_BYTES = 40_003  # more than a commit of four turns takes, and not at the end of one


def beside(folder: Path, suffix: str) -> Path:
    return folder / (FILE_NAME + suffix)


def halve(log: Path) -> None:
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def cut_the_end(log: Path) -> None:
    """Cut more than one commit: the process may have been killed before it acknowledged the last one."""
    log.write_bytes(log.read_bytes()[:-UNACKNOWLEDGED_BYTES])


def list_of(folder: Path) -> list[Path]:
    return [*folder.iterdir()]


def empty(log: Path) -> None:
    log.write_bytes(b"")


def delete(log: Path) -> None:
    log.unlink()


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return the data folder of a process that was killed while it wrote turns."""
    kill_after(start("write_turns.py", tmp_path), 60)
    return tmp_path


@pytest.mark.gate
@pytest.mark.parametrize("damage", [halve, cut_the_end, empty, delete])
async def test_missing_commits_are_reported_until_they_are_accepted(
    killed: Path, damage: Callable[[Path], None]
) -> None:
    log = beside(killed, ".wal")
    damage(log)
    damaged = log.read_bytes() if log.exists() else None
    reader = open_store(killed, read_only=True)
    assert "lost acknowledged writes" in str(reader.lost_commits())
    await reader.close()
    for _ in range(2):  # a restart does not make it forgotten, nor do more turns
        store = open_store(killed)
        problem = store.ready()
        assert problem is not None
        assert "lost acknowledged writes" in problem
        assert str(beside(killed, LOST)) in problem
        await Conversation().create(store)
        await store.close()
    copies = [path for path in list_of(killed) if ".damaged-" in path.name]
    assert [path.read_bytes() for path in copies] == ([] if damaged is None else [damaged])
    assert ("The damaged log is at" in problem) == (damaged is not None)
    assert all(f"The damaged log is at {path}. Restore" in problem for path in copies)
    store = open_store(killed)
    beside(killed, LOST).unlink()
    assert store.ready() is None
    await store.close()
    store = open_store(killed)
    assert store.ready() is None
    await store.close()


@pytest.mark.gate
async def test_a_flipped_bit_of_the_log_is_never_silent(killed: Path, tmp_path: Path) -> None:
    content = beside(killed, ".wal").read_bytes()
    for part in range(8):
        folder = tmp_path / f"flipped-{part}"
        folder.mkdir()
        for suffix in ("", MARK):
            shutil.copy(beside(killed, suffix), beside(folder, suffix))
        flipped = bytearray(content)
        flipped[len(content) * part // 8] ^= 1 << part
        beside(folder, ".wal").write_bytes(flipped)
        try:
            store = open_store(folder)
        except DatabaseUnreadable as refused:
            assert str(beside(folder, ".wal")) in str(refused)
            beside(folder, ".wal").unlink()
            store = open_store(folder)
        assert "lost acknowledged writes" in str(store.ready())
        await store.close()


@pytest.mark.gate
@pytest.mark.parametrize("applied", [0, 1, len(known_migrations()) - 1])
async def test_a_database_whose_creation_was_interrupted_is_completed(tmp_path: Path, applied: int) -> None:
    created, folder = tmp_path / FILE_NAME, tmp_path / "data"
    connection = duckdb.connect(created)
    migrate(connection, created, known_migrations()[:applied])
    folder.mkdir()
    for path in (created, beside(tmp_path, ".wal")):
        if path.exists():
            shutil.copy(path, folder)
    connection.close()
    for _ in range(2):
        store = open_store(folder)
        assert store.ready() is None
        await Conversation().create(store)
        await store.close()


@pytest.mark.gate
async def test_a_whole_log_is_no_loss(killed: Path) -> None:
    for _ in range(2):
        store = open_store(killed)
        assert store.ready() is None
        await Conversation().create(store)
        await store.close()
    assert not beside(killed, LOST).exists()
    assert {path.name for path in list_of(killed)} == {FILE_NAME, FILE_NAME + MARK}


async def test_a_refused_turn_and_a_failed_write_are_no_loss(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    conversation = Conversation()
    await conversation.create(store)
    before = beside(tmp_path, MARK).read_bytes()
    with pytest.raises(Exception, match="turn"):
        await store.turns.commit(conversation.next_turn(), 7)
    assert beside(tmp_path, MARK).read_bytes() == before
    await store.close()
    store = open_store(tmp_path)
    assert store.ready() is None
    await store.close()


async def test_an_older_file_in_the_place_of_the_database_is_a_loss(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    conversation = Conversation()
    await conversation.create(store)
    await store.close()
    shutil.copy(tmp_path / "data" / FILE_NAME, tmp_path / "backup")
    store = open_store(tmp_path / "data")
    await conversation.say(store)
    await store.close()
    shutil.copy(tmp_path / "backup", tmp_path / "data" / FILE_NAME)
    store = open_store(tmp_path / "data")
    assert "commits 2 to 2 (1) are missing" in str(store.lost_commits())
    await store.close()


async def test_the_mark_of_another_database_is_replaced(tmp_path: Path) -> None:
    for name, turns in (("long", 5), ("short", 1)):
        (tmp_path / name).mkdir()
        with duckdb.connect(tmp_path / name / FILE_NAME) as connection:  # not a copy of the same new database
            migrate(connection, tmp_path / name / FILE_NAME)
        store = open_store(tmp_path / name)
        conversation = Conversation()
        await conversation.create(store)
        for _ in range(turns):
            await conversation.say(store)
        await store.close()
    shutil.copy(tmp_path / "short" / FILE_NAME, tmp_path / "long" / FILE_NAME)
    store = open_store(tmp_path / "long")
    assert store.ready() is None
    await store.close()


async def test_a_mark_that_cannot_be_read_is_written_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await Conversation().create(store)
    await store.close()
    whole = beside(tmp_path, MARK).read_bytes()
    beside(tmp_path, MARK).write_bytes(b"\0" * 12)
    store = open_store(tmp_path)
    assert store.ready() is None
    await store.close()
    assert beside(tmp_path, MARK).read_bytes() == whole


async def test_a_damaged_report_of_a_loss_is_an_error_that_names_it(tmp_path: Path) -> None:
    await open_store(tmp_path).close()
    beside(tmp_path, LOST).write_bytes(b"")
    with pytest.raises(DatabaseUnreadable, match="lost-commits is damaged"):
        open_store(tmp_path)
    beside(tmp_path, LOST).unlink()
    await open_store(tmp_path).close()

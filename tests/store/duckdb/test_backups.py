"""Copies of the database that are written while it is used, and put in its place."""

import asyncio
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from store.duckdb.commit_mark import MARK
from store.duckdb.database_file import attach
from store.interface.errors import (
    BackupRunning,
    CompactionRunning,
    DatabaseLocked,
    DatabaseUnreadable,
    DiskTooSmall,
    StoreUnavailable,
)
from store.interface.private_files import FILE_NAME
from store.open_store import open_store, restore_database
from store.store import Store
from tests.support.store_rows import Conversation

NOW = datetime(2026, 11, 26, 6, tzinfo=UTC)


async def turns_in(folder: Path, conversation: Conversation) -> int:
    """Return the number of the last turn of the conversation in a database that is not open."""
    opened = open_store(folder)
    try:
        head = await opened.sessions.head(conversation.tenant, conversation.session_id)
        return -1 if head is None else head.turn
    finally:
        await opened.close()


async def test_backup_has_all_turns_before_it_and_turns_continue(
    store: Store, conversation: Conversation, tmp_path: Path
) -> None:
    await conversation.create(store)
    copied, going_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def begin(step: str) -> None:
        if step == "writing the new file to disk":  # all tables are copied
            loop.call_soon_threadsafe(copied.set)
            going_on.wait(60)

    writing = asyncio.ensure_future(store.maintenance.back_up(tmp_path / "backup", begin))
    await copied.wait()
    await conversation.say(store)
    running = store.maintenance.backup
    assert running is not None
    assert (running.step, running.bytes_expected > 0) == ("writing the new file to disk", True)
    with pytest.raises(BackupRunning):
        await store.maintenance.compact()
    with pytest.raises(BackupRunning):
        await store.maintenance.back_up(tmp_path / "other")
    going_on.set()
    assert await writing == (tmp_path / "backup" / FILE_NAME).stat().st_size
    assert store.maintenance.backup is None
    await conversation.say(store)
    await store.maintenance.compact()
    assert await turns_in(tmp_path / "backup", conversation) == 0


@pytest.mark.gate
async def test_backups_under_load_are_sound(store: Store, conversation: Conversation, tmp_path: Path) -> None:
    await conversation.create(store)
    is_done = False

    async def talk() -> None:
        while not is_done:
            await conversation.say(store)

    talking = asyncio.ensure_future(talk())
    for number in range(3):
        acknowledged = conversation.turns - 1
        folder = tmp_path / f"backup {number}"
        await store.maintenance.back_up(folder)
        copy = open_store(folder)
        head = await copy.sessions.head(conversation.tenant, conversation.session_id)
        rows = await copy.turns.events(conversation.tenant, conversation.session_id, after_seq=0, limit=10_000)
        await copy.close()
        assert head is not None
        assert acknowledged <= head.turn <= conversation.turns
        assert [row.turn for row in rows] == list(range(head.turn + 1))
    is_done = True
    await talking


async def test_no_backup_during_a_compaction(store: Store, conversation: Conversation, tmp_path: Path) -> None:
    await conversation.create(store)
    compacting = asyncio.ensure_future(store.maintenance.compact())
    await asyncio.sleep(0)
    with pytest.raises(CompactionRunning):
        await store.maintenance.back_up(tmp_path / "backup")
    await compacting


async def test_full_disk_is_noticed_before_anything_is_written(
    store: Store, conversation: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await conversation.create(store)
    with monkeypatch.context() as small:
        small.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - 1_000_000, 1_000_000))
        with pytest.raises(DiskTooSmall):
            await store.maintenance.back_up(tmp_path / "backup")
    assert not (tmp_path / "backup" / FILE_NAME).exists()
    await store.maintenance.back_up(tmp_path / "backup")


async def test_backup_ends_when_the_store_is_closed(store: Store, conversation: Conversation, tmp_path: Path) -> None:
    await conversation.create(store)
    begun, closing = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def begin(_: str) -> None:
        loop.call_soon_threadsafe(begun.set)
        closing.wait(60)

    writing = asyncio.ensure_future(store.maintenance.back_up(tmp_path / "backup", begin))
    await begun.wait()
    closed = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    closing.set()
    with pytest.raises(StoreUnavailable, match="stopped"):
        await writing
    await closed
    assert not (tmp_path / "backup" / FILE_NAME).exists()


async def test_restored_database_is_as_it_was(store: Store, conversation: Conversation, tmp_path: Path) -> None:
    await conversation.create(store)
    await store.maintenance.back_up(tmp_path / "backup")
    await conversation.say(store)
    (tmp_path / "backup" / "webhook-key").write_text("of the backup")
    (tmp_path / "webhook-key").write_text("of the server")
    (tmp_path / "memory").mkdir()
    with pytest.raises(DatabaseLocked):
        restore_database(tmp_path / "backup", tmp_path, [tmp_path / "webhook-key"], NOW)
    await store.close()
    replaced = restore_database(tmp_path / "backup", tmp_path, [tmp_path / "webhook-key"], NOW)
    assert replaced == tmp_path / "replaced-2026-11-26T060000Z"
    assert await turns_in(tmp_path, conversation) == 0
    assert (tmp_path / "webhook-key").read_text() == "of the backup"
    assert not (tmp_path / "memory").exists()
    assert (replaced / "webhook-key").read_text() == "of the server"
    assert await turns_in(replaced, conversation) == 1


async def test_backup_is_restored_into_an_empty_folder(
    store: Store, conversation: Conversation, tmp_path: Path
) -> None:
    await conversation.create(store)
    await store.maintenance.back_up(tmp_path / "backup")
    assert restore_database(tmp_path / "backup", tmp_path / "new", [], NOW) is None
    assert await turns_in(tmp_path / "new", conversation) == 0


async def test_folder_of_a_killed_server_is_restored_with_its_log(
    store: Store, conversation: Conversation, tmp_path: Path
) -> None:
    await conversation.create(store)
    await conversation.say(store)
    killed = shutil.copytree(tmp_path, tmp_path / "killed", ignore=shutil.ignore_patterns("killed"))
    await store.maintenance.back_up(tmp_path / "backup")
    restore_database(tmp_path / "backup", killed, [], NOW)
    replaced = killed / "replaced-2026-11-26T060000Z"
    assert (replaced / f"{FILE_NAME}.wal").exists()
    restore_database(replaced, tmp_path / "again", [], NOW)
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == [FILE_NAME]
    assert await turns_in(tmp_path / "again", conversation) == 1


async def test_damaged_backup_replaces_nothing(store: Store, conversation: Conversation, tmp_path: Path) -> None:
    await conversation.create(store)
    await store.maintenance.back_up(tmp_path / "backup")
    await store.close()
    damaged = tmp_path / "backup" / FILE_NAME
    damaged.write_bytes(damaged.read_bytes()[:5000])
    with pytest.raises(DatabaseUnreadable):
        restore_database(tmp_path / "backup", tmp_path, [], NOW)
    assert await turns_in(tmp_path, conversation) == 0
    assert not (tmp_path / "replaced-2026-11-26T060000Z").exists()


async def test_damaged_database_is_replaced(store: Store, conversation: Conversation, tmp_path: Path) -> None:
    await conversation.create(store)
    await store.maintenance.back_up(tmp_path / "backup")
    await store.close()
    (tmp_path / FILE_NAME).write_bytes(b"damaged" * 4096)
    assert restore_database(tmp_path / "backup", tmp_path, [], NOW) is not None
    assert await turns_in(tmp_path, conversation) == 0


async def test_restoration_that_breaks_off_is_noticed(
    store: Store, conversation: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the old database is gone by then, so that commits are missing, which the next start reports."""
    await conversation.create(store)
    await store.maintenance.back_up(tmp_path / "backup")
    await conversation.say(store)
    crashed = shutil.copytree(tmp_path, tmp_path / "crashed", ignore=shutil.ignore_patterns("backup", "crashed"))
    await store.close()
    assert (crashed / f"{FILE_NAME}.wal").exists()
    with monkeypatch.context() as broken:

        def fail(self: Path, target: Path) -> None:
            raise OSError(5, "Input/output error")

        broken.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="Input/output"):
            restore_database(tmp_path / "backup", crashed, [], NOW)
    assert (crashed / f"{FILE_NAME}{MARK}").exists()
    opened = open_store(crashed)
    assert "lost acknowledged writes" in (opened.lost_commits() or "")
    await opened.close()
    restore_database(tmp_path / "backup", crashed, [], NOW.replace(hour=7))
    opened = open_store(crashed)
    assert opened.lost_commits() is None
    await opened.close()


async def test_backup_of_an_older_version_is_restored_and_migrated(
    store: Store, conversation: Conversation, tmp_path: Path
) -> None:
    await conversation.create(store)
    await store.maintenance.back_up(tmp_path / "backup")
    await store.close()
    older = attach(tmp_path / "backup" / FILE_NAME, read_only=False)
    older.execute("ALTER TABLE participants DROP COLUMN push")
    older.execute("DELETE FROM migrations WHERE number = 26")
    older.close()
    restore_database(tmp_path / "backup", tmp_path, [], NOW)
    assert await turns_in(tmp_path, conversation) == 0

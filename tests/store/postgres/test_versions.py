"""Servers of two versions use one database while they are upgraded one by one."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from store.interface.errors import DatabaseTooNew, DatabaseUnreadable
from store.open_store import open_store
from store.postgres import schema
from store.sql.migrations import Migration, known_migrations
from store.store import Store
from tests.support.store_rows import Conversation

COLUMN = Migration(9_999, "note", "ALTER TABLE turns ADD COLUMN note TEXT; CREATE TABLE notes (note TEXT PRIMARY KEY)")


async def test_an_older_server_continues_during_a_migration(
    stores: tuple[Store, Store], tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, _ = stores
    talks = [Conversation() for _ in range(3)]
    for talk in talks:
        await talk.create(older)
    is_over = asyncio.Event()

    async def talk_on(talk: Conversation) -> None:
        while not is_over.is_set():
            await talk.say(older)

    talking = [asyncio.create_task(talk_on(talk)) for talk in talks]
    with monkeypatch.context() as newer_version:
        newer_version.setattr(schema, "known_migrations", lambda package: [*known_migrations(package), COLUMN])
        newer = await asyncio.to_thread(open_store, tmp_path / "newer", postgres_url)
    turns = [talk.turns for talk in talks]
    while [talk.turns for talk in talks] == turns:  # noqa: ASYNC110  (the older server goes on)
        await asyncio.sleep(0.01)
    is_over.set()
    await asyncio.gather(*talking)
    for talk in talks:
        await talk.say(newer)
        await talk.say(older)
        rows = await newer.turns.range("clinic", talk.session_id, limit=talk.turns)
        assert [row.turn for row in rows] == [*range(talk.turns)]
    await newer.close()
    with pytest.raises(DatabaseTooNew, match="upgrade this one"):
        open_store(tmp_path / "third", postgres_url)


def test_a_migration_does_not_wait_long_for_another_transaction(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All servers would wait behind it."""
    monkeypatch.setattr(schema, "known_migrations", lambda package: [*known_migrations(package), COLUMN])
    monkeypatch.setattr(schema, "LOCK_TIMEOUT_S", 0.2)
    with psycopg.connect(postgres_url) as reading:
        reading.execute("SELECT 1 FROM turns")
        with pytest.raises(DatabaseUnreadable, match="another transaction"):
            open_store(tmp_path, postgres_url)
    asyncio.run(open_store(tmp_path, postgres_url).close())

"""Acknowledged means durable, and a turn is there whole or not at all, whenever the process is killed."""

import asyncio
import random
from pathlib import Path

import pytest

from store.duckdb.database import Database
from store.open_store import open_store
from tests.support.effort import repeats
from tests.support.killed_process import kill_after, start
from tests.support.store_rows import Conversation

KILLS = repeats(20)


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_and_nothing_is_torn(tmp_path: Path) -> None:
    chance = random.Random(2)
    acknowledged: dict[str, int] = {}
    for _ in range(KILLS):
        acknowledged |= kill_after(start("write_turns.py", tmp_path), chance.randrange(1, 400))
    store = open_store(tmp_path)
    for session_id, last in acknowledged.items():
        head = await store.sessions.head("clinic", session_id)
        assert head is not None
        assert head.turn >= last
        assert head.message_count == 2 * (head.turn + 1)
        assert head.event_count == 3 * (head.turn + 1)
    await store.close()
    assert len(acknowledged) >= KILLS
    assert_whole(tmp_path)


def assert_whole(folder: Path) -> None:
    """Assert that turns, messages and events of every session are numbered without gaps, in the views as well."""
    database = Database.open(folder)
    cursor = database.cursor()
    for view, number, first in [("turns", "turn", 0), ("messages", "seq", 1), ("events", "seq", 1)]:
        gaps = cursor.execute(
            f"""SELECT session_id FROM {view} GROUP BY session_id
            HAVING min({number}) <> {first} OR count(*) <> max({number}) - {first} + 1
                OR count(DISTINCT {number}) <> count(*)"""
        ).fetchall()
        assert gaps == []
    orphans = cursor.execute(
        "SELECT (SELECT count(DISTINCT session_id) FROM turns) - (SELECT count(*) FROM session_starts)"
    ).fetchone()
    assert orphans == (0,)
    cursor.close()
    database.close()


@pytest.mark.gate
async def test_read_only_reads_what_a_killed_process_left_in_its_log(tmp_path: Path) -> None:
    acknowledged = kill_after(start("write_turns.py", tmp_path), 30)
    assert (tmp_path / "cuebook.duckdb.wal").exists()
    reader = open_store(tmp_path, read_only=True)
    for session_id, last in acknowledged.items():
        head = await reader.sessions.head("clinic", session_id)
        assert head is not None
        assert head.turn >= last
    await reader.close()
    assert (tmp_path / "cuebook.duckdb.wal").exists()


@pytest.mark.gate
async def test_full_disk_refuses_turns_until_there_is_room(tmp_path: Path) -> None:
    output, _ = start("fill_disk.py", tmp_path).communicate(timeout=60)
    session_id, last = output.splitlines()[-1].split()  # the lines before are the log
    store = open_store(tmp_path)
    head = await store.sessions.head("clinic", session_id)
    assert head is not None
    assert head.turn == int(last)
    await store.close()
    assert_whole(tmp_path)


async def test_closing_writes_what_waits(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    conversations = [Conversation() for _ in range(20)]
    commits = [asyncio.ensure_future(conversation.create(store)) for conversation in conversations]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*commits)
    again = open_store(tmp_path)
    heads = [await again.sessions.head("clinic", conversation.session_id) for conversation in conversations]
    assert all(head is not None and head.turn == 0 for head in heads)
    await again.close()

"""The heads of sessions in memory are never behind what was acknowledged."""

import asyncio
import threading
from pathlib import Path

import pytest

from store.duckdb.session_heads import SEARCHES_MAX, SessionHeads
from store.open_store import open_store
from store.store import Store
from tests.support.duckdb_engine import engine_of
from tests.support.effort import repeats
from tests.support.store_rows import Conversation

TURNS = repeats(1_000)


@pytest.mark.gate
async def test_head_is_the_last_acknowledged_turn_while_lists_are_read(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    talks = [Conversation() for _ in range(4)]
    for talk in talks:
        await talk.create(store)
    is_over = asyncio.Event()

    async def list_sessions() -> None:
        while not is_over.is_set():
            await store.sessions.page("clinic")

    listing = asyncio.create_task(list_sessions())
    try:
        for number in range(TURNS):
            talk = talks[number % len(talks)]
            await talk.say(store)
            for _ in range(3):
                head = await store.sessions.head("clinic", talk.session_id)
                assert head is not None
                assert head.turn == talk.turns - 1
    finally:
        is_over.set()
        await listing
        await store.close()


async def test_heads_are_loaded_although_reads_are_stopped(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    cursor, is_over = engine_of(store).database.cursor(), threading.Event()
    cursor.execute(
        "INSERT INTO turns BY NAME SELECT t.* REPLACE (uuid() AS session_id) FROM turns AS t, range(200_000)"
    )

    def stop_reads() -> None:
        while not is_over.is_set():
            cursor.interrupt()

    stopping = threading.Thread(target=stop_reads)
    stopping.start()
    heads = SessionHeads()
    heads.refresh(cursor)
    is_over.set()
    stopping.join()
    found = heads.find(cursor, conversation.tenant, conversation.session_id)
    assert found is not None
    assert found.turn == 0
    cursor.close()


async def test_session_is_found_by_changes_since_the_last_list(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    await store.sessions.page(conversation.tenant)
    await conversation.say(store)
    connection = engine_of(store).database.connection()
    found = connection.heads.find(connection.cursor, conversation.tenant, conversation.session_id)
    connection.cursor.close()
    assert found is not None
    assert found.turn == 1
    head = await store.sessions.head(conversation.tenant, conversation.session_id)
    assert head is not None
    assert head.turn == 1


async def test_heads_are_loaded_after_sessions_were_searched_for(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    heads = engine_of(store).database.heads
    for _ in range(SEARCHES_MAX):
        assert await store.sessions.load(conversation.tenant, conversation.session_id) is not None
    assert heads.are_worth_loading
    while heads.are_worth_loading:
        loaded = await store.sessions.load(conversation.tenant, conversation.session_id)
        assert loaded is not None
        assert loaded.head.turn == 0

"""The heads of sessions in memory are never behind what was acknowledged."""

import asyncio
from pathlib import Path

import pytest

from store.open_store import open_store
from tests.support.effort import repeats
from tests.support.store_rows import Conversation

TURNS = repeats(1_000)


@pytest.mark.gate
async def test_a_head_is_the_last_acknowledged_turn_while_lists_are_read(tmp_path: Path) -> None:
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

"""What is removed from the record stays removed, whatever is going on with the memory."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from api.memory.asked import NewUnit

OWNER = ("default", "ana")


async def keep_adding(memory: Any, is_over: asyncio.Event) -> None:
    """Adds, asks and lets work go on until it is told to stop."""
    number = 0
    while not is_over.is_set():
        number += 1
        await memory.memories.add(*OWNER, f"group {number}", [NewUnit(content=f"Ana said {number}")] * 5)
        memory.house.work.notice(*OWNER)


async def test_work_that_was_under_way_writes_nothing_after_an_erasure(home: Callable[..., Any]) -> None:
    async with home() as memory:
        for round_ in range(15):
            is_over = asyncio.Event()
            adding = asyncio.create_task(keep_adding(memory, is_over))
            await asyncio.sleep(0.005 * round_)
            is_over.set()  # it ends with what it is at; background work goes on
            async with memory.house.removing(*OWNER):
                await memory.record.erase_user(*OWNER, str(uuid4()), datetime.now(UTC))
                known = await memory.record.memory.units(*OWNER)
            await adding
            assert known == []
            await memory.worked()
            await said_after(memory)


async def said_after(memory: Any) -> None:
    """Only what was added after the erasure may be there: it has its numbers from 1 on, and a vector each."""
    units = await memory.record.memory.units(*OWNER)
    embedder = (await memory.house.embedding.embedder()).id
    vectors = await memory.record.memory.vectors(*OWNER, embedder)
    assert [unit.sequence for unit in units] == list(range(1, len(units) + 1))
    assert sorted(vectors.sequences) == [unit.sequence for unit in units]
    assert len(units) <= 5

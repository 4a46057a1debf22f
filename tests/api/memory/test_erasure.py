"""What is removed from the database stays removed, whatever the memory is doing."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from api.memory.jobs import JobOptions
from api.memory.requests import NewUnit, Query
from tests.support.opened_memory import OpenMemory

OWNER = ("default", "ana")


async def keep_adding(memory: Any, is_over: asyncio.Event) -> None:
    """Add units, query and run jobs until the event is set."""
    number = 0
    while not is_over.is_set():
        number += 1
        await memory.memories.add(*OWNER, f"group {number}", [NewUnit(content=f"Ana said {number}")] * 5)
        memory.memory_system.worker.enqueue(*OWNER)


@pytest.mark.gate
async def test_work_that_was_under_way_writes_nothing_after_an_erasure(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        for round_ in range(15):
            is_over = asyncio.Event()
            adding = asyncio.create_task(keep_adding(memory, is_over))
            await asyncio.sleep(0.005 * round_)
            is_over.set()  # it ends with what it is at; background work goes on
            async with memory.memory_system.exclusive_for_erasure(*OWNER):
                await memory.store.maintenance.erase_user(*OWNER, str(uuid4()), datetime.now(UTC))
                known = await memory.store.memory.units(*OWNER)
            await adding
            assert known == []
            await memory.wait_idle()
            await said_after(memory)


async def test_a_job_that_waits_for_an_erasure_leaves_no_row(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.add("notes", "Ana likes tea.")
        job = await memory.memory_system.jobs.submit(*OWNER, "embed", JobOptions(history="Ana is ill."))
        async with memory.memory_system.exclusive_for_erasure(*OWNER):
            memory.memory_system.worker.prioritise(*OWNER)
            async with asyncio.timeout(30):
                while (await memory.store.memory.job("default", job.job_id)).status == "queued":  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await memory.store.maintenance.erase_user(*OWNER, str(uuid4()), datetime.now(UTC))
        await memory.wait_idle()
        assert (await memory.store.memory.jobs("default")).rows == []


async def said_after(memory: Any) -> None:
    """Only what was added after the erasure may be there: it has its numbers from 1 on, and a vector each."""
    units = await memory.store.memory.units(*OWNER)
    embedder = (await memory.memory_system.embedding.embedder()).id
    vectors = await memory.store.memory.vectors(*OWNER, embedder)
    assert [unit.sequence for unit in units] == list(range(1, len(units) + 1))
    assert sorted(vectors.sequences) == [unit.sequence for unit in units]
    assert len(units) <= 5


async def test_a_memory_that_another_server_has_changed_is_erased(open_memory: OpenMemory, postgres_url: str) -> None:
    async with open_memory(url=postgres_url) as one, open_memory(url=postgres_url) as two:
        await one.add("notes", "She has a cat.")
        await one.wait_idle()
        await one.memories.query(*OWNER, Query(text="cat"))  # the visit is written later
        await two.add("notes", "She has a dog.")
        async with one.memory_system.exclusive_for_erasure(*OWNER):
            await one.store.maintenance.erase_user(*OWNER, str(uuid4()), datetime.now(UTC))
        assert await two.store.memory.units(*OWNER) == []

"""Users' memories from Python, by the client of a server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from api.client.client import SyncMemory
from api.client.memory import Memory
from api.embedded import open_runtime
from api.schemas.memory import NewUnitBody
from cuebook import Client, CuebookError, SyncClient
from tests.support.fixture_types import Serve


@pytest.fixture
async def cuebook(tmp_path: Path) -> AsyncIterator[Client]:
    async with open_runtime(tmp_path / "data", settings={"embedder": "hashed:64"}) as cuebook:
        yield cuebook


def texts(recalled) -> list[list[str]]:
    return [[unit.content for unit in chain.units] for chain in recalled.chains]


async def test_what_is_added_is_recalled_looked_at_pinned_and_removed(cuebook) -> None:
    memory = cuebook.memory
    unit = await memory.add("ana", "I moved to Lisbon.", source="Ana", metadata={"mood": 3}, group="diary")
    await memory.add("ana", "My cat is called Mo.", group="diary")
    lisbon = {"content": {"$contains": "Lisbon"}}
    recalled = await memory.search("ana", "Lisbon", filters=lisbon, recall_context=True)
    assert texts(recalled) == [["I moved to Lisbon.", "My cat is called Mo."]]
    assert [each.content for each in (await memory.units("ana", filters={"metadata.mood": 3})).data] == [unit.content]
    assert (await memory.pin("ana", unit.unit_id)).never_delete
    assert (await memory.unit("ana", unit.unit_id)).visit_count == 1
    await memory.remove("ana", unit.unit_id)
    with pytest.raises(CuebookError, match="MEMORY_UNIT_NOT_FOUND"):
        await memory.remove("ana", unit.unit_id)


async def test_many_units_are_sent_in_parts_and_each_is_added_once(cuebook) -> None:
    units = [f"unit {number}" for number in range(1_200)]
    added = await cuebook.memory.add_many("ana", units, group="diary")
    assert [unit.sequence for unit in added] == list(range(1, 1_201))
    assert (await cuebook.memory.group("ana", "diary")).units == 1_200


async def test_messages_and_mappings_are_units(cuebook) -> None:
    units = [
        {"role": "user", "content": "I moved to Lisbon."},
        {"role": "assistant", "name": "Mo", "content": "How nice."},
        {"content": "A note.", "source": "script", "metadata": {"mood": 3}, "never_delete": True},
        NewUnitBody(content="Another note."),
    ]
    added = await cuebook.memory.add_many("ana", units)
    assert [unit.source for unit in added] == ["user", "Mo", "script", "user"]
    assert (added[2].metadata, added[2].never_delete) == ({"mood": 3}, True)
    with pytest.raises(TypeError, match="mood"):
        await cuebook.memory.add_many("ana", [{"content": "x", "mood": 3}])
    recalled = await cuebook.memory.search("ana", "Lisbon", k=1, decay={"half_life_days": 30, "floor": 0.5})
    assert texts(recalled) == [["I moved to Lisbon."]]


async def test_groups_are_begun_listed_restored_and_removed(cuebook) -> None:
    memory = cuebook.memory
    begun = await memory.start_group("ana", "monday / 1", short_term=5, context_length=1)
    assert (begun.group_id, begun.short_term) == ("monday / 1", 0)
    for text in ("one", "two"):
        await memory.add("ana", text, group="monday / 1")
    assert [unit.content for unit in await memory.context("ana", "monday / 1")] == ["two"]
    tuesday = (await memory.start_group("ana", short_term=5)).group_id
    assert await memory.restore("ana", tuesday) == 2
    assert [group.group_id for group in (await memory.groups("ana")).data] == ["monday / 1", tuesday]
    await memory.remove_group("ana", "monday / 1")
    with pytest.raises(CuebookError, match="MEMORY_GROUP_NOT_FOUND"):
        await memory.group("ana", "monday / 1")


@pytest.mark.gate
async def test_work_is_waited_for_and_seen(cuebook) -> None:
    memory = cuebook.memory
    await memory.add_many("ana", [f"unit {number}" for number in range(30)])
    job = await memory.summarise("ana")
    assert (job.kind, job.status) == ("summarise", "done")
    reported = await memory.preview_forget("ana", 0.1)
    gone = await memory.forget("ana", 0.1)
    assert reported is not None
    assert gone is not None
    assert (reported.total, gone.result) == (2, {"units": 2})
    assert (await memory.embed("ana")).status == "done"
    assert [each.kind for each in (await memory.jobs("ana")).data] == ["embed", "forget", "summarise"]
    assert await memory.job(job.job_id, wait_s=1) == job
    status = await memory.status("ana")
    assert (status.units.said, status.without_vector) == (28, 0)


async def test_vectors_of_numpy_are_sent(cuebook) -> None:
    vectors = np.eye(64, dtype=np.float32)
    for number in range(3):
        await cuebook.memory.add("ana", f"unit {number}", vector=vectors[number])
    assert texts(await cuebook.memory.search("ana", vector=vectors[1], k=1)) == [["unit 1"]]


@pytest.mark.gate
@pytest.mark.parametrize("made_up", ["../status", "a/b", "..", ".", "a?b", "a#b", "a%2Fb", "睡眠"])
async def test_an_id_that_is_no_id_leads_nowhere_else(cuebook, made_up) -> None:
    for ask in (cuebook.memory.unit, cuebook.memory.remove, cuebook.memory.group, cuebook.memory.remove_group):
        with pytest.raises(CuebookError, match=r"MEMORY_(UNIT|GROUP)_NOT_FOUND"):
            await ask("ana", made_up)


def test_what_the_client_does_is_also_waited_for() -> None:
    both = {name for name in vars(Memory) if not name.startswith("_")}
    assert {name for name in vars(SyncMemory) if not name.startswith("_")} == both


async def test_a_program_without_a_loop_recalls_too(serve: Serve) -> None:
    server = serve(CUEBOOK_EMBEDDER="none")
    await server.ready()

    def talk() -> list[list[str]]:
        with SyncClient(server.url) as cuebook:
            cuebook.memory.add("ana", "I moved to Lisbon.")
            return texts(cuebook.memory.search("ana", "Lisbon"))

    assert await asyncio.to_thread(talk) == [["I moved to Lisbon."]]

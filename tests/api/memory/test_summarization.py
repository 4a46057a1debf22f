"""What happens to a memory while a language model sums it up."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from api.memory.embedding import EmbeddingService
from api.memory.maintenance import ConcurrentChange, Maintenance
from api.memory.requests import NewUnit, Query
from runtime.memory.forgetting import ForgetOptions
from runtime.memory.summaries import GroupLimits, Summary, SummaryRequest
from tests.support.opened_memory import OpenMemory

OWNER = ("default", "ana")


class Model:
    """Tells every word, and lets something happen first."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None

    async def __call__(self, passage: SummaryRequest) -> Summary:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return Summary(" ".join([passage.so_far, *(unit.content for unit in passage.units)]))


async def sum_up(memory: Any, model: Model) -> None:
    care = Maintenance(
        memory.memory_system.cache,
        EmbeddingService(None),
        lambda tenant, user_id: model,
        lambda: datetime.now(UTC),
        lambda: str(uuid4()),
        units_max=1_000,
        forgetting=ForgetOptions(),
        summarise_from=0,
        limits=GroupLimits(),
    )
    async for _ in care.summarise(OWNER):
        pass


async def test_what_is_removed_during_summarization_is_in_no_summary(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        _, secret, _ = await memory.add("diary", "the blue boat", "a secret", "the red door")
        model = Model()
        model.meanwhile = lambda: memory.memories.remove(*OWNER, [secret])
        with pytest.raises(ConcurrentChange):
            await sum_up(memory, model)
        await sum_up(memory, model)
        units = await memory.get("diary")
        assert ("boat" in units.content, "secret" in units.content) == (True, False)


async def test_fact_superseded_during_summarization_is_in_no_summary(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        _, earlier = await memory.add("diary", "the blue boat", "she lives in Graz")
        model, later = Model(), NewUnit(content="she lives in Faro", supersedes=earlier)
        model.meanwhile = lambda: memory.memories.add(*OWNER, "facts", [later])
        with pytest.raises(ConcurrentChange):
            await sum_up(memory, model)
        await sum_up(memory, model)
        assert (await memory.get("diary")).content.split() == ["the", "blue", "boat"]


async def test_memory_reloaded_during_summarization_is_summarised(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        _, secret, _ = await memory.add("diary", "the blue boat", "a secret", "the red door")

        async def loaded_again() -> None:  # as after a turn on another server
            await memory.add("notes", "a lamp")
            memory.memory_system.cache.drop(*OWNER)

        async def removed_and_loaded_again() -> None:
            await memory.memories.remove(*OWNER, [secret])
            await loaded_again()

        model = Model()
        model.meanwhile = removed_and_loaded_again
        with pytest.raises(ConcurrentChange):
            await sum_up(memory, model)
        model.meanwhile = loaded_again
        await sum_up(memory, model)
        summary = await memory.get("diary")
        assert ("boat" in summary.content, "secret" in summary.content) == (True, False)


async def test_unit_removed_during_summarization_keeps_older_ones(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        model = Model()
        (secret,) = await memory.add("diary", "a secret")
        await memory.add("diary", "the blue boat")
        await sum_up(memory, model)
        await memory.add("diary", "the red door")
        model.meanwhile = lambda: memory.memories.remove(*OWNER, [secret])
        with pytest.raises(ConcurrentChange):
            await sum_up(memory, model)
        await sum_up(memory, model)
        units = await memory.get("diary")
        assert ("door" in units.content, "secret" in units.content) == (True, False)


async def test_visits_and_pins_survive_the_rewriting_of_a_summary(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        model = Model()
        await memory.add("diary", "the blue boat")
        await sum_up(memory, model)
        await memory.add("diary", "the red door")

        async def meanwhile() -> None:
            await memory.memories.query(*OWNER, Query(text="boat", ranks=(1,)))
            await memory.memories.pin(*OWNER, "diary", pinned=True)

        model.meanwhile = meanwhile
        await sum_up(memory, model)
        units = await memory.get("diary")
        assert ("door" in units.content, units.visit_count, units.never_delete) == (True, 1, True)

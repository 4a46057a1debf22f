"""What happens to a memory while a language model sums it up."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from api.memory.asked import Query
from api.memory.care import Care, ChangedMeanwhile
from api.memory.embedding import Embedding
from runtime.memory.forgetting import Forgetting
from runtime.memory.summarising import GroupLimits, Passage, Told

OWNER = ("default", "ana")


class Model:
    """Tells every word, and lets something happen first."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None

    async def __call__(self, passage: Passage) -> Told:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return Told(" ".join([passage.so_far, *(unit.content for unit in passage.units)]))


async def sum_up(memory: Any, model: Model) -> None:
    care = Care(
        memory.house.banks,
        Embedding(None),
        lambda tenant, user_id: model,
        lambda: datetime.now(UTC),
        lambda: str(uuid4()),
        units_max=1_000,
        forgetting=Forgetting(),
        summarise_from=0,
        limits=GroupLimits(),
    )
    async for _ in care.summarise(OWNER):
        pass


async def test_what_is_removed_while_it_is_summed_up_is_told_nowhere(home: Any) -> None:
    async with home(embedder="none") as memory:
        _, secret, _ = await memory.add("diary", "the blue boat", "a secret", "the red door")
        model = Model()
        model.meanwhile = lambda: memory.memories.remove(*OWNER, [secret])
        with pytest.raises(ChangedMeanwhile):
            await sum_up(memory, model)
        await sum_up(memory, model)
        told = await memory.memories.get(*OWNER, "diary")
        assert ("boat" in told.content, "secret" in told.content) == (True, False)


async def test_what_was_told_before_is_told_no_more_once_it_is_removed_while_more_is_summed_up(home: Any) -> None:
    async with home(embedder="none") as memory:
        model = Model()
        (secret,) = await memory.add("diary", "a secret")
        await memory.add("diary", "the blue boat")
        await sum_up(memory, model)
        await memory.add("diary", "the red door")
        model.meanwhile = lambda: memory.memories.remove(*OWNER, [secret])
        with pytest.raises(ChangedMeanwhile):
            await sum_up(memory, model)
        await sum_up(memory, model)
        told = await memory.memories.get(*OWNER, "diary")
        assert ("door" in told.content, "secret" in told.content) == (True, False)


async def test_visits_and_pins_of_a_summary_that_is_told_anew_meanwhile_are_kept(home: Any) -> None:
    async with home(embedder="none") as memory:
        model = Model()
        await memory.add("diary", "the blue boat")
        await sum_up(memory, model)
        await memory.add("diary", "the red door")

        async def meanwhile() -> None:
            await memory.memories.query(*OWNER, Query(text="boat", ranks=(1,)))
            await memory.memories.pin(*OWNER, "diary", pinned=True)

        model.meanwhile = meanwhile
        await sum_up(memory, model)
        told = await memory.memories.get(*OWNER, "diary")
        assert ("door" in told.content, told.visit_count, told.never_delete) == (True, 1, True)

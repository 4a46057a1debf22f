"""A memory has at most `memory_units_max` units, however they are spread over sessions."""

import pytest
from structlog.testing import capture_logs

from api.memory.requests import NewUnit
from tests.support.opened_memory import OpenMemory

OWNER = ("default", "ana")


@pytest.mark.gate
async def test_limit_holds_over_many_short_sessions(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none", memory_units_max=100) as memory:
        for session in range(50):
            await memory.add(f"session-{session}", *[f"message {number} of {session}" for number in range(8)])
        await memory.wait_idle()
        left = await memory.store.memory.units(*OWNER, limit=1_000)
        assert 80 <= len(left) <= 100
        newest = [unit.content for unit in left if unit.group_id == "session-49"]
        assert newest == [f"message {number} of 49" for number in range(8)]


async def test_limit_holds_within_one_long_context(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none", memory_units_max=20) as memory:
        await memory.memories.start_group(*OWNER, "talk", context_length=200)
        await memory.add("talk", *[f"message {number}" for number in range(60)])
        await memory.wait_idle()
        left = [unit.content for unit in await memory.store.memory.units(*OWNER)]
        assert 15 <= len(left) <= 20
        assert left[-1] == "message 59"


async def test_pinned_units_above_the_limit_are_logged(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none", memory_units_max=5) as memory:
        with capture_logs() as logged:
            await memory.memories.add(
                *OWNER, "notes", [NewUnit(content=f"note {number}", never_delete=True) for number in range(8)]
            )
            await memory.wait_idle()
        assert len(await memory.store.memory.units(*OWNER)) == 8
        (warning,) = [each for each in logged if each["event"].startswith("a memory exceeds its limit")]
        assert (warning["units"], warning["limit"]) == (8, 5)

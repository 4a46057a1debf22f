"""A store with its memory, as a server has it, without sessions."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from api.memory.memory_system import MemorySystem
from api.memory.requests import NewUnit
from runtime.memory.units import MemoryUnit
from store.store import Store

OWNER = ("default", "ana")


class OpenedMemory:
    """A store with its memory, as a server has it, without the sessions."""

    def __init__(self, store: Store, memory_system: MemorySystem) -> None:
        self.store = store
        self.memory_system = memory_system
        self.memories = memory_system.memories

    async def add(self, group: str, *texts: str, **more: Any) -> list[str]:
        """Add units one after the other; return their ids."""
        added = await self.memories.add(*OWNER, group, [NewUnit(content=text, **more) for text in texts])
        return [unit.unit_id for unit in added]

    async def get(self, unit_id: str, owner: tuple[str, str] = OWNER) -> MemoryUnit | None:
        """Return a unit, or None if there is none with this id."""
        async with self.memory_system.cache.lock(*owner) as loaded:
            return loaded.visible_unit(unit_id)

    async def wait_idle(self) -> None:
        """Wait until there is nothing more to do."""
        async with asyncio.timeout(60):
            await self.memory_system.worker.wait_idle()


OpenMemory: TypeAlias = Callable[..., AbstractAsyncContextManager[OpenedMemory]]
"""Open the memory of the test's folder: an embedder, a plan, the graph's bound, a summarizer, then settings by name."""

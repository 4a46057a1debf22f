"""A memory over a real record, with the embedder for tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from api.memory.asked import NewUnit
from api.memory.embedding import embedding_of
from api.memory.house import House, make_house
from api.metrics import Metrics
from api.settings import Settings
from runtime.memory.extracting import Extracting
from runtime.memory.summarising import Summarise
from scripts.memories import DEFAULT_PLAN, MemoryPlan
from store.record import Record
from store.vectors.index import GRAPH_FROM

OWNER = ("default", "ana")


class Home:
    """A record with its memory, as a server has it, without the sessions."""

    def __init__(self, record: Record, house: House) -> None:
        self.record = record
        self.house = house
        self.memories = house.memories

    async def add(self, group: str, *texts: str, **more: Any) -> list[str]:
        """Units said one after the other; their ids."""
        added = await self.memories.add(*OWNER, group, [NewUnit(content=text, **more) for text in texts])
        return [unit.unit_id for unit in added]

    async def worked(self) -> None:
        """Until there is nothing more to do."""
        async with asyncio.timeout(60):
            await self.house.work.idle()


@pytest.fixture
def home(tmp_path: Path) -> Callable[..., Any]:
    """Opens the memory of a folder: ``async with home() as memory``, again and again."""

    @asynccontextmanager
    async def opened(
        embedder: str = "hashed:64",
        plan: MemoryPlan = DEFAULT_PLAN,
        graph_from: int = GRAPH_FROM,
        summarise: Summarise | None = None,
        **given: Any,
    ) -> AsyncIterator[Home]:
        settings = Settings(data=tmp_path, embedder=embedder, **given)
        record = await asyncio.to_thread(Record.open, tmp_path)

        async def plans(tenant: str, digest: str) -> MemoryPlan:
            return plan

        house = make_house(
            record,
            settings,
            embedding_of(settings),
            plans,
            lambda tenant, user_id: summarise or Extracting(),
            lambda: datetime.now(UTC),
            lambda: str(uuid4()),
            Metrics(),
            graph_from=graph_from,
        )
        try:
            async with house.running():
                yield Home(record, house)
        finally:
            await record.close()

    return opened

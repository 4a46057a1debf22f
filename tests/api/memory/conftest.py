"""A memory over a real store, with the embedder for tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from api.memory.embedding import embedding_of
from api.memory.memory_system import create_memory
from api.metrics import Metrics
from api.settings import Settings
from runtime.memory.summaries import Summarise
from runtime.memory.summarizers import extractive_summary
from scripts.model.memory_plan import DEFAULT_PLAN, MemoryPlan
from store.open_store import open_store
from store.vectors.index import GRAPH_FROM
from tests.support.opened_memory import OpenedMemory, OpenMemory


@pytest.fixture
def open_memory(tmp_path: Path) -> OpenMemory:
    """Open the memory of a folder: ``async with open_memory() as memory``, again and again."""

    @asynccontextmanager
    async def open_in_folder(
        embedder: str = "hashed:64",
        plan: MemoryPlan = DEFAULT_PLAN,
        graph_from: int = GRAPH_FROM,
        summarise: Summarise | None = None,
        url: str | None = None,
        **given: Any,
    ) -> AsyncIterator[OpenedMemory]:
        settings = Settings(data=tmp_path, embedder=embedder, **given)
        store = await asyncio.to_thread(open_store, tmp_path, url)

        async def plans(tenant: str, digest: str) -> MemoryPlan:
            return plan

        memory_system = create_memory(
            store,
            settings,
            embedding_of(settings),
            plans,
            lambda tenant, user_id: summarise or extractive_summary,
            lambda: datetime.now(UTC),
            lambda: str(uuid4()),
            Metrics(),
            graph_from=graph_from,
        )
        try:
            async with memory_system.running():
                yield OpenedMemory(store, memory_system)
        finally:
            await store.close()

    return open_in_folder

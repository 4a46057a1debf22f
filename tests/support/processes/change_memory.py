"""Run by test_memory_kills: its children work on a memory and are killed; after some of them it looks at what is left.

Prints one line for each look.
"""

import asyncio
import contextlib
import os
import random
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import numpy as np

from api.logs.configuration import warnings_only
from api.memory.embedding import embedding_of
from api.memory.maintenance import ConcurrentChange
from api.memory.memory_system import MemorySystem, create_memory
from api.memory.requests import NewUnit
from api.metrics import Metrics
from api.settings import Settings
from runtime.memory.summarizers import extractive_summary
from scripts.model.memory_plan import DEFAULT_PLAN, MemoryPlan
from store.open_store import open_store
from store.store import Store
from store.vectors.index import VectorIndex
from store.vectors.matrix import unit_rows

OWNER = ("default", "ana")
GRAPH_FROM, DIMENSION = 40, 16
LOOKED_AT_EVERY = 5
UNITS_MAX = 600
WORDS = ["river", "garden", "piano", "doctor", "bicycle", "winter", "soup", "letter", "brother", "dream"]


async def _plans(tenant: str, digest: str) -> MemoryPlan:
    return DEFAULT_PLAN


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Store, MemorySystem]]:
    """Return the memory of a folder, with the work on it under way."""
    settings = Settings(data=folder / "data", embedder=f"hashed:{DIMENSION}")
    store = open_store(folder / "data")
    memory_system = create_memory(
        store,
        settings,
        embedding_of(settings),
        _plans,
        lambda tenant, user_id: extractive_summary,
        lambda: datetime.now(UTC),
        lambda: str(uuid4()),
        Metrics(),
        graph_from=GRAPH_FROM,
    )
    async with memory_system.running():
        yield store, memory_system
    await store.close()


class Log:
    """What a child has done: ids that were added, that were to be removed, and that were."""

    def __init__(self, path: Path) -> None:
        self.ids: dict[str, set[str]] = {"+": set(), "?": set(), "-": set()}
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                self.ids[line[0]].update(line[1:].split())
        self._file = path.open("a", buffering=1)

    def there(self) -> list[str]:
        """Return the ids of units that must be there."""
        return sorted(self.ids["+"] - self.ids["?"])

    def note(self, sign: str, ids: list[str]) -> None:
        self._file.write(" ".join([sign, *ids]) + "\n")


async def live(folder: Path, seed: int, ready: int) -> None:
    """Add, removes and sums up until it is killed; all other work is done as soon as there is any."""
    chance = random.Random(seed)
    log = Log(folder / "log")
    there = log.there()
    async with opened(folder) as (_, memory_system), asyncio.TaskGroup() as tasks:
        await memory_system.listing.unit(*OWNER, "nobody")  # loads it
        tasks.create_task(_hurry(memory_system))
        os.write(ready, b"!")
        while True:
            group = f"group {chance.randrange(3)}"
            said = [NewUnit(content=" ".join(chance.choices(WORDS, k=4))) for _ in range(8)]
            if len(there) < UNITS_MAX:
                added = [unit.unit_id for unit in await memory_system.memories.add(*OWNER, group, said)]
                log.note("+", added)
                there += added
            if chance.random() < 0.5 and len(there) > 20:
                gone = [there.pop(chance.randrange(len(there))) for _ in range(6)]
                log.note("?", gone)
                await memory_system.memories.remove(*OWNER, gone)
                log.note("-", gone)
            if chance.random() < 0.2:
                with contextlib.suppress(ConcurrentChange):
                    async for _ in memory_system.maintenance.summarise(OWNER, group):
                        pass


async def _hurry(memory_system: MemorySystem) -> None:
    while True:
        await memory_system.worker.wait_idle()
        await asyncio.sleep(0.005)


async def look(folder: Path, seed: int) -> None:
    """Print how much is there after all work is done, or what is wrong with it."""
    async with opened(folder) as (store, memory_system):
        async with asyncio.timeout(120):
            memory_system.worker.enqueue(
                *OWNER
            )  # as the next turn does: all that is searched is there before, but slower
            await memory_system.worker.wait_idle()
        units = {unit.unit_id: unit.sequence for unit in await store.memory.units(*OWNER, limit=100_000)}
        read = await store.memory.vectors(*OWNER, (await memory_system.embedding.embedder()).id)
        vectors = dict(zip(read.sequences, read.vectors, strict=True))
        async with memory_system.cache.lock(*OWNER) as loaded:
            index = await memory_system.cache.maintain_index(loaded)
    wrong = wrong_with_units(Log(folder / "log"), units, vectors)
    if wrong is None and index is not None:
        wrong = wrong_with_index(index, vectors, seed)
    print(f"bad: {wrong}" if wrong else f"good: {len(units)} units, {'an index' if index else 'no index'}", flush=True)


def wrong_with_units(log: Log, units: dict[str, int], vectors: dict[int, bytes]) -> str | None:
    if lost := set(log.there()) - units.keys():
        return f"lost {lost}"
    if back := log.ids["-"] & units.keys():
        return f"came back {back}"
    if vectors.keys() != set(units.values()):
        return "units without a vector, or vectors without a unit"
    return None


def wrong_with_index(index: VectorIndex, vectors: dict[int, bytes], seed: int) -> str | None:
    labels = sorted(vectors)
    rows = np.frombuffer(b"".join(vectors[label] for label in labels), "<f4").reshape(-1, DIMENSION)
    if index.reason is not None or index.is_behind or index.labels().tolist() != labels:
        return f"the index is not that of the rows: {index.reason}"
    for question in unit_rows(np.random.default_rng(seed).normal(size=(10, DIMENSION)), DIMENSION):
        _, cosines = index.search(question, 10)
        if not np.allclose(cosines, np.sort(rows @ question)[::-1][:10], atol=1e-5):
            return "the index does not find what is nearest"
    return None


def forked(work: Callable[..., Coroutine[None, None, None]], *arguments: object) -> int:
    """Return the process id of a child that does this."""
    child = os.fork()
    if child:
        return child
    code = 9
    try:
        asyncio.run(work(*arguments))
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main(folder: Path, count: int) -> None:
    chance = random.Random(count)
    (folder / "log").touch()
    warnings_only()
    for number in range(1, count + 1):
        ready, tell = os.pipe()
        child = forked(live, folder, number, tell)
        os.close(tell)
        select.select([ready], [], [], 60)
        select.select([], [], [], chance.uniform(0, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        if number % LOOKED_AT_EVERY == 0:
            _, status = os.waitpid(forked(look, folder, number), 0)
            if status:
                print(f"bad: ended with {os.waitstatus_to_exitcode(status)}", flush=True)


main(Path(sys.argv[1]), int(sys.argv[2]))

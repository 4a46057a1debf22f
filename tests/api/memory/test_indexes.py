"""The index of a memory's vectors: made in the background, saved now and then, and gone with what it is of."""

import itertools
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from api.memory.requests import Query
from store.interface.errors import StoreUnavailable
from store.vectors.index import VectorIndex
from tests.support.opened_memory import OpenMemory

OWNER = ("default", "ana")
MANY = 100


@pytest.fixture
def texts() -> list[str]:
    return [f"Ana told of the {number}th day of her journey" for number in range(120)]


def saved(folder: Path) -> list[str]:
    """Return the files of all indexes."""
    return sorted(path.name for path in (folder / "memory").glob("*/*"))


async def found(memory: Any, text: str) -> list[str]:
    """Return what a query finds first."""
    recalled = await memory.memories.query(*OWNER, Query(text=text, k=3))
    return [unit.content for chain in recalled.chains for unit in chain.units]


async def test_many_vectors_have_an_index_that_is_taken_over(
    open_memory: OpenMemory, tmp_path: Path, texts: list[str]
) -> None:
    async with open_memory(graph_from=MANY) as memory:
        await memory.add("diary", *texts)
        await memory.wait_idle()
        assert saved(tmp_path) == ["graph.1", "manifest.json", "roster.1"]
    async with open_memory(graph_from=MANY) as memory:
        with_index = [await found(memory, text) for text in texts[:20]]
        async with memory.memory_system.cache.lock(*OWNER) as loaded:
            assert (loaded.index.reason, loaded.index.is_behind, loaded.index.count) == (None, False, 120)
    async with open_memory() as memory:
        assert [await found(memory, text) for text in texts[:20]] == with_index


async def test_a_little_more_is_not_worth_saving(open_memory: OpenMemory, tmp_path: Path, texts: list[str]) -> None:
    async with open_memory(graph_from=MANY) as memory:
        await memory.add("diary", *texts)
        await memory.wait_idle()
        await memory.add("diary", "One thing more.")
        await memory.wait_idle()
        assert saved(tmp_path) == ["graph.1", "manifest.json", "roster.1"]
        await memory.add("diary", *(f"And then {number} more." for number in range(20)))
        await memory.wait_idle()
        assert saved(tmp_path) == ["graph.2", "manifest.json", "roster.2"]


async def test_few_that_are_left_have_none(open_memory: OpenMemory, tmp_path: Path, texts: list[str]) -> None:
    async with open_memory(graph_from=MANY) as memory:
        ids = await memory.add("diary", *texts)
        await memory.wait_idle()
        await memory.memories.remove(*OWNER, ids[:50])
        await memory.wait_idle()
        assert saved(tmp_path) != []
    async with open_memory(graph_from=MANY) as memory:
        ids += await memory.add("diary", "One thing more.")
        await memory.wait_idle()
        assert saved(tmp_path) == []
        ids += await memory.add("diary", *texts)
        await memory.wait_idle()
        assert saved(tmp_path) != []
        await memory.memories.remove(*OWNER, ids[:210])
        await memory.wait_idle()
        assert saved(tmp_path) == []


async def test_goes_with_whom_it_is_of_also_where_that_was_cut_short(
    open_memory: OpenMemory, tmp_path: Path, texts: list[str]
) -> None:
    async with open_memory(graph_from=MANY) as memory:
        await memory.add("diary", *texts)
        await memory.wait_idle()
        shutil.copytree(tmp_path / "memory", tmp_path / "before")
        async with memory.memory_system.exclusive_for_erasure(*OWNER):
            await memory.store.maintenance.erase_user(*OWNER, str(uuid4()), datetime.now(UTC))
        await memory.wait_idle()
        assert saved(tmp_path) == []
    shutil.copytree(tmp_path / "before", tmp_path / "memory", dirs_exist_ok=True)
    async with open_memory(graph_from=MANY) as memory:
        await memory.wait_idle()
        assert saved(tmp_path) == []


def bytes_of_index(folder: Path) -> bytes:
    """Return the content of all files of all indexes."""
    return b"".join(path.read_bytes() for path in sorted((folder / "memory").glob("*/*")))


async def test_removed_vector_is_in_no_index_file(open_memory: OpenMemory, tmp_path: Path) -> None:
    syllables = itertools.permutations(("ba", "de", "fi", "go", "lu", "mi"), 3)
    texts = [f"{''.join(each)} sails" for each in syllables]
    async with open_memory("hashed:512", graph_from=MANY) as memory:
        ids = await memory.add("diary", *texts)
        await memory.wait_idle()
        embedder = (await memory.memory_system.embedding.embedder()).id
        read = await memory.store.memory.vectors(*OWNER, embedder)
        place, other_place = [place for place, each in enumerate(read.vectors) if read.vectors.count(each) == 1][:2]
        vector, other = read.vectors[place], read.vectors[other_place]
        assert vector in bytes_of_index(tmp_path)
        await memory.memories.remove(*OWNER, [ids[place]])
        assert saved(tmp_path) == []
        await memory.wait_idle()
        assert saved(tmp_path) != []
        assert vector not in bytes_of_index(tmp_path)
        assert other in bytes_of_index(tmp_path)
    async with open_memory("hashed:512", graph_from=MANY) as memory:
        async with memory.memory_system.cache.lock(*OWNER) as loaded:
            assert (loaded.index.reason, loaded.index.count) == (None, len(texts) - 1)
        assert texts[place] not in await found(memory, texts[place])
        assert texts[other_place] in await found(memory, texts[other_place])


async def test_a_deleted_folder_is_made_again(open_memory: OpenMemory, tmp_path: Path, texts: list[str]) -> None:
    async with open_memory(graph_from=MANY) as memory:
        await memory.add("diary", *texts)
        await memory.wait_idle()
        shutil.rmtree(tmp_path / "memory")
        assert len(await found(memory, texts[0])) == 3
        await memory.add("diary", *(f"And then {number} more." for number in range(40)))
        await memory.wait_idle()
        assert saved(tmp_path) != []
    shutil.rmtree(tmp_path / "memory")
    async with open_memory(graph_from=MANY) as memory:
        assert len(await found(memory, texts[0])) == 3
        await memory.wait_idle()
        async with memory.memory_system.cache.lock(*OWNER) as loaded:
            assert (loaded.index.is_behind, loaded.index.count) == (False, 160)


async def test_no_index_makes_a_deleted_data_folder_again(tmp_path: Path) -> None:
    labels = np.arange(MANY, dtype=np.int64)
    vectors = np.random.default_rng(1).standard_normal((MANY, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    data = tmp_path / "data"
    index = VectorIndex.open(data / "memory" / "ana", "hashed:8", 8, labels, vectors, graph_from=10)
    while index.catch_up():
        pass
    with pytest.raises(StoreUnavailable):
        index.save()
    assert not data.exists()

"""What was taken back comes back nowhere: in no summary, no search, nobody's mind, no vector."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from api.memory.asked import NewUnit, Query
from api.memory.care import ChangedMeanwhile

OWNER = ("default", "ana")


def said(recalled: Any) -> list[str]:
    return [each.unit.content for chain in recalled.chains for each in chain.units]


async def test_a_summary_of_what_was_removed_is_not_given_before_it_is_told_anew(home: Any) -> None:
    async with home(embedder="none") as memory:
        _, secret = await memory.add("diary", "the blue boat", "a secret about the boat")
        async for _ in memory.house.care.summarise(OWNER):
            pass
        everything = Query(text="secret boat", k=10, ranks=(0, 1, 2), group="other")
        assert any("secret" in text for text in said(await memory.memories.query(*OWNER, everything)))
        await memory.memories.remove(*OWNER, [secret])
        assert said(await memory.memories.query(*OWNER, everything)) == ["the blue boat"]
    async with home(embedder="none") as memory:  # as after a crash: the work is found again
        await memory.worked()
        told = [unit.content for unit in await memory.record.memory.units(*OWNER)]
        assert len(told) == 3
        assert not any("secret" in text for text in told)
        assert len(said(await memory.memories.query(*OWNER, everything))) == 3


async def test_what_was_embedded_of_an_erased_memory_is_nobodys_vector(home: Any, monkeypatch: Any) -> None:
    async with home() as memory:
        await memory.add("diary", "a secret")
        texts = memory.house.embedding.texts

        async def erased_meanwhile(wanted: Any) -> Any:
            monkeypatch.setattr(memory.house.embedding, "texts", texts)
            rows = await texts(wanted)
            async with memory.house.banks.barred(*OWNER):
                await memory.record.erase_user(*OWNER, str(uuid4()), datetime.now(UTC))
            await memory.memories.add(*OWNER, "diary", [NewUnit(content="something else")])
            return rows

        monkeypatch.setattr(memory.house.embedding, "texts", erased_meanwhile)
        with pytest.raises(ChangedMeanwhile):
            async for _ in memory.house.care.embed(OWNER):
                pass
        embedder = (await memory.house.embedding.embedder()).id
        assert (await memory.record.memory.vectors(*OWNER, embedder)).sequences == []


async def test_a_neighbour_is_given_only_if_it_held_then(home: Any) -> None:
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    async with home(embedder="none") as memory:
        units = [
            NewUnit(content="Ana lives in Lisbon", creation_time=noon, unit_id="old"),
            NewUnit(content="she has a parrot", creation_time=noon),
            NewUnit(content="and a boat", creation_time=noon.replace(day=9)),
        ]
        await memory.memories.add(*OWNER, "diary", units)
        await memory.memories.add(*OWNER, "news", [NewUnit(content="Ana lives in Porto", supersedes="old")])
        query = Query(text="parrot", k=1, recall_context=1)
        assert said(await memory.memories.query(*OWNER, query)) == ["she has a parrot", "and a boat"]
        then = Query(text="parrot", k=1, recall_context=1, as_of=noon.replace(day=5))
        assert said(await memory.memories.query(*OWNER, then)) == ["Ana lives in Lisbon", "she has a parrot"]


async def test_a_deleted_session_is_in_nobodys_mind(app: Any, tmp_path: Any) -> None:
    async with app(tmp_path, embedder="none") as api:
        session = await api.begin("chat")
        await api.say(session, "My sister plays the bassoon")
        body = {"userId": "ana", "group": "diary", "shortTerm": 10}
        assert (await api.post("/api/memory/groups", json=body)).status_code == 200
        restored = await api.post("/api/memory/groups/diary/restore", json={"userId": "ana", "source": "LATEST"})
        assert restored.json()["shortTerm"] > 0
        assert (await api.delete(f"/api/sessions/{session['sessionId']}")).status_code == 204
        group = await api.read("/api/memory/groups/diary", userId="ana")
        assert group["group"]["shortTerm"] == 0


async def test_what_a_removed_summary_told_is_free_and_told_in_the_next(home: Any) -> None:
    async with home(embedder="none", memory_summarise_from=3) as memory:
        ids = await memory.add("diary", "the blue boat", "the red door", "the old tower")
        await memory.worked()
        before = await memory.memories.get(*OWNER, "diary")
        assert await memory.memories.remove(*OWNER, ["diary", "diary"]) == 1
        assert [unit.parent_id for unit in await memory.record.memory.units(*OWNER)] == [None] * 3
        assert await memory.record.memory.check() == []
        await memory.worked()
        after = await memory.memories.get(*OWNER, "diary")
        assert after.sequence > before.sequence
        assert {(await memory.memories.get(*OWNER, each)).parent_id for each in ids} == {"diary"}

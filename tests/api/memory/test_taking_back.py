"""What was taken back comes back nowhere: in no summary, no search, nobody's mind, no vector."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from api.memory.asked import NewUnit, Query
from api.memory.care import ChangedMeanwhile
from api.memory.draft import Draft
from api.memory.listing import Which
from api.memory.loaded import Loaded
from api.memory.refusals import MemoryRefused
from api.memory.transfers.exporting import export_memory
from runtime.memory.recall.bank import Bank
from runtime.memory.summarising import Passage, Told
from runtime.memory.units import MemoryUnit
from store.memory.rows import OwnerRow

OWNER = ("default", "ana")
AT = datetime(2026, 1, 1, tzinfo=UTC)


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


async def summaries(memory: Any) -> dict[str, str]:
    """The content of every summary in the database, by unit."""
    return {unit.unit_id: unit.content for unit in await memory.record.memory.units(*OWNER) if unit.rank}


async def test_removal_withdraws_every_summary_at_once(home: Any) -> None:
    async with home() as memory:
        _, secret = await memory.add("diary", "the blue boat", "a secret about the boat")
        async for _ in memory.house.care.summarise(OWNER):
            pass
        await memory.worked()
        memory_id = (await memory.record.memory.owner(*OWNER)).memory_id
        assert any("secret" in content for content in (await summaries(memory)).values())
        await memory.memories.remove(*OWNER, [secret])
        assert await summaries(memory) == {"diary": "", memory_id: ""}
        assert await memory.memories.get(*OWNER, "diary") is None
        assert await memory.house.listing.unit(*OWNER, "diary") is None
        page = await memory.house.listing.units(*OWNER, Which(rank=1), 10, None)
        assert page.units == []
        embedder = (await memory.house.embedding.embedder()).id
        assert len((await memory.record.memory.vectors(*OWNER, embedder)).sequences) == 1
        await memory.worked()
        again = await summaries(memory)
        assert set(again) == {"diary", memory_id}
        assert all(content and "secret" not in content for content in again.values())
        assert (await memory.memories.get(*OWNER, "diary")).content == again["diary"]


async def test_removed_words_are_in_no_export(home: Any, tmp_path: Any) -> None:
    async with home(embedder="none") as memory:
        _, secret = await memory.add("diary", "the blue boat", "a secret about the boat")
        async for _ in memory.house.care.summarise(OWNER):
            pass
        await memory.memories.remove(*OWNER, [secret])
        path = tmp_path / "memory.json"
        assert await export_memory(memory.record.memory, *OWNER, path, "json") is not None
        assert "secret" not in path.read_text()


async def test_removal_withdraws_later_summaries_of_a_model(home: Any) -> None:
    """A model saw the earlier summary as background of the later one, and may have repeated it."""

    async def repeat(passage: Passage) -> Told:
        words = [passage.history, passage.so_far, *(unit.content for unit in passage.units)]
        return Told(" ".join(filter(None, words)))

    async with home(embedder="none", summarise=repeat) as memory:
        first = await memory.add("diary", "a secret", *[f"line {number}" for number in range(130)])
        async for _ in memory.house.care.summarise(OWNER):
            pass
        told = [content for content in (await summaries(memory)).values() if "secret" in content]
        assert len(told) > 3
        await memory.memories.remove(*OWNER, first[:1])
        assert not any("secret" in content for content in (await summaries(memory)).values())
        await memory.worked()
        again = (await summaries(memory)).values()
        assert all(content and "secret" not in content for content in again)


async def test_superseded_fact_is_in_no_summary(home: Any) -> None:
    async with home(embedder="none") as memory:
        (old,) = await memory.add("diary", "Ana lives in Lisbon with her parrot")
        await memory.add("diary", "the boat is blue")
        async for _ in memory.house.care.summarise(OWNER):
            pass
        await memory.add("diary", "Ana lives in Porto with her parrot", supersedes=old)
        assert not any("Lisbon" in content for content in (await summaries(memory)).values())
        await memory.worked()
        async for _ in memory.house.care.summarise(OWNER):
            pass
        again = (await summaries(memory)).values()
        assert all("Porto" in content and "Lisbon" not in content for content in again)


async def test_removed_superseder_leaves_the_earlier_fact(home: Any) -> None:
    async with home(embedder="none") as memory:
        (old,) = await memory.add("diary", "Ana lives in Lisbon")
        (new,) = await memory.add("news", "Ana lives in Porto", supersedes=old)
        query = Query(text="where does Ana live", k=5)
        assert said(await memory.memories.query(*OWNER, query)) == ["Ana lives in Porto"]
        await memory.memories.remove(*OWNER, [new])
        assert said(await memory.memories.query(*OWNER, query)) == ["Ana lives in Lisbon"]
        await memory.add("news", "Ana lives in Faro", supersedes=old)
        await memory.memories.remove_group(*OWNER, "news")
        assert said(await memory.memories.query(*OWNER, query)) == ["Ana lives in Lisbon"]


NOTES = """\
script: notes
memory: {remember: notes}
phases:
  - phase: only
    topics:
      - topic: only
        actions:
          - {ask: Where do you live?, id: ask_place, output: [{get: place}]}
          - {remember: "Ana lives in {{ place }}", id: note, about: home}
"""


async def test_deleted_session_leaves_the_earlier_fact(app: Any, tmp_path: Any) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.keep(NOTES)
        sessions = [await api.begin("notes") for _ in range(2)]
        for session, place in zip(sessions, ("Lisbon", "Porto"), strict=True):
            await api.say(session, place)

        async def found() -> list[str]:
            body = {"userId": "ana", "text": "where does Ana live"}
            chains = (await api.post("/api/memory/search", json=body)).json()["chains"]
            return [unit["content"] for chain in chains for unit in chain["units"]]

        assert await found() == ["Ana lives in Porto"]
        assert (await api.delete(f"/api/sessions/{sessions[1]['sessionId']}")).status_code == 204
        assert await found() == ["Ana lives in Lisbon"]


async def test_each_note_on_a_subject_supersedes_the_one_before(app: Any, tmp_path: Any) -> None:
    twice = (
        NOTES.replace("script: notes", "script: twice")
        + """\
          - {ask: And now?, id: ask_now, output: [{get: place}]}
          - {remember: "Ana lives in {{ place }}", id: note_now, about: home}
"""
    )
    async with app(tmp_path, embedder="none") as api:
        await api.keep(NOTES)
        await api.keep(twice)
        await api.say(await api.begin("notes"), "Lisbon")
        await api.read("/api/memory/units", userId="ana")
        await api.say(await api.begin("twice"), "Porto", "Faro")
        listed = (await api.read("/api/memory/units", userId="ana"))["data"]
        notes = {unit["content"].split()[-1]: unit for unit in listed}
        assert notes["Lisbon"]["supersededBy"] == notes["Porto"]["unitId"]
        assert notes["Porto"]["supersededBy"] == notes["Faro"]["unitId"]
        assert notes["Faro"]["supersededBy"] is None


async def test_summary_cannot_be_superseded(home: Any) -> None:
    async with home(embedder="none") as memory:
        await memory.add("diary", "the blue boat", "the red door")
        async for _ in memory.house.care.summarise(OWNER):
            pass
        with pytest.raises(MemoryRefused, match="is a summary"):
            await memory.add("diary", "no boat", supersedes="diary")


def test_a_draft_restores_what_it_superseded_itself() -> None:
    """A turn that supersedes a note and the rewind before it may be admitted at once."""
    owner = OwnerRow(tenant="t", user_id="u", memory_id="m", sequence=0, created_at=AT)
    loaded = Loaded(owner, Bank(""), None, 0)
    first = Draft(loaded, AT)
    old = first.add(MemoryUnit(unit_id="old", content="I run", creation_time=AT, end_time=AT, group_id="g"))
    change = first.change()
    assert change is not None
    loaded.take(change)
    draft = Draft(loaded, AT)
    new = draft.add(MemoryUnit(unit_id="new", content="I swim", creation_time=AT, end_time=AT, group_id="g"))
    draft.supersede(old.sequence, new.unit_id, AT)
    assert draft.unit(old.sequence).superseded_by == "new"
    draft.take_back([new.sequence])
    assert draft.unit(old.sequence).superseded_by is None

"""What was rewound is nowhere: in no summary, search result, short-term memory or vector."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from api.memory.listing import UnitFilter
from api.memory.loaded_memory import LoadedMemory
from api.memory.maintenance import ConcurrentChange
from api.memory.requests import NewUnit, Query
from api.memory.transaction import MemoryTransaction
from api.memory.transfers.export_memory import export_memory
from api.schemas.memory_errors import InvalidMemoryRequest
from runtime.memory.recall.memory_index import MemoryIndex
from runtime.memory.summaries import Summary, SummaryRequest
from runtime.memory.units import MemoryUnit
from store.interface.memory_rows import OwnerRow
from tests.support.fixture_types import OpenApp
from tests.support.memory_findings import memory_findings
from tests.support.opened_memory import OpenMemory

OWNER = ("default", "ana")
AT = datetime(2026, 1, 1, tzinfo=UTC)


def said(recalled: Any) -> list[str]:
    return [each.content for chain in recalled.chains for each in chain.units]


async def test_summary_of_removed_units_is_hidden_until_rewritten(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        _, secret = await memory.add("diary", "the blue boat", "a secret about the boat")
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        everything = Query(text="secret boat", k=10, ranks=(0, 1, 2), group="other")
        assert any("secret" in text for text in said(await memory.memories.query(*OWNER, everything)))
        await memory.memories.remove(*OWNER, [secret])
        assert said(await memory.memories.query(*OWNER, everything)) == ["the blue boat"]
    async with open_memory(embedder="none") as memory:  # as after a crash: the work is found again
        await memory.wait_idle()
        contents = [unit.content for unit in await memory.store.memory.units(*OWNER)]
        assert len(contents) == 3
        assert not any("secret" in text for text in contents)
        assert len(said(await memory.memories.query(*OWNER, everything))) == 3


async def test_what_was_embedded_of_an_erased_memory_is_nobodys_vector(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        await memory.add("diary", "a secret")
        texts = memory.memory_system.embedding.texts

        async def erased_meanwhile(wanted: Any) -> Any:
            monkeypatch.setattr(memory.memory_system.embedding, "texts", texts)
            rows = await texts(wanted)
            async with memory.memory_system.cache.exclusive(*OWNER):
                await memory.store.maintenance.erase_user(*OWNER, str(uuid4()), datetime.now(UTC))
            await memory.memories.add(*OWNER, "diary", [NewUnit(content="something else")])
            return rows

        monkeypatch.setattr(memory.memory_system.embedding, "texts", erased_meanwhile)
        with pytest.raises(ConcurrentChange):
            async for _ in memory.memory_system.maintenance.embed(OWNER):
                pass
        embedder = (await memory.memory_system.embedding.embedder()).id
        assert (await memory.store.memory.vectors(*OWNER, embedder)).sequences == []


async def test_a_neighbour_is_given_only_if_it_held_then(open_memory: OpenMemory) -> None:
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    async with open_memory(embedder="none") as memory:
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


async def test_a_deleted_session_is_in_nobodys_mind(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        session = await api.create_session("chat")
        await api.send_texts(session, "My sister plays the bassoon")
        body = {"userId": "ana", "group": "diary", "shortTerm": 10}
        assert (await api.post("/api/memory/groups", json=body)).status_code == 201
        restored = await api.post("/api/memory/groups/diary/restore", json={"userId": "ana", "source": "LATEST"})
        assert restored.json()["shortTerm"] > 0
        assert (await api.delete(f"/api/sessions/{session['sessionId']}")).status_code == 204
        group = await api.read("/api/memory/groups/diary", userId="ana")
        assert group["group"]["shortTerm"] == 0


async def test_units_of_a_removed_summary_go_into_the_next(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none", memory_summarise_from=3) as memory:
        ids = await memory.add("diary", "the blue boat", "the red door", "the old tower")
        await memory.wait_idle()
        before = await memory.get("diary")
        assert await memory.memories.remove(*OWNER, ["diary", "diary"]) == 1
        assert [unit.parent_id for unit in await memory.store.memory.units(*OWNER)] == [None] * 3
        assert await memory_findings(memory.store) == []
        await memory.wait_idle()
        after = await memory.get("diary")
        assert after.sequence > before.sequence
        assert {(await memory.get(each)).parent_id for each in ids} == {"diary"}


async def summaries(memory: Any) -> dict[str, str]:
    """Return the content of every summary in the database, by unit."""
    return {unit.unit_id: unit.content for unit in await memory.store.memory.units(*OWNER) if unit.rank}


async def test_removal_withdraws_every_summary_at_once(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        _, secret = await memory.add("diary", "the blue boat", "a secret about the boat")
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        await memory.wait_idle()
        memory_id = (await memory.store.memory.owner(*OWNER)).memory_id
        assert any("secret" in content for content in (await summaries(memory)).values())
        await memory.memories.remove(*OWNER, [secret])
        assert await summaries(memory) == {"diary": "", memory_id: ""}
        assert await memory.get("diary") is None
        assert await memory.memory_system.listing.unit(*OWNER, "diary") is None
        page = await memory.memory_system.listing.units(*OWNER, UnitFilter(rank=1), 10, None)
        assert page.rows == []
        embedder = (await memory.memory_system.embedding.embedder()).id
        assert len((await memory.store.memory.vectors(*OWNER, embedder)).sequences) == 1
        await memory.wait_idle()
        again = await summaries(memory)
        assert set(again) == {"diary", memory_id}
        assert all(content and "secret" not in content for content in again.values())
        assert (await memory.get("diary")).content == again["diary"]


async def test_units_under_a_withdrawn_summary_name_no_parent(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        left, secret = await memory.add("diary", "the blue boat", "a secret about the boat")
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        await memory.memories.remove(*OWNER, [secret])
        assert await memory.get("diary") is None
        listing, query = memory.memory_system.listing, Query(text="boat", k=1)
        page = await listing.units(*OWNER, UnitFilter(), 10, None)
        found = (await memory.memories.query(*OWNER, query)).chains[0].units
        context = await memory.memories.context(*OWNER, "diary")
        pinned = await memory.memories.pin(*OWNER, left, pinned=True)
        readings = [await listing.unit(*OWNER, left), *page.rows, *found, *context, pinned]
        assert [(unit.unit_id, unit.parent_id) for unit in readings if unit] == [(left, None)] * 5
        await memory.wait_idle()
        again = await listing.unit(*OWNER, left)
        assert again is not None
        assert again.parent_id == "diary"


async def test_removed_words_are_in_no_export(open_memory: OpenMemory, tmp_path: Path) -> None:
    async with open_memory(embedder="none") as memory:
        _, secret = await memory.add("diary", "the blue boat", "a secret about the boat")
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        await memory.memories.remove(*OWNER, [secret])
        path = tmp_path / "memory.json"
        assert await export_memory(memory.store.memory, *OWNER, path, "json")
        assert "secret" not in path.read_text()


async def test_removal_withdraws_later_summaries_of_a_model(open_memory: OpenMemory) -> None:
    """A model saw the earlier summary as background of the later one, and may have repeated it."""

    async def repeat(passage: SummaryRequest) -> Summary:
        words = [passage.history, passage.so_far, *(unit.content for unit in passage.units)]
        return Summary(" ".join(filter(None, words)))

    async with open_memory(embedder="none", summarise=repeat) as memory:
        first = await memory.add("diary", "a secret", *[f"line {number}" for number in range(130)])
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        reported = [content for content in (await summaries(memory)).values() if "secret" in content]
        assert len(reported) > 3
        await memory.memories.remove(*OWNER, first[:1])
        assert not any("secret" in content for content in (await summaries(memory)).values())
        await memory.wait_idle()
        again = (await summaries(memory)).values()
        assert all(content and "secret" not in content for content in again)


async def test_superseded_fact_is_in_no_summary(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        (old,) = await memory.add("diary", "Ana lives in Lisbon with her parrot")
        await memory.add("diary", "the boat is blue")
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        await memory.add("diary", "Ana lives in Porto with her parrot", supersedes=old)
        assert not any("Lisbon" in content for content in (await summaries(memory)).values())
        await memory.wait_idle()
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        again = (await summaries(memory)).values()
        assert all("Porto" in content and "Lisbon" not in content for content in again)


async def test_removed_superseder_leaves_the_earlier_fact(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        (old,) = await memory.add("diary", "Ana lives in Lisbon")
        (new,) = await memory.add("news", "Ana lives in Porto", supersedes=old)
        query = Query(text="where does Ana live", k=5)
        assert said(await memory.memories.query(*OWNER, query)) == ["Ana lives in Porto"]
        await memory.memories.remove(*OWNER, [new])
        assert said(await memory.memories.query(*OWNER, query)) == ["Ana lives in Lisbon"]
        await memory.add("news", "Ana lives in Faro", supersedes=old)
        await memory.memories.remove_group(*OWNER, "news")
        assert said(await memory.memories.query(*OWNER, query)) == ["Ana lives in Lisbon"]


async def test_removed_superseder_leaves_the_latest_fact(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        (first,) = await memory.add("diary", "Ana lives in Lisbon")
        (second,) = await memory.add("news", "Ana lives in Porto", supersedes=first)
        (third,) = await memory.add("news", "Ana lives in Braga", supersedes=second)
        (last,) = await memory.add("diary", "Ana lives in Faro", supersedes=third)
        query = Query(text="where does Ana live", k=5)
        await memory.memories.remove(*OWNER, [second])
        assert said(await memory.memories.query(*OWNER, query)) == ["Ana lives in Faro"]
        earliest, at = [await memory.get(each) for each in (first, third)]
        assert (earliest.superseded_by, earliest.valid_to) == (third, at.valid_from)
        await memory.memories.remove_group(*OWNER, "news")
        assert said(await memory.memories.query(*OWNER, query)) == ["Ana lives in Faro"]
        assert (await memory.get(first)).superseded_by == last


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


async def test_deleted_session_leaves_the_earlier_fact(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(NOTES)
        sessions = [await api.create_session("notes") for _ in range(2)]
        for session, place in zip(sessions, ("Lisbon", "Porto"), strict=True):
            await api.send_texts(session, place)

        async def found() -> list[str]:
            body = {"userId": "ana", "text": "where does Ana live"}
            chains = (await api.post("/api/memory/search", json=body)).json()["chains"]
            return [unit["content"] for chain in chains for unit in chain["units"]]

        assert await found() == ["Ana lives in Porto"]
        assert (await api.delete(f"/api/sessions/{sessions[1]['sessionId']}")).status_code == 204
        assert await found() == ["Ana lives in Lisbon"]


async def test_deleted_session_leaves_the_latest_fact(app: OpenApp, tmp_path: Path) -> None:
    several = (
        NOTES.replace("script: notes", "script: several")
        + """\
          - {ask: And now?, id: ask_now, output: [{get: place}]}
          - {remember: "Ana lives in {{ place }}", id: note_now, about: home}
"""
    )
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(NOTES)
        await api.publish_script(several)

        async def homes() -> dict[str, Any]:
            listed = (await api.read("/api/memory/units", userId="ana"))["data"]
            return {unit["content"].split()[-1]: unit for unit in listed}

        sessions = [await api.create_session(script) for script in ("notes", "several", "notes")]
        for session, places in zip(sessions, (["Lisbon"], ["Porto", "Braga"], ["Faro"]), strict=True):
            await api.send_texts(session, *places)
            await homes()
        assert (await api.delete(f"/api/sessions/{sessions[1]['sessionId']}")).status_code == 204
        found = await homes()
        assert set(found) == {"Lisbon", "Faro"}
        assert found["Lisbon"]["supersededBy"] == found["Faro"]["unitId"]
        assert found["Lisbon"]["validTo"] == found["Faro"]["validFrom"]


async def test_each_note_on_a_subject_supersedes_the_one_before(app: OpenApp, tmp_path: Path) -> None:
    twice = (
        NOTES.replace("script: notes", "script: twice")
        + """\
          - {ask: And now?, id: ask_now, output: [{get: place}]}
          - {remember: "Ana lives in {{ place }}", id: note_now, about: home}
"""
    )
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(NOTES)
        await api.publish_script(twice)
        await api.send_texts(await api.create_session("notes"), "Lisbon")
        await api.read("/api/memory/units", userId="ana")
        await api.send_texts(await api.create_session("twice"), "Porto", "Faro")
        listed = (await api.read("/api/memory/units", userId="ana"))["data"]
        notes = {unit["content"].split()[-1]: unit for unit in listed}
        assert notes["Lisbon"]["supersededBy"] == notes["Porto"]["unitId"]
        assert notes["Porto"]["supersededBy"] == notes["Faro"]["unitId"]
        assert notes["Faro"]["supersededBy"] is None


async def test_summary_cannot_be_superseded(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        await memory.add("diary", "the blue boat", "the red door")
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        with pytest.raises(InvalidMemoryRequest, match="is a summary"):
            await memory.add("diary", "no boat", supersedes="diary")


async def test_unit_cannot_be_superseded_by_one_that_it_supersedes(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:

        async def add(unit_id: str, supersedes: str | None) -> None:
            unit = NewUnit(content=f"I live in {unit_id}", unit_id=unit_id, supersedes=supersedes)
            await memory.memories.add(*OWNER, "news", [unit])

        for unit_id, earlier in (("Lisbon", None), ("Porto", "Lisbon"), ("Faro", "Porto"), ("Porto", "Lisbon")):
            await add(unit_id, earlier)
        for unit_id, other in (("Faro", "Faro"), ("Lisbon", "Porto"), ("Lisbon", "Faro")):
            with pytest.raises(InvalidMemoryRequest, match=f"'{other}' cannot be superseded by itself"):
                await add(unit_id, other)
        found = [await memory.get(unit_id) for unit_id in ("Lisbon", "Porto", "Faro")]
        assert [unit and unit.superseded_by for unit in found] == ["Porto", "Faro", None]


def test_a_draft_restores_what_it_superseded_itself() -> None:
    """A turn that supersedes a note and the rewind before it may be admitted at once."""
    owner = OwnerRow(tenant="t", user_id="u", memory_id="m", sequence=0, created_at=AT)
    loaded = LoadedMemory(owner, MemoryIndex(""), None, 0)
    first = MemoryTransaction(loaded, AT)
    old = first.add(MemoryUnit(unit_id="old", content="I run", creation_time=AT, end_time=AT, group_id="g"))
    change = first.change()
    assert change is not None
    loaded.apply(change)
    draft = MemoryTransaction(loaded, AT)
    new = draft.add(MemoryUnit(unit_id="new", content="I swim", creation_time=AT, end_time=AT, group_id="g"))
    draft.supersede(old.sequence, new.unit_id, AT)
    assert draft.unit(old.sequence).superseded_by == "new"
    draft.retract([new.sequence])
    assert draft.unit(old.sequence).superseded_by is None

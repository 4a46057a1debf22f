"""What is put into a memory comes to mind again, and stays what it is whatever happens to the process."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import numpy as np
import pytest

from api.memory.loaded_memory import RECENT_QUERIES_MAX
from api.memory.memories import StartedGroup
from api.memory.requests import NewUnit, Query
from api.schemas.memory_errors import InvalidMemoryRequest, UnitIdExists
from runtime.memory.forgetting import ForgetOptions
from runtime.memory.recall.query import Decay
from store.interface.memory_filters import parse
from tests.support.opened_memory import OpenMemory

OWNER = ("default", "ana")


def texts(recalled: Any) -> list[list[str]]:
    return [[each.content for each in chain.units] for chain in recalled.chains]


async def test_added_text_is_found_by_words_now_and_by_meaning_soon(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.add("diary", "I have moved to Lisbon", "The cat is called Momo", "It rained all day")
        found = await memory.memories.query(*OWNER, Query(text="What is the cat called?", long_term_only=True))
        assert texts(found)[0] == ["The cat is called Momo"]
        await memory.wait_idle()
        async with memory.memory_system.cache.lock(*OWNER) as loaded:
            assert loaded.bank.vectors == 3
            assert not loaded.without_vector
    async with open_memory() as memory:
        async with memory.memory_system.cache.lock(*OWNER) as loaded:
            assert loaded.bank.vectors == 3
        again = await memory.memories.query(*OWNER, Query(text="What is the cat called?"))
        assert texts(again)[0] == ["The cat is called Momo"]


async def test_nobody_finds_what_is_another_users(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        (unit,) = await memory.add("diary", "The cat is called Momo")
        for other in (("default", "ben"), ("clinic", "ana")):
            assert texts(await memory.memories.query(*other, Query(text="cat Momo"))) == []
            assert await memory.get(unit, other) is None
            assert await memory.memories.remove(*other, [unit]) == 0
            assert await memory.memories.pin(*other, unit, pinned=True) is None


async def test_exclude_context_hides_the_context_of_its_group(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        said = [f"the secret number {number} is told" for number in range(12)]
        await memory.add("talk", *said)
        context = await memory.memories.context(*OWNER, "talk")
        assert [unit.content for unit in context] == said[2:]
        assert [unit.content for unit in await memory.memories.context(*OWNER, "talk", 2)] == said[-2:]
        found = await memory.memories.query(*OWNER, Query(text="secret number", k=20, group="talk"))
        assert len(found.chains) == 12
        query = Query(text="secret number", k=20, group="talk", exclude_context=True)
        found = await memory.memories.query(*OWNER, query)
        assert sorted(text for chain in texts(found) for text in chain) == said[:2]


async def test_visit_counts_for_the_unit_and_marks_all_its_ancestors(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        ids = await memory.add("diary", "I like tea", "I have a cat called Momo", "We went to the sea")
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        found = await memory.memories.query(*OWNER, Query(text="cat called Momo", k=1))
        assert [each.unit_id for each in found.chains[0].units] == [ids[1]]
    async with open_memory() as memory:
        unit = await memory.get(ids[1])
        assert (unit.visit_count, unit.last_visit) == (1, found.round)
        root = await memory.get("diary")
        assert (root.visit_count, root.last_visit) == (0, found.round)
        other = await memory.get(ids[0])
        assert other.visit_count == 0


async def test_hit_has_its_neighbours_and_touching_chains_are_joined(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.add("walk", "one", "two", "the red door", "four", "the red gate", "six", "seven")
        found = await memory.memories.query(*OWNER, Query(text="gate", k=1, recall_context=1))
        assert texts(found) == [["four", "the red gate", "six"]]
        found = await memory.memories.query(*OWNER, Query(text="red", k=2, recall_context=1))
        assert texts(found) == [["two", "the red door", "four", "the red gate", "six"]]


async def test_forgetting_takes_the_least_first_and_a_dry_run_nothing(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.memories.add(*OWNER, "other", [NewUnit(content="kept", never_delete=True)])
        ids = await memory.add("diary", *[f"thought {number}" for number in range(20)])
        would = await memory.memory_system.maintenance.preview_forget(OWNER, ForgetOptions(0.5))
        assert [unit.unit_id for unit in would] == ids[:5]  # of the ten that are not in the open context
        assert await memory.get(ids[0]) is not None
        assert await memory.memory_system.maintenance.forget(OWNER, ForgetOptions(0.5)) == 5
        assert await memory.get(ids[4]) is None
    async with open_memory() as memory:
        assert await memory.get(ids[4]) is None
        assert (await memory.get(ids[5])).content == "thought 5"


async def test_equal_unit_counts_once_and_another_is_refused(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.add("diary", "I like tea", unit_id="u1")
        await memory.add("diary", "I like tea", unit_id="u1")
        with pytest.raises(UnitIdExists):
            await memory.add("diary", "I like coffee", unit_id="u1")
        with pytest.raises(InvalidMemoryRequest):
            await memory.add("diary", " ")


async def test_what_is_superseded_is_found_no_more_but_as_of_its_time(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        (old,) = await memory.add("facts", "I live in Oslo")
        (unit,) = await memory.memories.add(*OWNER, "facts", [NewUnit(content="I live in Lisbon", supersedes=old)])
        found = await memory.memories.query(*OWNER, Query(text="Where do I live?"))
        assert texts(found) == [["I live in Lisbon"]]
        before = await memory.get(old)
        assert before.superseded_by == unit.unit_id
        then = await memory.memories.query(*OWNER, Query(text="Where do I live?", as_of=before.creation_time))
        assert ["I live in Oslo"] in texts(then)


async def test_short_term_memory_has_former_context_and_recalled_units(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.memories.start_group(*OWNER, "talk", short_term=3)
        said = await memory.add("talk", *[f"remark {number} about tea" for number in range(12)])
        await memory.add("diary", "tea with lemon")
        query = Query(text="tea", k=10, group="talk", short_term_only=True)
        short = await memory.memories.query(*OWNER, query)
        assert {each.unit_id for chain in short.chains for each in chain.units} == set(said[:2])
        await memory.memories.query(*OWNER, Query(text="lemon", k=1, group="talk"))
    async with open_memory() as memory:
        short = await memory.memories.query(*OWNER, query)
        assert "tea with lemon" in {each.content for chain in short.chains for each in chain.units}


async def test_what_is_over_the_bound_is_forgotten_by_itself(open_memory: OpenMemory) -> None:
    async with open_memory(memory_units_max=20, memory_forget_share=0.5) as memory:
        await memory.add("diary", *[f"thought {number}" for number in range(40)])
        await memory.wait_idle()
        async with memory.memory_system.cache.lock(*OWNER) as loaded:
            assert len(loaded.units) <= 20
            assert [unit.content for unit in loaded.units.values()][-1] == "thought 39"


async def test_groups_are_summed_up_by_themselves_where_that_is_set(open_memory: OpenMemory) -> None:
    async with open_memory(memory_summarise_from=5) as memory:
        await memory.add("diary", *[f"We talked about thing {number}." for number in range(5)])
        await memory.add("short", "hello")
        await memory.wait_idle()
        root = await memory.get("diary")
        assert (root.rank, root.is_extract) == (1, True)
        assert await memory.get("short") is None


async def test_work_that_was_not_done_is_done_after_the_next_start(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.add("diary", "I like tea", "I like coffee")
    async with open_memory() as memory:
        await memory.wait_idle()
        assert await memory.store.memory.embedders(*OWNER) == {"hashed:64": 2}


async def test_other_embedder_is_not_mixed_in_until_it_takes_over(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.add("diary", "I like tea", "I like coffee")
        await memory.wait_idle()
    async with open_memory("hashed:32") as memory:
        await memory.add("diary", "I like milk")
        await memory.wait_idle()
        assert await memory.store.memory.embedders(*OWNER) == {"hashed:32": 1, "hashed:64": 2}
        async for _ in memory.memory_system.maintenance.embed(OWNER, recompute=True):
            pass
        assert await memory.store.memory.embedders(*OWNER) == {"hashed:32": 3}
        async with memory.memory_system.cache.lock(*OWNER) as loaded:
            assert loaded.bank.vectors == 3


async def test_without_an_embedder_words_are_enough(open_memory: OpenMemory) -> None:
    async with open_memory("none") as memory:
        await memory.add("diary", "The cat is called Momo")
        await memory.wait_idle()
        found = await memory.memories.query(*OWNER, Query(text="cat", long_term_only=True))
        assert texts(found) == [["The cat is called Momo"]]
        assert await memory.store.memory.embedders(*OWNER) == {}


async def test_what_says_the_same_is_linked_and_stays(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        ids = await memory.add("diary", "My sister lives in Porto now.", "It rains.", "my sister lives in porto now")
        await memory.wait_idle()
        assert (await memory.get(ids[2])).duplicate_of == ids[0]
        assert (await memory.get(ids[1])).duplicate_of is None


async def test_a_group_that_is_removed_takes_what_sums_it_up_along(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.add("diary", "I like tea")
        faded_signal = await memory.add("letters", "Dear Ben")
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        async with memory.memory_system.cache.lock(*OWNER) as loaded:
            memory_id = loaded.owner.memory_id
        assert "tea" in (await memory.get(memory_id)).content
        assert await memory.memories.remove_group(*OWNER, "diary")
        assert await memory.get(memory_id) is None
        await memory.wait_idle()
        assert "tea" not in (await memory.get(memory_id)).content
        assert (await memory.get(faded_signal[0])).parent_id == "letters"
        assert not await memory.memories.remove_group(*OWNER, "diary")


async def test_visits_are_written_before_other_changes_of_a_memory(
    open_memory: OpenMemory,
) -> None:
    async with open_memory() as memory:
        (unit,) = await memory.add("diary", "The cat is called Momo")
        await memory.memories.query(*OWNER, Query(text="cat"))
        await memory.memories.query(*OWNER, Query(text="cat"))
        assert (await memory.get(unit)).visit_count == 2
        assert [row.visit_count for row in await memory.store.memory.units(*OWNER)] == [2]
        await memory.memories.query(*OWNER, Query(text="cat"))
        await memory.wait_idle()
        assert [row.visit_count for row in await memory.store.memory.units(*OWNER)] == [3]
        await memory.memories.query(*OWNER, Query(text="cat"))
        found = await memory.memories.query(*OWNER, Query(text="cat", filters=parse({"visitCount": 4})))
        assert texts(found) == [["The cat is called Momo"]]
    async with open_memory() as memory:
        assert (await memory.get(unit)).visit_count == 5


async def test_by_relevance_units_near_to_recent_questions_stay(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.memories.start_group(*OWNER, "diary", context_length=1)
        ids = await memory.add("diary", "the cat is called Momo", "it rained all day", "we went to the sea", "bye")
        await memory.wait_idle()
        relevance = ForgetOptions(0.4, "relevance")
        assert [
            unit.unit_id for unit in await memory.memory_system.maintenance.preview_forget(OWNER, relevance)
        ] == ids[:1]
        question = Query(text="the cat is called Momo", strategy="dense", filters=parse({"content": "nothing"}))
        assert texts(await memory.memories.query(*OWNER, question)) == []  # nothing was visited
        assert [
            unit.unit_id for unit in await memory.memory_system.maintenance.preview_forget(OWNER, relevance)
        ] != ids[:1]
        assert [
            unit.unit_id for unit in await memory.memory_system.maintenance.preview_forget(OWNER, ForgetOptions(0.4))
        ] == ids[:1]
        async with memory.memory_system.cache.lock(*OWNER) as loaded:
            for _ in range(2 * RECENT_QUERIES_MAX):
                loaded.recent_queries.append(loaded.recent_queries[-1])
            assert len(loaded.recent_queries) == RECENT_QUERIES_MAX


async def test_pinned_units_do_not_fade_until_they_are_unpinned(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        long_ago = datetime(2001, 1, 1, tzinfo=UTC)
        (unit,) = await memory.add("diary", "The cat is called Momo", creation_time=long_ago)
        faded = Query(text="cat Momo", decay=Decay(86_400.0, 0.5), explain=True)

        async def faded_signal() -> float:
            return (await memory.memories.query(*OWNER, faded)).chains[0].units[0].signals["faded"]

        assert await faded_signal() == 0.5
        await memory.memories.pin(*OWNER, unit, pinned=True)
        assert await faded_signal() == 1.0
        await memory.memories.pin(*OWNER, unit, pinned=False)
        assert await faded_signal() == 0.5


NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
EAST, WEST = timezone(timedelta(hours=5)), timezone(timedelta(hours=-5))


@pytest.mark.parametrize(
    ("unit", "why"),
    [
        (NewUnit(content=" "), "unit 2 has no text"),
        (NewUnit(content="x", creation_time=NOON.replace(tzinfo=None)), "unit 2 has a time without a time zone"),
        (NewUnit(content="x", creation_time=NOON, end_time=NOON.replace(day=3)), "unit 2 ends before it begins"),
        (
            NewUnit(content="x", creation_time=datetime(1, 1, 1, tzinfo=EAST)),
            "unit 2 has a time that is not within the",
        ),
        (NewUnit(content="x", end_time=datetime.max.replace(tzinfo=WEST)), "unit 2 has a time that is not within the"),
        (NewUnit(content="x", source="x" * 201), "unit 2 has a source of more than 200 characters"),
        (
            NewUnit(content="x", trust="bogus"),
            "unit 2 has an unknown trust level; it must be one of own, conversation, foreign",
        ),
        (NewUnit(content="x", metadata={"a": {1}}), "unit 2 has metadata that cannot be stored"),
        (NewUnit(content="\ud800"), "unit 2 is not valid Unicode"),
        (NewUnit(content=cast("Any", 5)), "unit 2 has an invalid field: content must be a text"),
        (NewUnit(content="x", end_time=cast("Any", "2026")), "unit 2 has an invalid field: end_time must be a time"),
    ],
)
async def test_invalid_unit_is_refused_with_all_units_of_its_request(
    open_memory: OpenMemory, unit: NewUnit, why: str
) -> None:
    async with open_memory(embedder="none") as memory:
        with pytest.raises(InvalidMemoryRequest, match=why):
            await memory.memories.add(*OWNER, "diary", [NewUnit(content="The cat is called Momo"), unit])
        assert await memory.store.memory.units(*OWNER) == []


async def test_of_what_has_only_an_end_that_is_its_time(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        (unit,) = await memory.add("diary", "The cat was called Momo", end_time=NOON)
        added = await memory.get(unit)
        assert (added.creation_time, added.end_time) == (NOON, NOON)


@pytest.mark.parametrize(
    "wrong", [{"as_of": NOON.replace(tzinfo=None)}, {"strategy": "psychic"}, {"strategy": "lexical", "text": ""}]
)
async def test_what_cannot_be_asked_is_refused(open_memory: OpenMemory, wrong: Any) -> None:
    async with open_memory(embedder="none") as memory:
        with pytest.raises(InvalidMemoryRequest):
            await memory.memories.query(*OWNER, Query(**{"text": "cat", "vector": np.ones(64, np.float32)} | wrong))


async def test_times_are_stored_and_shown_in_utc(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="none") as memory:
        new = NewUnit(content="rain", creation_time=NOON.astimezone(EAST), end_time=NOON.astimezone(WEST))
        (unit,) = await memory.memories.add(*OWNER, "diary", [new])
        assert {time.isoformat() for time in (unit.creation_time, unit.end_time, unit.valid_from)} == {NOON.isoformat()}


async def test_no_collection_is_called_as_the_latest_one_is(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        with pytest.raises(InvalidMemoryRequest, match="is reserved for"):
            await memory.add("LATEST", "hello")
        assert await memory.memories.start_group(*OWNER, "diary") == StartedGroup("diary", is_new=True)
        assert await memory.memories.start_group(*OWNER, "LATEST") == StartedGroup("diary", is_new=False)


async def test_k_units_are_found_where_no_word_is_shared(open_memory: OpenMemory) -> None:
    async with open_memory(embedder="wordllama") as memory:
        days = ("Monday", "Tuesday", "Wednesday", "Thursday")
        for group in range(4):
            said = [f"On {days[group]} I cooked dish {at} for cousin {at * group}" for at in range(100)]
            await memory.add(f"g{group}", *said)
        await memory.add("g4", "The landlord wants us out of the flat by spring", "It rained")
        query = Query(text="Are they being evicted from the apartment?", k=10, long_term_only=True)
        assert len(texts(await memory.memories.query(*OWNER, query))) == 10  # also before there are vectors
        await memory.wait_idle()
        found = texts(await memory.memories.query(*OWNER, query))
        assert len(found) == 10
        assert ["The landlord wants us out of the flat by spring"] in found[:3]
        chance = np.random.default_rng(1).standard_normal(256).astype(np.float32)
        assert len(texts(await memory.memories.query(*OWNER, Query(vector=chance, k=10)))) == 10
        none = Query(text="Are they being evicted from the apartment?", k=10, min_score=0.999)
        assert texts(await memory.memories.query(*OWNER, none)) == []


async def test_results_are_distinct_with_count_and_times(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        first = datetime(2025, 3, 1, tzinfo=UTC)
        for day in range(5):
            when = first + timedelta(days=day)
            await memory.add("diary", "I take the blue pill at night", creation_time=when)
        near = "I take the small blue pill with water at night before {} I go to my bed upstairs in peace"
        await memory.add("notes", near.format("that"), near.format("this"), "The pill costs 9 pounds")
        await memory.wait_idle()
        for _ in range(2):
            found = await memory.memories.query(*OWNER, Query(text="Which pill?", k=5, long_term_only=True))
            hits = {chain.units[0].content: chain.units[0] for chain in found.chains}
            assert len(hits) == len(found.chains) == 3
            pill = hits["I take the blue pill at night"]
            assert pill.count == 5
            assert pill.times == [first + timedelta(days=day) for day in range(5)]
            assert sorted(hit.count for hit in hits.values()) == [1, 2, 5]


async def test_duplicates_of_a_removed_unit_are_one_result(open_memory: OpenMemory) -> None:
    async def counts(memory: Any) -> list[int]:
        found = await memory.memories.query(*OWNER, Query(text="blue pill", k=5, long_term_only=True))
        return sorted(chain.units[0].count for chain in found.chains)

    pill = "I take the small blue pill with water before I go to my bed upstairs in peace"
    async with open_memory() as memory:
        first, _, _ = await memory.add("diary", pill, f"{pill} now", f"{pill} then")
        await memory.wait_idle()
        await memory.memories.remove(*OWNER, [first])
        assert await counts(memory) == [2]
    async with open_memory() as memory:
        assert await counts(memory) == [2]
        await memory.add("diary", f"{pill} now now")
        await memory.wait_idle()
        assert await counts(memory) == [3]


async def test_fillers_are_recalled_only_by_a_filter(open_memory: OpenMemory) -> None:
    async with open_memory() as memory:
        await memory.add("talk", "ok", "I adopted a parrot", "ok", "thanks", "The parrot sings")
        await memory.wait_idle()
        found = texts(await memory.memories.query(*OWNER, Query(text="ok", k=5)))
        assert sorted(text for chain in found for text in chain) == ["I adopted a parrot", "The parrot sings"]
        named = Query(text="ok", k=5, filters=parse({"content": "ok"}))
        assert texts(await memory.memories.query(*OWNER, named)) == [["ok"]]

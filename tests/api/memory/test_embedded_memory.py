"""What a memory does, from a program: `open_memory`."""

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from api.embedded_memory import open_memory
from api.memory.requests import NewUnit, Query
from api.memory.user_memory import UserMemory
from api.schemas.memory_errors import InvalidMemoryRequest, UnitIdExists
from cuebook import WorkFailed
from store.interface.errors import FilterInvalid
from tests.support.paths import ROOT

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
RIVER = {"content": {"$contains": "river"}}
"""Hits are of these alone; else what follows a hit is found by what came before it."""


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Any]:
    """Open a memory of the folder of this test: ``with opened(context_length=4) as memory``."""

    def open_(**options: Any) -> Any:
        return open_memory(tmp_path / "data", "ana", **({"embedder": "hashed:64"} | options))

    return open_


@pytest.fixture
def memory(opened: Callable[..., Any]) -> Iterator[UserMemory]:
    with opened(context_length=1) as memory:
        yield memory


def test_settings_name_the_embedder_unless_an_argument_does(opened: Callable[..., Any]) -> None:
    for embedder, expected in ((None, "hashed:32"), ("hashed:64", "hashed:64")):
        with opened(embedder=embedder, settings={"embedder": "hashed:32"}) as memory:
            assert memory.status().embedder.id == expected


def said(memory: UserMemory, *contents: str, **fields: Any) -> list[str]:
    """Add units; their ids."""
    return [unit.unit_id for unit in memory.add_many([NewUnit(content=each, **fields) for each in contents])]


def texts(recalled: Any) -> list[list[str]]:
    return [[each.content for each in chain.units] for chain in recalled.chains]


def elsewhere(memory: UserMemory) -> None:
    """Continue in another session, whose context is empty."""
    memory.start_session("elsewhere")


# -- the context ------------------------------------------------------------------------------------------------------


def test_the_context_is_what_was_said_last_in_order(opened: Any) -> None:
    with opened(context_length=4) as memory:
        said(memory, *[f"message {number}" for number in range(1, 13)])
        assert [unit.content for unit in memory.get_context()] == [f"message {number}" for number in (9, 10, 11, 12)]
        assert [unit.content for unit in memory.get_context(2)] == ["message 11", "message 12"]


def test_what_leaves_the_context_is_found_in_short_term_memory(opened: Any) -> None:
    with opened(context_length=2) as memory:
        said(memory, "alpha")
        assert memory.query("alpha", short_term_only=True).chains == []
        said(memory, "beta", "gamma")
        assert [unit.content for unit in memory.get_context()] == ["beta", "gamma"]
        assert texts(memory.query("alpha", short_term_only=True)) == [["alpha"]]


def test_units_follow_one_another_within_their_session_only(memory: UserMemory) -> None:
    first = said(memory, "one", "two", "three")
    memory.start_session("second")
    second = said(memory, "four", "five")
    for session in (first, second):
        placed = [memory.get(unit_id) for unit_id in session]
        assert [each and each.pre_id for each in placed] == [None, *session[:-1]]
        assert [each and each.next_id for each in placed] == [*session[1:], None]


def test_explicit_query_returns_units_of_the_context(opened: Any) -> None:
    with opened(context_length=3) as memory:
        said(memory, "I moved to Lisbon in May.")
        assert texts(memory.query("Where did I move?")) == [["I moved to Lisbon in May."]]
        assert texts(memory.query("Where did I move?", long_term_only=True)) == [["I moved to Lisbon in May."]]


def test_short_term_memory_of_a_memory_opened_again_is_empty(opened: Any) -> None:
    with opened() as memory:
        said(memory, "alpha")
    with opened() as memory:
        assert memory.query("alpha", short_term_only=True).chains == []


def test_exclude_context_leaves_out_what_the_prompt_holds(opened: Any) -> None:
    with opened(context_length=3) as memory:
        said(memory, *[f"the river {number}" for number in range(6)])
        everything = memory.query("river", k=10, recall_context=True)
        assert len({text for chain in texts(everything) for text in chain}) == 6
        recalled = memory.query("river", k=10, recall_context=True, exclude_context=True)
        assert {text for chain in texts(recalled) for text in chain} == {f"the river {number}" for number in range(3)}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"text": 5}, "text must be a text"),
        ({"k": "3"}, "k must be a whole number from 1 to 1,000"),
        ({"k": 2.5}, "k must be a whole number from 1 to 1,000"),
        ({"min_score": "x"}, "min_score must be a number from 0 to 1"),
        ({"recall_context": "x"}, "recall_context must be a boolean, or a whole number from 0 to"),
        ({"decay": 3}, "decay must be a mapping such as"),
        ({"as_of": "2026"}, "as_of must be a time with a time zone"),
        ({"as_of": date(2026, 1, 1)}, "as_of must be a time with a time zone"),
        ({"ranks": 1}, "ranks must be a list"),
        ({"ranks": [[1]]}, "ranks are 0"),
        ({"external": 1}, "external must be a list"),
    ],
)
def test_a_query_with_a_wrong_type_is_refused(memory: UserMemory, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidMemoryRequest, match=why):
        memory.query(**{"text": "river", **fields})


def test_a_session_with_a_name_that_is_no_text_is_refused(memory: UserMemory) -> None:
    with pytest.raises(InvalidMemoryRequest, match="must have 1 to"):
        memory.start_session(cast("Any", 5))


def test_a_query_takes_numbers_of_numpy(memory: UserMemory) -> None:
    said(memory, "The river is wide", "The river is deep")
    fields = {"k": np.int64(2), "recall_context": np.int32(1), "min_score": np.float32(0)}
    assert texts(memory.query("river", **fields)) == texts(memory.query("river", k=2, recall_context=1, min_score=0.0))


def test_exclude_context_needs_a_group() -> None:
    with pytest.raises(InvalidMemoryRequest, match="name it with `group`"):
        Query(text="river", exclude_context=True).check()


# -- queries ----------------------------------------------------------------------------------------------------------


def test_a_query_gives_at_most_k_chains_the_best_first(memory: UserMemory) -> None:
    said(memory, *[f"the river {'and the sea ' * number}" for number in range(20)])
    elsewhere(memory)
    recalled = memory.query("river", k=10)
    scores = [chain.score for chain in recalled.chains]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)
    bound = scores[4]
    above = memory.query("river", k=10, min_score=bound)
    assert all(chain.score >= bound for chain in above.chains)
    assert 5 <= len(above.chains) < 10


@pytest.mark.parametrize(
    ("hit", "chain"), [("two", ["one", "two", "three"]), ("one", ["one", "two"]), ("four", ["three", "four"])]
)
def test_a_hit_comes_with_its_neighbours(memory: UserMemory, hit: str, chain: list[str]) -> None:
    said(memory, "one", "two", "three", "four")
    elsewhere(memory)
    recalled = memory.query(hit, k=1, recall_context=True, strategy="lexical")
    assert texts(recalled) == [chain]
    assert [each.content for each in recalled.chains[0].units if each.score is not None] == [hit]


def test_chains_that_overlap_are_one_and_no_unit_comes_twice(memory: UserMemory) -> None:
    said(memory, "one", "two", "river three", "four", "river five", "six", "seven")
    elsewhere(memory)
    recalled = memory.query("river", k=5, recall_context=True, filters=RIVER)
    assert texts(recalled) == [["two", "river three", "four", "river five", "six"]]


def test_a_query_that_contradicts_itself_is_an_error(opened: Any) -> None:
    with opened(short_term=None) as memory:
        said(memory, "one")
        with pytest.raises(InvalidMemoryRequest, match="has no short-term memory"):
            memory.query("one", short_term_only=True)
        with pytest.raises(InvalidMemoryRequest, match="short-term only or long-term only, not both"):
            memory.query("one", short_term_only=True, long_term_only=True)
        with pytest.raises(InvalidMemoryRequest, match="names no external memory"):
            memory.query("one", external_only=True)


def test_short_term_memory_drops_the_least_recently_used(opened: Any) -> None:
    with opened(context_length=1, short_term=3) as memory:
        said(memory, "apple", "banana", "cherry", "damson")  # the last one is in the context
        assert texts(memory.query("apple", short_term_only=True, k=1, strategy="lexical")) == [["apple"]]
        said(memory, "elder")  # which moves `damson` out of the context
        left = {
            text
            for word in ("apple", "banana", "cherry", "damson")
            for chain in texts(memory.query(word, short_term_only=True, strategy="lexical", add_to_short_term=False))
            for text in chain
        }
        assert left == {"apple", "cherry", "damson"}


def test_short_term_memory_comes_first_then_long_term_memory(opened: Any) -> None:
    with opened(context_length=1, short_term=2) as memory:
        said(memory, "river a", "river b", "river c", "river d", "river e")
        in_mind = texts(memory.query("river", short_term_only=True, k=5, add_to_short_term=False))
        assert sorted(in_mind) == [["river c"], ["river d"]]
        assert len(memory.query("river", k=4, add_to_short_term=False).chains) == 4
        assert len(memory.query("river", k=9, long_term_only=True, add_to_short_term=False).chains) == 5


@pytest.mark.parametrize("add", [True, False])
def test_what_is_recalled_stays_in_mind_if_it_is_to(opened: Any, add: bool) -> None:
    with opened(context_length=1, short_term=1) as memory:
        said(memory, "river", "one", "two", "three")
        assert texts(memory.query("river", filters=RIVER, add_to_short_term=add)) == [["river"]]
        again = memory.query("river", filters=RIVER, short_term_only=True, add_to_short_term=False)
        assert texts(again) == ([["river"]] if add else [])


OPERATORS: list[tuple[Any, set[str]]] = [
    ({"source": "ai"}, {"b", "d"}),
    ({"source": {"$eq": "ai"}}, {"b", "d"}),
    ({"source": {"$ne": "ai"}}, {"a", "c"}),
    ({"metadata.mood": {"$gt": 2}}, {"c", "d"}),
    ({"metadata.mood": {"$gte": 2}}, {"b", "c", "d"}),
    ({"metadata.mood": {"$lt": 2}}, {"a"}),
    ({"metadata.mood": {"$lte": 2}}, {"a", "b"}),
    ({"source": {"$in": ["ai", "system"]}}, {"b", "d"}),
    ({"source": {"$nin": ["ai", "system"]}}, {"a", "c"}),
    ({"content": {"$contains": "river a"}}, {"a"}),
    ({"content": {"$like": "%river _"}}, {"a", "b", "c", "d"}),
    ({"rank": 0, "source": "user"}, {"a", "c"}),
    ({"creation_time": {"$lt": BEGUN + timedelta(hours=2)}}, {"a", "b"}),
    ({"$and": [{"source": "ai"}, {"metadata.mood": 4}]}, {"d"}),
    ({"$or": [{"metadata.mood": 1}, {"metadata.mood": 4}]}, {"a", "d"}),
    ({"$not": {"source": "ai"}}, {"a", "c"}),
    ([("source", "==", "ai"), ("metadata.mood", ">", 2)], {"d"}),
    (("metadata.tags", "contains", "x"), {"a"}),
]


def test_filters_mean_the_same_in_short_and_in_long_term_memory(opened: Any) -> None:
    with opened(context_length=1) as memory:
        for number, name in enumerate("abcd", 1):
            memory.add(
                f"the river {name}",
                source="ai" if number % 2 == 0 else "user",
                creation_time=BEGUN + timedelta(hours=number - 1),
                metadata={"mood": number, "tags": ["x"] if name == "a" else []},
            )
        memory.add("the end")
        for (filters, expected), where in itertools.product(OPERATORS, ("short_term_only", "long_term_only")):
            recalled = memory.query(
                "river", k=10, filters=filters, exclude_context=True, add_to_short_term=False, **{where: True}
            )
            assert {text[-1] for chain in texts(recalled) for text in chain} == expected, (filters, where)


@pytest.mark.gate
@pytest.mark.parametrize(
    "filters",
    [{"colour": "red"}, {"source": {"$near": 1}}, {"$xor": []}, {"$and": {}}, ("source", "~", "ai"), "source", 1],
)
def test_a_filter_that_is_none_is_an_error_and_never_unfiltered(memory: UserMemory, filters: Any) -> None:
    said(memory, "the river")
    with pytest.raises(FilterInvalid):
        memory.query("river", filters=filters)
    with pytest.raises(FilterInvalid):
        list(memory.units(filters=filters))


# -- what lasts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("short_term_only", [False, True])
def test_a_filter_by_rank_finds_summaries(opened: Any, short_term_only: bool) -> None:
    with opened(context_length=1) as memory:
        memory.start_session("trip")
        memory.add_many(["We crossed the river.", "The river was cold.", "We slept."])
        memory.summarise("trip")
        if short_term_only:
            memory.query("river", filters={"rank": 1})

        def found(filters: Any, **ranks: Any) -> set[str]:
            chains = memory.query("river", k=10, filters=filters, short_term_only=short_term_only, **ranks).chains
            return {unit.source for chain in chains for unit in chain.units}

        for filters in ({"rank": 1}, [("rank", ">", 0)], {"isExtract": True}, {"$or": [{"level": 1}, {"rank": 2}]}):
            assert found(filters) == {"summary"}
        assert found({"rank": 1}, ranks=(0,)) == set()
        assert found({"rank": {"$in": [0, 1]}}) == {"user", "summary"}
        assert found(None) == found({"source": {"$ne": "ai"}}) == {"user"}


def test_a_decay_is_given_in_days(memory: UserMemory) -> None:
    old = datetime.now(UTC) - timedelta(days=300)
    memory.add("The river is in Lisbon.", creation_time=old)
    score = memory.query("river", k=1, filters=RIVER).chains[0].score
    faded = memory.query("river", k=1, filters=RIVER, decay={"half_life_days": 30, "floor": 0.5}).chains[0].score
    assert faded == pytest.approx(score / 2)
    for wrong in ({}, {"half_life_days": 0}, {"half_life_days": 30, "floor": 2}, {"days": 3}):
        with pytest.raises(InvalidMemoryRequest, match="half_life_days"):
            memory.query("river", decay=wrong)


def test_units_decay_until_the_time_of_the_search(memory: UserMemory) -> None:
    said(memory, "tea of old", creation_time=BEGUN - timedelta(days=90))
    said(memory, "tea of late", creation_time=BEGUN)
    found = memory.query("tea", as_of=BEGUN, decay={"half_life_days": 30, "floor": 0.5}, explain=True)
    faded = {each.content: each.signals["faded"] for chain in found.chains for each in chain.units}
    assert faded == {"tea of old": 0.5, "tea of late": 1.0}


def test_visits_count_for_a_unit_and_its_ancestors_with_times(opened: Any) -> None:
    with opened(context_length=1) as memory:
        session = memory.start_session("talk")
        (river,) = said(memory, "the river")
        said(memory, "the sea")
        memory.summarise()
        top = memory.status().memory_id
        elsewhere(memory)
        said(memory, "one", "two")
        recalled = memory.query("river", k=1, strategy="lexical")
    with opened() as memory:
        unit, root, all_ = [memory.get(each) for each in (river, session, top)]
        assert unit is not None
        assert root is not None
        assert all_ is not None
        assert (unit.visit_count, root.visit_count, all_.visit_count) == (1, 0, 0)
        assert {each.last_visit for each in (unit, root, all_)} == {recalled.round}


@pytest.mark.slow
def test_what_was_added_is_there_after_a_crash(opened: Any, tmp_path: Path) -> None:
    program = f"""
import os, signal
from api.embedded_memory import open_memory
with open_memory({str(tmp_path / "data")!r}, "ana", embedder="none") as memory:
    memory.start_session("talk")
    for number in range(30):
        memory.add(f"message {{number}}")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    with opened() as memory:
        assert [each.content for each in memory.units()] == [f"message {number}" for number in range(30)]
        memory.start_session("LATEST")
        assert [unit.content for unit in memory.get_context(2)] == ["message 28", "message 29"]


def test_a_memory_that_is_opened_again_is_the_same(opened: Any) -> None:
    with opened() as memory:
        for session in ("first", "second"):
            memory.start_session(session)
            said(memory, *[f"{session} {number}" for number in range(12)])
        memory.summarise()
        before = list(memory.units())
        sessions, context = memory.sessions(), memory.get_context()
        assert len(before) == 24 + 2 + 1
    with opened() as memory:
        assert list(memory.units()) == before
        assert memory.sessions() == sessions
        assert memory.start_session("LATEST") == "second"
        assert memory.get_context() == context


def test_units_without_a_summary_yet_rank_beside_others(opened: Any) -> None:
    with opened(embedder="none") as memory:
        said(memory, "I bought a parrot last week.", "We walked along the bank.", "The parrot sleeps all day.")
        memory.summarise()
        said(memory, "The parrot learned to whistle.")
        found = [chain[0] for chain in texts(memory.query("parrot", k=4))]
        assert "parrot" not in found[3]


def test_summaries_count_for_their_units_after_reopening(opened: Any) -> None:
    def signals(memory: UserMemory) -> list[Any]:
        found = memory.query("the river", k=3, strategy="lexical", explain=True, add_to_short_term=False)
        return [(each.content, each.score, each.signals["summary_words"]) for c in found.chains for each in c.units]

    with opened(embedder="none") as memory:
        said(memory, "The river is cold.", "A boat was on it.", "We had bread.")
        memory.summarise()
        first = signals(memory)
        said(memory, "Good night then.")
        memory.summarise()  # writes the summary again
        again = signals(memory)
    with opened(embedder="none") as memory:
        assert signals(memory) == again
    assert all(share > 0 for _, _, share in (*first, *again))


def test_latest_session_of_none_is_new_and_a_name_is_retained(opened: Any) -> None:
    with opened() as memory:
        latest = memory.start_session("LATEST")
        assert latest not in {"", "LATEST"}
        assert memory.start_session("my-id") == memory.session_id == "my-id"
        assert {group.group_id for group in memory.sessions()} == {latest, "my-id"}
        assert memory.restore() == 0


def test_superseded_unit_names_the_one_to_supersede(memory: UserMemory) -> None:
    first = memory.add("Ana lives in Oslo")
    second = memory.add("Ana lives in Porto", supersedes=first.unit_id)
    again = {"content": second.content, "unit_id": second.unit_id, "supersedes": first.unit_id}
    assert memory.add(again).unit_id == second.unit_id
    with pytest.raises(InvalidMemoryRequest, match=f"superseded by '{second.unit_id}' already: supersede that one"):
        memory.add("Ana lives in Faro", supersedes=first.unit_id)


@pytest.mark.parametrize("k", [1.5, "3", None, 0])
def test_number_of_hits_is_a_whole_number(memory: UserMemory, k: Any) -> None:
    with pytest.raises(InvalidMemoryRequest, match="k must be a whole number from 1"):
        memory.query("tea", k=k)


@pytest.mark.parametrize("room", [{"short_term": 1.5}, {"context_length": 2.5}, {"short_term": "5"}])
def test_capacity_is_a_whole_number(opened: Any, room: Any) -> None:
    with opened(**room) as memory, pytest.raises(InvalidMemoryRequest, match=r"holds from \d to 1,000 units"):
        memory.start_session("monday")
    with opened(short_term=np.int64(5), context_length=np.int64(1)) as memory:
        memory.start_session("monday")
        said(memory, "alpha", "beta")
        assert texts(memory.query("alpha", short_term_only=True)) == [["alpha"]]
    with opened() as memory:
        assert [unit.content for unit in memory.units()] == ["alpha", "beta"]


def test_latest_session_to_restore_is_one_with_units(opened: Any) -> None:
    with opened() as memory:
        memory.start_session("talk")
        said(memory, "alpha", "beta")
        memory.start_session("opened and left")
        memory.start_session("now")
        assert memory.restore() == 2
        assert memory.start_session("LATEST") == "now"
        memory.remove_session("talk")
        assert memory.restore() == 0


def test_short_term_memory_is_filled_from_another_session(opened: Any) -> None:
    with opened(short_term=2) as memory:
        memory.start_session("before")
        said(memory, "alpha", "beta", "gamma")
        memory.start_session("now")
        assert memory.restore("before") == 2
        found = texts(memory.query("alpha beta gamma", short_term_only=True, k=5))
        assert sorted(found) == [["beta"], ["gamma"]]
        memory.query("gamma", k=1)
        assert memory.restore("now") == 2  # its own: what it has used is not lost
        assert sorted(texts(memory.query("alpha beta gamma", short_term_only=True, k=5))) == [["beta"], ["gamma"]]
        with pytest.raises(InvalidMemoryRequest, match="there is no session or collection 'never'"):
            memory.restore("never")


def test_session_is_removed_with_its_summaries_and_no_other(opened: Any) -> None:
    with opened(context_length=1) as memory:
        for session in ("gone", "kept"):
            memory.start_session(session)
            said(memory, *[f"the river of {session} {number}" for number in range(3)])
        memory.embed()
        memory.summarise()
        retained = list(memory.units(session_id="kept"))
        vectors = memory.status().vectors["hashed:64"]
        assert memory.remove_session("gone")
        assert not memory.remove_session("gone")
        assert list(memory.units(session_id="gone")) == []
        after = list(memory.units(session_id="kept"))
        assert [(each.unit_id, each.pre_id, each.next_id) for each in after] == [
            (each.unit_id, each.pre_id, each.next_id) for each in retained
        ]
        elsewhere(memory)
        assert all("gone" not in text for chain in texts(memory.query("river", k=20)) for text in chain)
        memory.summarise()
        (top,) = memory.units(rank=2)
        assert (top.children_ids, memory.status().is_stale) == (["kept"], False)
        memory.embed()
        assert memory.status().vectors["hashed:64"] < vectors
    with opened() as memory:
        assert list(memory.units(session_id="gone")) == []


def test_forgetting_takes_the_least_important_unprotected_units(opened: Any) -> None:
    with opened(context_length=1) as memory:
        ids = said(memory, *[f"unit {number}" for number in range(101)])  # the last one is in the context
        memory.pin(ids[0])
        memory.query("unit 1", k=1, filters={"unit_id": ids[1]})
        reported = [unit.unit_id for unit in memory.forget(0.1, dry_run=True)]
        assert reported == ids[2:11]
        assert [unit.unit_id for unit in memory.forget(0.1)] == reported
        assert [each.unit_id for each in memory.units()] == [*ids[:2], *ids[11:]]


# -- from a program ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"share": 0}, {"share": 1.5}, {"share": "x"}, {"policy": "newest"}])
def test_what_cannot_be_forgotten_so_is_refused(memory: UserMemory, options: Any) -> None:
    before = memory.status().units
    with pytest.raises(InvalidMemoryRequest, match="not a"):
        memory.forget(**options)
    assert memory.status().units == before


def test_units_come_with_vectors_of_numpy(memory: UserMemory) -> None:
    vectors = np.eye(64, dtype=np.float32)
    memory.add_many([NewUnit(content=f"unit {number}", vector=vectors[number]) for number in range(20)])
    elsewhere(memory)
    assert texts(memory.query(vector=vectors[7], k=1)) == [["unit 7"]]
    assert memory.status().without_vector == 0


def test_a_unit_is_added_once_and_another_of_its_id_is_refused(memory: UserMemory) -> None:
    first = memory.add("one", unit_id="mine")
    assert memory.add("one", unit_id="mine") == first
    with pytest.raises(UnitIdExists, match="another unit with the id 'mine'"):
        memory.add("two", unit_id="mine")
    assert memory.remove("mine")
    assert not memory.remove("mine")
    assert memory.get("mine") is None


def test_memories_of_a_folder_are_each_users_own(opened: Any, tmp_path: Path) -> None:
    with opened() as memory:
        said(memory, "Ana's secret")
    with open_memory(tmp_path / "data", "ben", embedder="none") as memory:
        assert list(memory.units()) == []
        assert memory.query("secret").chains == []
    with open_memory(tmp_path / "data", "ana", tenant="clinic", embedder="none") as memory:
        assert list(memory.units()) == []


def test_vectors_may_be_lists_of_numbers(memory: UserMemory) -> None:
    memory.add("by the river", vector=[1.0, *[0.0] * 63])
    elsewhere(memory)
    assert texts(memory.query(vector=[1, *[0] * 63], k=1)) == [["by the river"]]
    with pytest.raises(InvalidMemoryRequest, match="a vector must consist of numbers"):
        memory.query(vector="abc")


def test_nobody_has_no_memory(tmp_path: Path) -> None:
    with pytest.raises(InvalidMemoryRequest, match="`user` is empty"), open_memory(tmp_path, ""):
        pass


# -- what other libraries' users expect -------------------------------------------------------------------------------


def test_unit_sent_again_in_another_session_is_added_once(opened: Any) -> None:
    with opened() as memory:
        first = memory.add("the river", unit_id="u1")
        memory.start_session("another")
        assert memory.add("the river", unit_id="u1") == first
        with pytest.raises(UnitIdExists):
            memory.add("the sea", unit_id="u1")
        assert len(list(memory.units())) == 1


def test_messages_are_added_with_their_roles(opened: Any) -> None:
    with opened() as memory:
        added = memory.add(
            [
                {"role": "user", "content": "I moved to Lisbon."},
                {"role": "assistant", "content": "How is it?", "metadata": {"mood": 2}},
                {"role": "user", "name": "Ana", "content": "Warm."},
            ]
        )
        assert [(unit.source, unit.content) for unit in added] == [
            ("user", "I moved to Lisbon."),
            ("assistant", "How is it?"),
            ("Ana", "Warm."),
        ]
        assert added[1].metadata == {"mood": 2}
        (unit,) = memory.add_many([{"content": "A note", "source": "app", "trust": "own"}])
        assert (unit.source, unit.trust) == ("app", "own")


@pytest.mark.parametrize("message", [{"role": "user", "content": "hello"}, NewUnit(content="hello")])
def test_single_message_is_one_unit(opened: Any, message: Any) -> None:
    with opened() as memory:
        assert memory.add(message).content == "hello"
        assert [unit.content for unit in memory.units()] == ["hello"]


def test_a_field_that_is_none_has_its_default(opened: Any) -> None:
    names = ("source", "metadata", "creation_time", "end_time", "unit_id", "trust", "supersedes", "vector")
    with opened() as memory:
        plain, none = memory.add("hello"), memory.add("hello", **dict.fromkeys(names))
        assert (none.source, none.metadata, none.trust) == (plain.source, plain.metadata, plain.trust)


def test_fields_of_a_unit_are_returned_as_they_are_stored(opened: Any) -> None:
    with opened() as memory:
        added = memory.add(
            "hello", creation_time="2026-03-04T12:00:00Z", metadata={"on": date(2026, 3, 4), "at": (1, 2)}
        )
        stored = memory.get(added.unit_id)
        assert added.creation_time == stored.creation_time == datetime(2026, 3, 4, 12, tzinfo=UTC)
        assert added.metadata == stored.metadata == {"on": "2026-03-04", "at": [1, 2]}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"source": 7}, "unit 1 has an invalid field: .* `str`"),
        ({"creation_time": 7}, "unit 1 has an invalid field: .* `datetime"),
        ({"creation_time": "yesterday"}, "unit 1 has an invalid field"),
        ({"never_delete": "yes"}, "unit 1 has an invalid field: .* `bool`"),
        ({"metadata": "red"}, "unit 1 has metadata that is not a mapping"),
        ({"unit_id": "a\nb"}, "unit 1 has an id with a control character"),
        ({"source": "a\x00b"}, "unit 1 has a source with a control character"),
    ],
)
def test_invalid_field_of_a_unit_is_refused(opened: Any, fields: Any, words: str) -> None:
    with opened() as memory:
        with pytest.raises(InvalidMemoryRequest, match=words):
            memory.add("hello", **fields)
        assert list(memory.units()) == []


def test_session_names_have_no_control_characters(opened: Any) -> None:
    with opened() as memory:
        with pytest.raises(InvalidMemoryRequest, match="contains a control character"):
            memory.start_session("a\nb")
        assert memory.sessions() == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"role": "user", "text": "hello"}, "unit 2 has no field 'text'"),
        ({"role": "user"}, "unit 2 has no `content`"),
        ({"role": "user", "content": ["hello"]}, "unit 2 has no `content` that is a text"),
        (7, "unit 2 must be a text, a mapping or a NewUnit, not int"),
    ],
)
def test_message_of_another_shape_is_refused(opened: Any, given: Any, words: str) -> None:
    with opened() as memory:
        with pytest.raises(InvalidMemoryRequest, match=words):
            memory.add([{"role": "user", "content": "hello"}, given])
        assert list(memory.units()) == []


def test_groups_of_a_summary_have_limits_of_ones_own(opened: Any) -> None:
    with opened() as memory:
        memory.start_session("talk")
        said(memory, *[f"the river number {number}" for number in range(9)])
        memory.summarise("talk", group_units_max=3)
        levels = [unit.level for unit in memory.units(rank=1)]
        assert sorted(levels) == [1, 1, 1, 2]
        with pytest.raises(InvalidMemoryRequest, match=r"limits of a summary .* whole number of at least 2"):
            memory.summarise("talk", group_units_max=1)
        with pytest.raises(InvalidMemoryRequest, match="there is no session 'talks' in this memory"):
            memory.summarise("talks")


def test_short_term_memory_is_switched_on_and_off(opened: Any) -> None:
    with opened(context_length=1, short_term=None) as memory:
        memory.start_session("monday")
        said(memory, "river a", "river b", "river c")
        with pytest.raises(InvalidMemoryRequest, match="has no short-term memory"):
            memory.query("river", short_term_only=True)
        memory.start_session("tuesday")
        memory.enable_short_term(2, restore="monday")
        assert sorted(texts(memory.query("river", short_term_only=True))) == [["river b"], ["river c"]]
        memory.disable_short_term()
        with pytest.raises(InvalidMemoryRequest, match="has no short-term memory"):
            memory.query("river", short_term_only=True)


def test_close_summarises_where_asked(opened: Any) -> None:
    with opened() as memory:
        said(memory, "the river", "the sea")
        session = memory.session_id
        memory.close(summarise=True)
        memory.close()
        with pytest.raises(InvalidMemoryRequest, match="the memory is closed"):
            memory.add("too late")
    with opened() as memory:
        assert memory.get(session) is not None


def test_memory_is_closed_after_its_block(opened: Any) -> None:
    with opened() as memory:
        said(memory, "the river")
    with pytest.raises(InvalidMemoryRequest, match="the memory is closed"):
        memory.add("too late")
    memory.close()


def test_close_with_a_model_that_is_down_says_so(opened: Any) -> None:
    unreachable = {"model_url": "http://127.0.0.1:9/v1", "model_key": "none"}
    with opened(model="openai:none", settings=unreachable) as memory:
        said(memory, "the river", "the sea")
        session = memory.session_id
        with pytest.raises(WorkFailed, match="cannot be reached"):
            memory.close(summarise=True)
        with pytest.raises(InvalidMemoryRequest, match="is closed"):
            memory.status()
    with opened() as memory:
        memory.summarise(session)  # after the job that the first one left
        assert memory.status().units.of_all == 1


def test_an_embedder_may_be_a_function(tmp_path: Path) -> None:
    def by_letters(texts: list[str]) -> list[list[float]]:
        return [[float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]

    with open_memory(tmp_path / "data", "ana", embedder=by_letters) as memory:
        said(memory, "zzz zzz", "aaa bbb")
        memory.embed()
        assert memory.status().embedder.id == f"own:{by_letters.__qualname__}:26"
        assert texts(memory.query("zz", k=1, strategy="dense")) == [["zzz zzz"]]


def test_a_function_that_embeds_nothing_says_so(tmp_path: Path) -> None:
    with open_memory(tmp_path / "data", "ana", embedder=lambda texts: [1.0, 2.0]) as memory:
        said(memory, "the river")
        assert texts(memory.query("river")) == [["the river"]]
        assert "return one row for each" in memory.status().embedder.state


def test_while_the_embedder_loads_a_memory_is_used_without_it(opened: Any) -> None:
    is_loaded = threading.Event()

    def slow(given: list[str]) -> list[list[float]]:
        assert is_loaded.wait(30)
        return [[1.0, len(each)] for each in given]

    with opened(embedder=slow) as memory:
        started = time.monotonic()
        memory.add("The river is cold")
        assert texts(memory.query("river", strategy="lexical")) == [["The river is cold"]]
        assert (memory.status().embedder.id, time.monotonic() - started < 10) == (None, True)
        is_loaded.set()
        memory.embed()
        assert texts(memory.query("stream", strategy="dense")) == [["The river is cold"]]
        memory.add("A vector of its own", vector=[1.0, 0.0])

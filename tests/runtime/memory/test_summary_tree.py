"""The tree of summaries, grown by stubs that tell every word they are fed."""

import asyncio
import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from runtime.context.extracts import MARK
from runtime.memory.summaries import GroupLimits, Summary, SummaryRequest, summarise_all, summarise_group
from runtime.memory.summarizers import extract, extractive_summary, request_of


def sound(memory, root_id, rank=1, *, forgot=False):
    """Assert what holds of every complete tree; return its root.

    A summary tells of what is under it, of all of that, and of nothing else that was not forgotten.
    """
    units = {unit.unit_id: unit for unit in memory.units}
    nodes = [unit for unit in memory.units if unit.rank == rank and unit.group_id == root_id]
    leaves = (
        [unit for unit in memory.units if unit.rank == 0 and unit.group_id == root_id]
        if rank == 1
        else [unit for unit in memory.units if unit.rank == 1 and unit.unit_id == unit.group_id]
    )
    root = units[root_id]
    assert {
        unit.unit_id for unit in nodes if units.get(unit.parent_id or "", unit).rank != rank or not unit.parent_id
    } == {root_id}
    for unit in [*nodes, *leaves]:
        if unit.unit_id == root_id:
            continue
        parent = units[unit.parent_id]
        assert parent.rank == rank
        assert parent.group_id == root_id
        assert parent.level > (unit.level if unit.rank == rank else 0)
        assert parent.sequence > unit.sequence
    for node in nodes:
        under = [unit for unit in memory.units if unit.parent_id == node.unit_id]
        assert not node.is_stale
        assert node.level > max(unit.level if unit.rank == rank else 0 for unit in under)
        words = {word for unit in under for word in unit.content.split()}
        assert words <= set(node.content.split())
        assert forgot or words == set(node.content.split())
    return root


def times(units):
    return min(unit.creation_time for unit in units), max(unit.end_time for unit in units)


def test_a_summary_request_says_who_said_what(memory) -> None:
    sources = ("user", "ai", "assistant", "Kim")
    units = tuple(replace(unit, source=source) for unit, source in zip(memory.say(*"abcd"), sources, strict=True))
    passage = SummaryRequest(history="", so_far="", units=units, rank=1, level=1)
    roles = [(each.role, each.metadata) for each in request_of(passage, units[0].creation_time, 0).history]
    named = {"speaker": {"name": "Kim"}}
    assert roles == [("user", {}), ("assistant", {}), ("assistant", {}), ("user", named)]


async def test_five_messages_in_pairs_have_one_root(memory, word_summarizer) -> None:
    said = memory.say("a", "b", "c", "d", "e")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer(), units_max=2)))
    root = sound(memory, "visit")
    assert (root.rank, root.level, root.content) == (1, 3, "a b c d e")
    assert (root.creation_time, root.end_time) == times(said)
    assert memory.under("visit") == ["e", "a b c d"]  # the one that is left over joins the next level as it is
    assert sorted(memory.under("s1") + memory.under("s2") + memory.under("s3")) == ["a", "b", "c", "d", "e"]
    assert [memory[each].creation_time for each in ("s1", "s2", "s3")] == [said[n].creation_time for n in (0, 2, 4)]


async def test_a_short_session_is_summarized_in_its_root_at_once(memory, word_summarizer) -> None:
    memory.say("a", "b")
    ask = word_summarizer()
    await memory.follow(summarise_group(memory.units, "visit", memory.options(ask)))
    assert ask.fed == [["a", "b"]]
    assert sound(memory, "visit").level == 1


async def test_each_group_gets_the_summary_of_the_one_before(memory, word_summarizer) -> None:
    memory.say("a", "b", "c", "d", "e")
    ask = word_summarizer()
    await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, units_max=2, history="long ago")))
    assert ask.fed == [["a", "b"], ["c", "d"], ["e"], ["a b", "c d"], ["a b c d", "e"]]
    assert [each.history for each in ask.passages] == ["long ago", "a b", "c d", "long ago", "long ago"]
    assert [each.level for each in ask.passages] == [1, 1, 1, 2, 3]


async def test_message_beyond_the_budget_is_a_group_by_itself(memory, word_summarizer) -> None:
    memory.say(*(f"word{n}-" + "x" * 400 for n in range(9)))
    ask = word_summarizer()
    await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, tokens_max=50)))
    root = sound(memory, "visit")
    assert [len(fed) for fed in ask.fed[:9]] == [1] * 9
    assert root.level <= 1 + math.ceil(math.log2(9))
    assert len(ask.fed) <= 2 * 9


async def test_without_anything_new_there_is_no_call_and_no_change(memory, word_summarizer) -> None:
    memory.say(*"abcdefg")
    options = memory.options(word_summarizer(), units_max=2)
    await memory.follow(summarise_group(memory.units, "visit", options))
    before = memory.units
    ask = word_summarizer()
    assert await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, units_max=2))) == 0
    assert (ask.passages, memory.units) == ([], before)


async def test_with_three_new_messages_only_those_are_fed(memory, word_summarizer) -> None:
    memory.say("a", "b", "c", "d")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer())))
    memory.say("e", "f", "g")
    ask = word_summarizer()
    await memory.follow(summarise_group(memory.units, "visit", memory.options(ask)))
    assert ask.fed == [["e", "f", "g"]]
    assert ask.passages[0].so_far == "a b c d"
    assert sound(memory, "visit").content == "a b c d e f g"


async def test_session_that_outgrows_its_group_keeps_its_root_id(memory, word_summarizer) -> None:
    memory.say("a", "b", "c")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer(), units_max=4)))
    memory.say("d", "e", "f")
    ask = word_summarizer()
    await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, units_max=4)))
    assert ask.fed == [["d"], ["e", "f"], ["e f"]]
    assert [each.so_far for each in ask.passages] == ["a b c", "", "a b c d"]
    root = sound(memory, "visit")
    assert (root.level, root.content) == (2, "a b c d e f")


async def test_what_a_visit_left_on_the_root_stays_with_it(memory, word_summarizer) -> None:
    memory.say("a", "b")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer(), units_max=2)))
    memory.units = [
        replace(unit, visit_count=3, last_visit=2, never_delete=True) if unit.unit_id == "visit" else unit
        for unit in memory.units
    ]
    memory.say("c", "d", "e")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer(), units_max=2)))
    root = sound(memory, "visit")
    assert (root.visit_count, root.last_visit, root.never_delete) == (3, 2, True)
    assert not any(unit.never_delete or unit.visit_count for unit in memory.units if unit.unit_id != "visit")


async def test_summary_is_trusted_as_much_as_its_least_trusted_unit(memory, word_summarizer) -> None:
    memory.say("a", "b", trust="own")
    memory.say("c", trust="foreign")
    memory.say("d", trust="conversation")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer(), units_max=2)))
    assert [memory[each].trust for each in ("s1", "s2", "visit")] == ["own", "foreign", "foreign"]


async def test_what_was_forgotten_stays_in_its_summary(memory, word_summarizer) -> None:
    said = memory.say("a", "b", "c", "d")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer(), units_max=2)))
    memory.remove([unit.unit_id for unit in said[2:]], forgotten=True)
    memory.say("e")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer(), units_max=2)))
    assert set(sound(memory, "visit", forgot=True).content.split()) == set("abcde")
    assert memory["visit"].creation_time == said[0].creation_time


async def test_a_rewound_turn_is_in_no_summary(memory, word_summarizer) -> None:
    said = memory.say(*"abcdefg")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer(), units_max=2)))
    memory.remove([said[2].unit_id, said[6].unit_id])
    ask = word_summarizer()
    await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, units_max=2)))
    assert ask.fed_said == ["d"]
    assert set(sound(memory, "visit").content.split()) == set("abdef")
    assert not any("c" in unit.content or "g" in unit.content for unit in memory.units)


async def test_a_summary_that_was_removed_is_written_again(memory, word_summarizer) -> None:
    memory.say(*"abcde")
    options = memory.options(word_summarizer(), units_max=2)
    await memory.follow(summarise_group(memory.units, "visit", options))
    memory.remove(["s1", "visit"])
    ask = word_summarizer()
    await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, units_max=2)))
    assert ask.fed_said == ["a", "b"]
    assert set(sound(memory, "visit").content.split()) == set("abcde")


async def test_rebuilt_summary_is_in_order_of_time(memory, word_summarizer) -> None:
    said = memory.say("a", "b", "c")
    free = said[1].unit_id  # as a unit that is valid again
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer())))
    memory.units = [
        replace(unit, parent_id=None if unit.unit_id == free else unit.parent_id, is_stale=unit.rank == 1)
        for unit in memory.units
    ]
    ask = word_summarizer()
    await memory.follow(summarise_group(memory.units, "visit", memory.options(ask)))
    assert ask.fed == [["a", "b", "c"]]
    sound(memory, "visit")


async def test_a_session_that_is_rewound_completely_leaves_no_summary(memory, word_summarizer) -> None:
    said = memory.say(*"abcde")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(word_summarizer(), units_max=2)))
    memory.remove([unit.unit_id for unit in said])
    ask = word_summarizer()
    await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, units_max=2)))
    assert (memory.units, ask.passages) == ([], [])


# -- the long-term summary ------------------------------------------------------------------------------------------


async def test_long_term_summary_first_summarises_an_open_session(memory, word_summarizer) -> None:
    for group, words in [("one", "ab"), ("two", "cd"), ("three", "ef")]:
        memory.say(*words, group=group)
    for group in ("one", "three"):
        await memory.follow(summarise_group(memory.units, group, memory.options(word_summarizer())))
    ask = word_summarizer()
    await memory.follow(summarise_all(memory.units, "memory", memory.options(ask)))
    assert ask.fed == [["c", "d"], ["a b", "c d", "e f"]]
    root = sound(memory, "memory", rank=2)
    assert (root.rank, root.unit_id, root.content) == (2, "memory", "a b c d e f")
    assert (root.creation_time, root.end_time) == times([unit for unit in memory.units if unit.rank == 0])
    assert all(sound(memory, group).parent_id == "memory" for group in ("one", "two", "three"))


async def test_a_session_that_continued_is_summarized_again(memory, word_summarizer) -> None:
    for group in ("one", "two", "three", "four", "five"):
        memory.say(group[0], group=group)
    await memory.follow(summarise_all(memory.units, "memory", memory.options(word_summarizer(), units_max=2)))
    memory.say("z", group="one")
    ask = word_summarizer()
    await memory.follow(summarise_all(memory.units, "memory", memory.options(ask, units_max=2)))
    assert ask.fed_said == ["z"]
    assert len(ask.fed) == 4  # the session, and what is above it
    assert "z" in sound(memory, "memory", rank=2).content


async def test_long_term_summary_is_rewritten_after_a_removal(memory, word_summarizer) -> None:
    for group in ("one", "two", "three"):
        memory.say(f"{group}-a", f"{group}-b", group=group)
    await memory.follow(summarise_all(memory.units, "memory", memory.options(word_summarizer())))
    others = [unit for unit in memory.units if unit.group_id in ("one", "three")]
    memory.remove([unit.unit_id for unit in memory.units if unit.group_id == "two"])
    assert memory["memory"].is_stale
    ask = word_summarizer()
    await memory.follow(summarise_all(memory.units, "memory", memory.options(ask)))
    assert ask.fed == [["one-a one-b", "three-a three-b"]]
    assert "two" not in sound(memory, "memory", rank=2).content
    assert [unit for unit in memory.units if unit.group_id in ("one", "three")] == others


async def test_no_summary_is_written_of_nothing(memory, word_summarizer) -> None:
    ask = word_summarizer()
    assert await memory.follow(summarise_all(memory.units, "memory", memory.options(ask))) == 0
    assert ask.passages == []


# -- whatever comes ---------------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=25)
ARRIVALS = st.lists(SIZES, min_size=1, max_size=5)
LIMITS = st.tuples(st.integers(2, 5), st.integers(1, 60))


async def append_and_summarize(memory, arrivals, limits, ask):
    words = 0
    for sizes in arrivals:
        memory.say(*(f"w{words + n}".ljust(4 * size, "-") for n, size in enumerate(sizes)))
        words += len(sizes)
        await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, *limits)))
        root = sound(memory, "visit")
        leaves = [unit for unit in memory.units if unit.rank == 0]
        assert (root.creation_time, root.end_time) == times(leaves)
        assert root.level <= 1 + math.ceil(math.log2(max(len(leaves), 2))) + 1


@given(ARRIVALS, LIMITS)
def test_each_message_is_summarized_once_under_one_root(new_memory, word_summarizer, arrivals, limits) -> None:
    memory, ask = new_memory(), word_summarizer()
    asyncio.run(append_and_summarize(memory, arrivals, limits, ask))
    said = [unit.content for unit in memory.units if unit.rank == 0]
    assert ask.fed_said == said
    once, all_at_once = new_memory(), word_summarizer()
    asyncio.run(append_and_summarize(once, [[size for sizes in arrivals for size in sizes]], limits, all_at_once))
    assert set(once["visit"].content.split()) == set(memory["visit"].content.split())
    assert len(all_at_once.passages) <= 2 * len(said)
    assert len(ask.passages) <= len(all_at_once.passages) + 8 * len(arrivals)


@given(ARRIVALS, LIMITS, st.integers(1, 40))
def test_a_failing_summary_loses_nothing_and_doubles_nothing(
    new_memory, word_summarizer, arrivals, limits, fails_at
) -> None:
    async def driven(memory, ask):
        for turn, sizes in enumerate(arrivals):
            memory.say(*(f"t{turn}w{n}".ljust(4 * size, "-") for n, size in enumerate(sizes)))
            try:
                await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, *limits)))
            except ConnectionError:
                ids = {unit.unit_id for unit in memory.units}
                assert all(unit.parent_id in ids for unit in memory.units if unit.parent_id)
        await memory.follow(summarise_group(memory.units, "visit", memory.options(ask, *limits)))
        return sound(memory, "visit")

    memory, ask = new_memory(), word_summarizer(fails_at)
    asyncio.run(driven(memory, ask))
    refused = ask.fed[fails_at - 1] if len(ask.fed) >= fails_at else []
    twice = [content for content in ask.fed_said if ask.fed_said.count(content) > 1]
    assert set(twice) <= set(refused)


TURNS = st.lists(st.tuples(st.sampled_from(["one", "two", "three", "four"]), SIZES), min_size=1, max_size=6)


@given(st.data(), TURNS, LIMITS)
def test_rest_is_in_one_tree_whatever_is_added_removed_or_fails(
    new_memory, word_summarizer, data, turns, limits
) -> None:
    async def driven():
        memory = new_memory()
        for turn, (group, sizes) in enumerate(turns):
            memory.say(*(f"t{turn}w{n}".ljust(4 * size, "-") for n, size in enumerate(sizes)), group=group)
            ask = word_summarizer(data.draw(st.integers(0, 12)))
            with contextlib.suppress(ConnectionError):
                await memory.follow(summarise_all(memory.units, "memory", memory.options(ask, *limits)))
            retained = data.draw(st.sampled_from([unit for unit in memory.units if unit.rank == 0]))
            others = [unit.unit_id for unit in memory.units if unit is not retained]
            memory.remove(data.draw(st.sets(st.sampled_from(others))) if others else ())
        await memory.follow(summarise_all(memory.units, "memory", memory.options(word_summarizer(), *limits)))
        left = [unit for unit in memory.units if unit.rank == 0]
        for group in {unit.group_id for unit in left}:
            root = sound(memory, group)
            assert set(root.content.split()) == {unit.content for unit in left if unit.group_id == group}
            assert (root.creation_time, root.end_time) == times([unit for unit in left if unit.group_id == group])
        whole = sound(memory, "memory", rank=2)
        assert set(whole.content.split()) == {unit.content for unit in left}
        assert (whole.creation_time, whole.end_time) == times(left)
        assert (
            await memory.follow(summarise_all(memory.units, "memory", memory.options(word_summarizer(), *limits))) == 0
        )

    asyncio.run(driven())


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="never ends in one root"):
        GroupLimits(units_max=1)


# -- without a model ------------------------------------------------------------------------------------------------


async def test_without_a_model_a_summary_is_an_extract_and_says_so(memory) -> None:
    async def short(passage: SummaryRequest) -> Summary:
        return Summary(extract(passage.so_far, passage.units, 120), is_extract=True)

    memory.say("The flat in Lyon has a leaking roof. Nice weather.", "The landlord will not repair the roof.")
    memory.say("The leaking roof of the flat damaged the bed.", source="user")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(short)))
    root = memory["visit"]
    assert root.is_extract
    assert root.content.startswith(MARK)
    assert "roof" in root.content
    assert len(root.content) <= 120


async def test_an_extract_goes_on_from_the_one_before(memory) -> None:
    memory.say("My sister Ana lives in Oslo.", source="user")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(extractive_summary)))
    memory.say("My sister Ana moved from Oslo to Rome.", source="user")
    await memory.follow(summarise_group(memory.units, "visit", memory.options(extractive_summary)))
    assert memory["visit"].content.splitlines() == [
        MARK,
        "user: My sister Ana lives in Oslo.",
        "user: My sister Ana moved from Oslo to Rome.",
    ]


@pytest.mark.parametrize("content", ["😀😀", "", "x" * 5_000, "没有句号" * 100])
def test_an_extract_has_its_bound_and_is_never_empty(memory, content) -> None:
    reported = extract("", tuple(memory.say(content)), 100)
    assert reported.startswith(MARK)
    assert len(reported) <= 100

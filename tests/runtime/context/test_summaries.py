"""Summaries and memos that strategies keep: what they tell of, when they are made, and what if they are not."""

import msgspec
import pytest

from runtime.context.resize import Handlers
from runtime.context.strategies import Resizing, Summary, SummaryBuffer
from runtime.context.summaries import MEMO_CHARS_MAX, SUMMARY_CHARS_MAX
from runtime.context.windows import tokens_in
from runtime.state.events import Message
from runtime.state.state import ContextMemory
from scripts.model.context_strategies import ContextSettings, Limit

NOTHING = ContextMemory()


def numbers(messages):
    return [message.number for message in messages]


def shown(strategy, messages, memory):
    view = strategy.view(messages, memory)
    return view.summary, numbers(view.messages)


async def followed(strategy, messages, memory, condenser, turns):
    for _ in range(turns):
        memory = await strategy.follow(messages, memory, condenser)
    return memory


async def test_nothing_is_summed_up_while_there_is_room(messages_of, condenser) -> None:
    memory = await Summary(4).follow(messages_of("uaua"), NOTHING, condenser)
    assert (memory, condenser.calls) == (NOTHING, 0)
    assert shown(Summary(4), messages_of("uaua"), memory) == ("", [1, 2, 3, 4])


async def test_what_is_older_is_summed_up_in_one_call(messages_of, condenser) -> None:
    messages = messages_of("uauau")
    memory = await Summary(2).follow(messages, NOTHING, condenser)
    assert condenser.calls == 1
    assert shown(Summary(2), messages, memory) == ("1 2 3", [4, 5])
    assert memory.summary_to == 3


async def test_the_next_summary_goes_on_from_the_one_before(messages_of, condenser) -> None:
    memory = await Summary(2).follow(messages_of("uauau"), NOTHING, condenser)
    memory = await Summary(2).follow(messages_of("uauauaua"), memory, condenser)
    assert [(wish.previous, numbers(wish.messages)) for wish in condenser.wishes] == [
        (None, [1, 2, 3]),
        ("1 2 3", [4, 5, 6]),
    ]
    assert shown(Summary(2), messages_of("uauauaua"), memory) == ("1 2 3 4 5 6", [7, 8])
    assert await Summary(2).follow(messages_of("uauauaua"), memory, condenser) == memory
    assert condenser.calls == 2


async def test_a_summary_survives_a_restart(messages_of, condenser) -> None:
    memory = await Summary(2).follow(messages_of("uauau"), NOTHING, condenser)
    again = msgspec.json.decode(msgspec.json.encode(memory), type=ContextMemory)
    assert again == memory
    await Summary(2).follow(messages_of("uauaua"), again, condenser)
    assert condenser.wishes[-1].previous == "1 2 3"


async def test_the_transcript_is_as_it_was(messages_of, condenser) -> None:
    messages = messages_of("ua" * 10)
    await Summary(2).follow(messages, NOTHING, condenser)
    assert messages == messages_of("ua" * 10)


async def test_newest_messages_are_shown_although_all_are_summarised(messages_of) -> None:
    memory = ContextMemory(summary="all", summary_to=20)
    assert shown(Summary(2), messages_of("ua" * 10), memory) == ("all", [20])


async def test_no_result_of_a_tool_is_parted_from_its_call(messages_of, condenser) -> None:
    messages = messages_of("uauatta")
    memory = await Summary(2).follow(messages, NOTHING, condenser)
    assert shown(Summary(2), messages, memory) == ("1 2 3", [4, 5, 6, 7])


async def test_first_system_message_stays_and_is_never_summarised(messages_of, condenser) -> None:
    messages = messages_of("suauau")
    memory = await Summary(2).follow(messages, NOTHING, condenser)
    assert condenser.summarized == [2, 3, 4]
    assert shown(Summary(2), messages, memory) == ("2 3 4", [1, 5, 6])


@pytest.mark.parametrize(
    ("roles", "summary", "expected"),
    [
        ("uaua", "", [1, 2, 3, 4]),
        ("uauau", "", [1, 2, 3, 4, 5]),
        ("uauaua", "1 2 3", [4, 5, 6]),
        ("u", "", [1]),
    ],
)
async def test_a_summary_buffer_sums_up_when_its_tokens_are_used_up(
    messages_of, condenser, roles, summary, expected
) -> None:
    messages = messages_of(roles, chars=24)  # of ten tokens each
    memory = await SummaryBuffer(50).follow(messages, NOTHING, condenser)
    assert shown(SummaryBuffer(50), messages, memory) == (summary, expected)
    assert condenser.calls == bool(summary)


async def test_a_summary_buffer_leaves_room_for_what_comes(messages_of, condenser) -> None:
    strategy, memory = SummaryBuffer(100), NOTHING
    for length in range(1, 101):
        messages = messages_of("ua" * 50, chars=24)[:length]
        memory = await strategy.follow(messages, memory, condenser)
        assert sum(map(tokens_in, strategy.view(messages, memory).messages)) <= 100
    assert condenser.calls <= 100 / 4
    assert condenser.summarized == list(range(1, memory.summary_to + 1))


async def test_one_message_is_never_summed_up(messages_of, condenser) -> None:
    memory = await SummaryBuffer(5).follow(messages_of("u", chars=500), NOTHING, condenser)
    assert (memory, condenser.calls) == (NOTHING, 0)
    messages = messages_of("ua", chars=500)
    memory = await SummaryBuffer(5).follow(messages, NOTHING, condenser)
    assert shown(SummaryBuffer(5), messages, memory) == ("1", [2])


async def test_long_ranges_are_summarized_piece_by_piece(messages_of, condenser) -> None:
    messages = messages_of("ua" * 20, chars=4_000)
    memory = await Summary(2).follow(messages, NOTHING, condenser)
    assert condenser.calls > 1
    assert all(sum(map(tokens_in, wish.messages)) <= 3_000 for wish in condenser.wishes)
    assert condenser.summarized == list(range(1, 39)) == list(range(1, memory.summary_to + 1))


# -- failures ---------------------------------------------------------------------------------------------------------


async def test_failed_summary_loses_nothing_and_is_tried_again_later(messages_of, condenser) -> None:
    condenser.fails = lambda call: call <= 3
    messages = messages_of("uauau")
    memory, tried = NOTHING, []
    for turn in range(12):
        before = condenser.calls
        memory = await Summary(2).follow(messages, memory, condenser)
        if condenser.calls > before:
            tried.append(turn)
            if condenser.calls <= 3:
                assert shown(Summary(2), messages, memory) == ("", [1, 2, 3, 4, 5])
    assert tried == [0, 1, 3, 7]
    assert shown(Summary(2), messages, memory) == ("1 2 3", [4, 5])
    assert (memory.failed, memory.retry_in) == (0, 0)


async def test_pieces_finished_before_a_failure_are_not_repeated(messages_of, condenser) -> None:
    condenser.fails = lambda call: call == 3
    messages = messages_of("ua" * 20, chars=4_000)
    memory = await Summary(2).follow(messages, NOTHING, condenser)
    assert 0 < memory.summary_to < 38
    assert shown(Summary(2), messages, memory)[1] == list(range(memory.summary_to + 1, 41))
    memory = await followed(Summary(2), messages, memory, condenser, 2)
    assert condenser.summarized == list(range(1, 39))


@pytest.mark.parametrize("given", ["", "  ", None, 3, {"summary": "all"}])
async def test_what_is_no_summary_is_a_failure(messages_of, given) -> None:
    async def condense(wish):
        return given

    memory = await Summary(2).follow(messages_of("uauau"), NOTHING, condense)
    assert (memory.summary, memory.summary_to, memory.failed) == ("", 0, 1)


async def test_a_summary_is_bounded(messages_of) -> None:
    async def condense(wish):
        return "x" * 100_000 if wish.purpose == "summarise" else {str(n): "y" * 1_000 for n in range(100)}

    memory = await Summary(2).follow(messages_of("uauau"), NOTHING, condense)
    assert len(memory.summary) <= SUMMARY_CHARS_MAX + 20
    memory = await memo_of(2).follow(messages_of("uauau"), NOTHING, condense)
    assert 0 < len(msgspec.json.encode(memory.memo)) <= MEMO_CHARS_MAX


# -- a memo -----------------------------------------------------------------------------------------------------------


def memo_of(messages, **others):
    return Resizing(ContextSettings(strategy="memo", limit=Limit(messages=messages), **others))


async def test_a_memo_is_shown_beside_the_window(messages_of, condenser) -> None:
    messages = messages_of("uauaua")
    memory = await memo_of(4).follow(messages, NOTHING, condenser)
    view = memo_of(4).view(messages, memory)
    assert (numbers(view.messages), view.memo) == ([3, 4, 5, 6], {"told": [1, 2, 3, 4, 5, 6]})
    assert (memory.after, memory.memo_to, memory.turns) == (2, 6, 3)


async def test_failed_memo_leaves_the_window_within_its_limits(messages_of, condenser) -> None:
    condenser.fails = lambda call: call <= 5
    memory = await followed(memo_of(4), messages_of("uauaua"), NOTHING, condenser, 3)
    assert (memory.after, memory.memo_to) == (0, 0)
    assert numbers(memo_of(4).view(messages_of("uauaua"), memory).messages) == [3, 4, 5, 6]
    memory = await followed(memo_of(4), messages_of("uauaua"), memory, condenser, 40)
    assert memory.memo["told"] == [1, 2, 3, 4, 5, 6]


async def test_lite_asks_no_model(messages_of, condenser) -> None:
    strategy = Resizing(ContextSettings(strategy="lite", limit=Limit(messages=4)))
    memory = await strategy.follow(messages_of("ua" * 10), NOTHING, condenser)
    assert (condenser.calls, memory.after) == (0, 16)
    assert memory.last_resize.type == "lite"


async def test_handlers_work_in_a_strategy_too(messages_of, condenser) -> None:
    def keep_two(full, current, memo, settings):
        return full, [{"role": "system", "content": "own"}, *current[-2:]], {"n": len(full)}

    handlers = Handlers(policy=lambda *_: "own", resize={"own": keep_two})
    strategy = Resizing(ContextSettings(strategy="memo"), handlers)
    memory = await strategy.follow(messages_of("uauaua"), NOTHING, condenser)
    assert (memory.after, memory.memo, memory.last_resize.type) == (4, {"n": 6}, "own")
    assert numbers(strategy.view(messages_of("uauaua"), memory).messages) == [5, 6]


async def test_a_thousand_turns_of_a_memo_take_few_calls(condenser) -> None:
    strategy = Resizing(ContextSettings(strategy="memo", limit=Limit(chars=4_000)))
    memory, messages = NOTHING, []
    for n in range(1, 2_001, 2):
        messages += [Message(n, "", "user", "x" * 90, ""), Message(n + 1, "", "assistant", "y" * 90, "")]
        at_hand = messages[-strategy.messages_max :]
        memory = await strategy.follow(at_hand, memory, condenser)
    assert condenser.calls <= 1_000 / 4
    assert condenser.summarized == list(range(1, memory.memo_to + 1))
    assert memory.turns == 1_000


async def test_too_long_message_is_summarised_once(messages_of, condenser) -> None:
    strategy = Resizing(ContextSettings(strategy="memo", limit=Limit(chars=100)))
    messages = messages_of("u", chars=5_000)
    first = await strategy.follow(messages, NOTHING, condenser)
    assert (first.last_resize.type, condenser.summarized) == ("deep", [1])
    assert await followed(strategy, messages, first, condenser, 20) == first
    assert numbers(strategy.view(messages, first).messages) == [1]
    messages += messages_of("a", first=2)
    after = await strategy.follow(messages, first, condenser)
    assert numbers(strategy.view(messages, after).messages) == [2]
    assert condenser.summarized == [1, 2]

"""A conversation by itself: when its window is made smaller and how, its memo, its settings, and how it is saved."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from runtime.context.conversation import Conversation
from runtime.context.ports import Condense
from runtime.context.resize import Decision
from runtime.context.serialization import LegacySetting
from runtime.state.ports import ModelFailed
from scripts.model.context_strategies import ContextSettings, Limit, SettingsInvalid


def conversation(*contents, settings=None, **others):
    """Return messages of the user and the assistant in turn, with these texts."""
    made = Conversation(settings=settings, **others)
    for place, content in enumerate(contents):
        made.append_message({"role": ("user", "assistant")[place % 2], "content": content})
    return made


def texts(messages):
    return [message.content for message in messages]


class Handler:
    """A handler for the memo that keeps what it saw."""

    def __init__(self, fails=0):
        self.saw = []
        self.fails = fails

    def __call__(self, memo, messages, attachments, settings):
        if self.fails:
            self.fails -= 1
            raise ModelFailed("the model is away")
        self.saw.append(texts(messages))
        return {"seen": [*memo.get("seen", []), *texts(messages)]}


# -- the policy -------------------------------------------------------------------------------------------------------


def limited(**limit):
    return {"session.limit": limit}


@pytest.mark.parametrize(
    ("settings", "contents", "decision"),
    [
        (limited(chars=10), ["x" * 20, "y"], Decision("deep", "max_messages_text_length")),
        (limited(messages=2), ["a", "b", "c"], Decision("lite", "max_keep_messages_count")),
        ({"session.resize.every_n_turns": 1}, ["a", "b"], Decision("lite", "every_n_turns")),
        ({"session.limit": {"chars": 0}, "session.resize.every_n_turns": 0}, ["a", "b"] * 20, None),
        (limited(chars=10, messages=2), ["x" * 20, "y", "z"], Decision("deep", "max_messages_text_length")),
        ({}, ["a", "b"], None),
        ({"session.resize.every_n_turns": 8}, ["a", "b"] * 7, None),
        ({}, ["a", "b"] * 8, Decision("lite", "every_n_turns")),
        ({}, ["x" * 12_000], Decision("deep", "max_messages_text_length")),
    ],
)
def test_characters_precede_messages_and_messages_turns(settings, contents, decision) -> None:
    assert conversation(*contents, settings=settings).judge_resize() == decision


@pytest.mark.parametrize(
    ("limit", "own", "reason"),
    [
        ({"chars": 10}, {"max_messages_text_length": 1_000_000}, "max_messages_text_length"),
        ({"messages": 2}, {"max_keep_messages_count": 1_00}, "max_keep_messages_count"),
    ],
)
def test_the_limit_goes_before_the_settings_of_old(limit, own, reason) -> None:
    settings = {"session": {"limit": limit, "resize": own}}
    assert conversation("abcdef", "b", "c", settings=settings).judge_resize().reason == reason


def test_settings_of_old_hold_where_the_limit_says_nothing() -> None:
    settings = {"session": {"limit": {"chars": 1_000}, "resize": {"max_keep_messages_count": 2}}}
    assert conversation("a", "b", "c", settings=settings).judge_resize().reason == "max_keep_messages_count"


@pytest.mark.parametrize("name", ["max_current_chars", "keep_last_messages"])
def test_names_of_long_ago_have_no_effect_and_say_so(name) -> None:
    with pytest.warns(LegacySetting, match=r"has no effect; set session\.limit"):
        made = conversation("abcdef", "b", "c", settings={f"session.resize.{name}": 1})
    assert made.settings == ContextSettings(strategy="lite")
    assert made.judge_resize() is None


@pytest.mark.parametrize(
    "settings",
    [{"session.limits": {}}, {"session.limit": {"chars": -1}}, {"limit": {"chars": 1}}, {"session.resize.evry": 3}],
)
def test_a_setting_that_is_none_is_an_error(settings) -> None:
    settings = {"session.limits": 3} if settings == {"session.limits": {}} else settings
    with pytest.raises(SettingsInvalid):
        Conversation(settings=settings)


def test_settings_of_none_are_the_defaults() -> None:
    assert Conversation(settings={"session": None}).settings == Conversation().settings
    for value in (3, "deep", [1]):
        with pytest.raises(SettingsInvalid, match=r"`session` contains settings by name, it is not"):
            Conversation(settings={"session": value})


@pytest.mark.parametrize("mode", ["", "deep", 3])
def test_a_mode_that_is_none_is_a_value_error(mode) -> None:
    with pytest.raises(ValueError, match="lite or memo"):
        conversation().configure(mode=mode)


# -- the window -------------------------------------------------------------------------------------------------------


def test_lite_keeps_the_last_messages() -> None:
    made = conversation("a", "b", "c", "d", settings=limited(messages=3))
    assert made.resize() == Decision("lite", "max_keep_messages_count")
    assert texts(made.current_chat_history) == ["b", "c", "d"]
    assert texts(made.full_chat_history) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("limit", "window"),
    [
        ({"messages": 4}, ["rules", "u5", "a5", "s5"]),
        ({"messages": 5}, ["rules", "u5", "a5", "s5"]),
        ({"messages": 6}, ["rules", "a4", "s4", "u5", "a5", "s5"]),
        ({"chars": 50}, ["rules", "u5", "a5", "s5"]),
    ],
)
def test_later_system_messages_leave_the_window_in_turn(limit, window) -> None:
    made = Conversation(settings=limited(**limit))
    made.append_message({"role": "system", "content": "rules"})
    for number in range(6):
        for role in ("user", "assistant", "system"):
            made.append_message({"role": role, "content": f"{role[0]}{number}"})
            made.resize()
    assert texts(made.current_chat_history) == window


def test_lite_then_goes_down_to_the_characters() -> None:
    made = conversation("a" * 40, "b" * 40, "c" * 40, settings=limited(messages=2, chars=60))
    made.resize("lite")
    assert texts(made.current_chat_history) == ["c" * 40]


def test_deep_goes_down_to_sixty_percent() -> None:
    made = conversation(*["x" * 10] * 10, settings=limited(chars=100))
    assert made.resize().type == "deep"
    assert sum(len(each.role) + len(each.content) for each in made.current_chat_history) <= 60
    assert len(made.current_chat_history) == 3


def test_message_longer_than_the_window_leaves_what_fits() -> None:
    made = conversation("x" * 200, settings=limited(chars=100))
    assert made.resize().type == "deep"
    assert texts(made.current_chat_history) == ["x" * 100]
    assert texts(made.full_chat_history) == ["x" * 200]


def test_a_message_longer_than_the_window_is_no_reason_for_ever() -> None:
    made = conversation("x" * 200, settings=limited(chars=100))
    decisions = [made.resize() for _ in range(10)]
    assert decisions == [Decision("deep", "max_messages_text_length"), *[None] * 9]
    made.append_message({"role": "assistant", "content": "well"})
    assert made.resize() is not None
    assert texts(made.current_chat_history) == ["well"]
    assert made.resize() is None


def test_the_parts_of_a_message_are_cut_with_its_text() -> None:
    made = Conversation(settings=limited(chars=100))
    made.append_message({"role": "user", "content": [{"type": "text", "text": "x" * 200}, PICTURE]})
    made.resize()
    (retained,) = made.current_chat_history
    assert retained.content == "x" * 100
    assert retained.metadata["parts"] == [{"type": "text", "text": "x" * 100}, PICTURE]
    assert made.full_chat_history[0].content == "x" * 200


def test_a_system_message_at_the_beginning_stays_first() -> None:
    made = Conversation(settings=limited(messages=3))
    for role, content in [("system", "be kind"), ("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4")]:
        made.append_message({"role": role, "content": content})
    made.resize()
    assert texts(made.current_chat_history) == ["be kind", "3", "4"]


def test_no_result_of_a_tool_is_left_without_its_call() -> None:
    made = Conversation(settings=limited(messages=2))
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    for message in [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
        {"role": "assistant", "content": "It is sunny."},
    ]:
        made.append_message(message)
    made.resize("lite")
    assert texts(made.current_chat_history) == ["It is sunny."]
    retained = made.full_chat_history[1:3]
    assert (retained[0].metadata, retained[1].metadata) == ({"tool_calls": [call]}, {"tool_call_id": "c1"})


def test_only_messages_of_the_assistants_are_turns() -> None:
    made = conversation("a", "b", "c", settings=limited(messages=2))
    made.append_message({"role": "system", "content": "be kind"})
    made.append_message({"role": "tool", "content": "3"})
    assert made.turns == 1
    made.resize()
    assert made.memo["last_resize"] == {"type": "lite", "turn": 1, "reason": "max_keep_messages_count"}
    assert made.last_resize_turn == 1


# -- the memo ---------------------------------------------------------------------------------------------------------


def remembering(handler, *contents, **settings):
    made = conversation(*contents, settings={"session.mode": "memo", **settings})
    made.set_memo_handler(handler)
    return made


def test_the_memo_is_made_with_all_that_came_since() -> None:
    handler = Handler()
    made = remembering(handler, "a", "b")
    made.resize("lite")
    assert handler.saw == [["a", "b"]]
    assert made.memo["seen"] == ["a", "b"]
    made.append_message({"role": "user", "content": "c"})
    made.resize("lite")
    assert handler.saw == [["a", "b"], ["c"]]
    made.resize("lite")
    assert handler.saw == [["a", "b"], ["c"]]
    assert made.memo_cursor == 3


def test_deep_reads_the_whole_conversation_in_order_in_pieces() -> None:
    handler = Handler()
    contents = ["x" * 5, "y" * 15, "z" * 100, "u" * 5, "v" * 5]
    made = remembering(handler, *contents, **{"session.limit": {"chars": 40}})
    made.resize("deep")
    assert [each for piece in handler.saw for each in piece] == contents
    assert all(len(piece) == 1 or sum(map(len, piece)) <= 40 for piece in handler.saw)
    assert len(handler.saw) > 1


def test_deep_goes_on_from_where_the_memo_is() -> None:
    handler = Handler()
    made = remembering(handler, "a", "b")
    made.resize("lite")
    made.append_message({"role": "user", "content": "c"})
    made.resize("deep")
    assert handler.saw == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("settings", "calls"),
    [
        ({"session.mode": "memo", "session.memo.enabled": False}, 0),
        ({"session.mode": "lite", "session.memo.enabled": True}, 1),
        ({"session.mode": "memo"}, 1),
        ({"session.mode": "lite"}, 0),
    ],
)
def test_what_is_said_of_the_memo_goes_before_the_mode(settings, calls) -> None:
    handler = Handler()
    made = conversation("a", settings=settings)
    made.set_memo_handler(handler)
    made.resize("lite")
    assert len(handler.saw) == calls


def test_a_thousand_messages_take_few_resizes_and_calls() -> None:
    """As shipped, the older system took 840 deep resizes and 3,781 calls of the model for these."""
    handler = Handler()
    made = Conversation(settings={"session.mode": "memo", "session.limit": {"chars": 2_000}})
    made.set_memo_handler(lambda *given: {"n": len(handler(*given))})
    resizes = []
    for place in range(1_000):
        made.append_message({"role": ("user", "assistant")[place % 2], "content": f"{place} ".ljust(100, "x")})
        resizes.append(made.resize())
    assert sum(each is not None and each.type == "deep" for each in resizes) <= 1_000 * 110 / 800 + 1
    assert len(handler.saw) <= 250
    reported = [each for piece in handler.saw for each in piece]
    assert reported == texts(made.full_chat_history)[: len(reported)]
    assert len(reported) == made.memo_cursor
    window = made.current_chat_history
    assert window == made.full_chat_history[-len(window) :]
    assert sum(len(each.content) + len(each.role) for each in window) < 2_000


def test_a_short_window_does_not_call_a_model_for_each_message() -> None:
    handler = Handler()
    made = remembering(handler, **{"session.limit": {"messages": 10}, "session.resize.every_n_turns": 0})
    for place in range(200):
        made.append_message({"role": ("user", "assistant")[place % 2], "content": str(place)})
        made.resize()
        assert {each.number for each in made.full_chat_history} <= {
            *range(made.memo_cursor + 1),
            *(each.number for each in made.current_chat_history),
        }
    assert len(handler.saw) <= 200 / 10


async def test_message_that_comes_during_a_memo_is_in_no_memo_yet() -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()
    saw = []

    async def slow(memo, messages, attachments, settings):
        saw.append(texts(messages))
        reached.set()
        await go_on.wait()
        return {"n": len(saw)}

    made = remembering(slow, "a", "b")
    resize = asyncio.create_task(made.async_resize("lite"))
    await asyncio.wait_for(reached.wait(), 10)
    made.append_message({"role": "user", "content": "c"})
    made.append_message({"role": "assistant", "content": "d"})
    assert await made.async_resize("lite") is None  # one is under way
    go_on.set()
    await asyncio.wait_for(resize, 10)
    assert (made.memo_cursor, made.turns) == (2, 2)
    assert texts(made.current_chat_history) == texts(made.full_chat_history) == ["a", "b", "c", "d"]
    await made.async_resize("lite")
    assert saw == [["a", "b"], ["c", "d"]]


async def test_a_restart_during_a_memo_starts_the_memo_again() -> None:
    reached = asyncio.Event()

    async def for_ever(memo, messages, attachments, settings):
        reached.set()
        await asyncio.Event().wait()

    made = remembering(for_ever, "a", "b")
    resize = asyncio.create_task(made.async_resize("lite"))
    await asyncio.wait_for(reached.wait(), 10)
    retained = made.to_json()
    resize.cancel()
    again, handler = Conversation(), Handler()
    again.load_json(retained)
    again.set_memo_handler(handler)
    assert (await again.async_resize("lite")).type == "lite"
    assert handler.saw == [["a", "b"]]
    with pytest.raises(asyncio.CancelledError):
        await resize
    made.set_memo_handler(handler)
    assert (await made.async_resize("lite")).type == "lite"  # nor does the one that was given up stand in the way


async def for_ever(*given):
    await asyncio.Event().wait()


async def test_slow_memo_is_postponed_and_finished_parts_are_retained() -> None:
    first = Handler()
    answers = iter([first, for_ever])
    settings = {"session.mode": "memo", "session.limit": {"chars": 40}}
    made = conversation("x" * 30, "y" * 30, settings=settings, resize_s=0.05)

    async def slower_and_slower(*given):
        answer = next(answers)(*given)
        return await answer if asyncio.iscoroutine(answer) else answer

    made.set_memo_handler(slower_and_slower)
    assert await made.async_resize() is None
    assert (made.memo, made.memo_cursor) == ({"seen": ["x" * 30]}, 1)
    assert len(made.current_chat_history) == 2
    made.set_memo_handler(first)
    assert (await made.async_resize()).type == "deep"
    assert first.saw == [["x" * 30], ["y" * 30]]


async def test_too_slow_handler_is_given_up_and_nothing_changes() -> None:
    made = conversation("a", resize_s=0.01)
    made.set_policy_handler(for_ever)
    before = made.to_json()
    with pytest.raises(TimeoutError):
        await made.async_resize()
    assert made.to_json() == before


def test_messages_of_many_threads_are_all_there() -> None:
    made = conversation()
    with ThreadPoolExecutor(8) as threads:
        [*threads.map(lambda n: made.append_message({"role": "user", "content": str(n)}), range(200))]
    assert [each.number for each in made.full_chat_history] == list(range(1, 201))
    assert {*texts(made.full_chat_history)} == {str(n) for n in range(200)}


async def test_what_is_loaded_while_the_memo_is_made_stays() -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slow(memo, messages, attachments, settings):
        reached.set()
        await go_on.wait()
        return {"n": 1}

    made = remembering(slow, "a", "b")
    resize = asyncio.create_task(made.async_resize("lite"))
    await asyncio.wait_for(reached.wait(), 10)
    made.load_json(conversation("other").to_json())
    go_on.set()
    assert await asyncio.wait_for(resize, 10) is None
    assert texts(made.full_chat_history) == ["other"]
    assert made.memo == {}


def test_failed_memo_loses_nothing_and_is_tried_again_later() -> None:
    handler = Handler(fails=3)
    made = remembering(handler, "a", "b", "c", **{"session.limit": {"messages": 2}})
    outcomes = [made.resize() for _ in range(6)]  # fails at once, in the next call, and after one and three more
    assert outcomes == [None] * 6
    assert texts(made.current_chat_history) == ["a", "b", "c"]
    assert (made.memo, made.memo_cursor) == ({}, 0)
    for _ in range(4):
        made.resize()
    assert handler.saw == [["a", "b", "c"]]
    assert texts(made.current_chat_history) == ["b", "c"]


def test_a_memo_that_fails_stands_in_the_way_of_no_other_resize() -> None:
    made = remembering(Handler(fails=9), "a", "b")
    made.set_resize_handlers("archive", lambda full, current, memo, settings: (full, [], memo))
    assert made.resize("lite") is None
    assert made.resize("archive") == Decision("archive", "force")
    assert (made.current_chat_history, made.memo_cursor) == ((), 0)


def test_memories_recalled_before_a_failure_are_recorded_once() -> None:
    handler = Handler()
    made = remembering(handler, *["x" * 30, "y" * 30, "z" * 30], **{"session.limit": {"chars": 40}})
    fine = handler.__call__
    calls = iter([fine, Handler(fails=1), fine, fine])
    made.set_memo_handler(lambda *given: next(calls)(*given))
    assert made.resize() is None
    assert made.memo_cursor == 1
    assert made.resize().type == "deep"
    assert handler.saw == [["x" * 30], ["y" * 30], ["z" * 30]]


def test_without_a_model_the_memo_is_an_extract() -> None:
    made = conversation("I am Ana and I live in Paris.", "Nice.", settings={"session.mode": "memo"})
    made.resize("lite")
    assert made.memo["facts"] == ["I am Ana and I live in Paris."]
    assert made.memo["extract"] is True


async def test_a_condenser_is_given_the_memo_so_far_and_what_matters() -> None:
    wishes = []

    async def condense(wish: Condense):
        wishes.append(wish)
        return {"memo": {"n": len(wishes)}}

    settings = {"session.mode": "memo", "session.memo.instruct": ["names", "places"]}
    made = conversation("a", settings=settings, condense=condense)
    await made.async_resize("lite")
    made.append_message({"role": "assistant", "content": "b"})
    await made.async_resize("lite")
    assert [(each.previous, each.instruct, texts(each.messages)) for each in wishes] == [
        (None, "names\nplaces", ["a"]),
        ({"n": 1}, "names\nplaces", ["b"]),
    ]
    assert made.memo["n"] == 2


# -- handlers ---------------------------------------------------------------------------------------------------------


def first_only(full, current, memo, settings):
    return full, current[:1], {"mine": len(full)}


async def first_only_later(full, current, memo, settings):
    await asyncio.sleep(0)
    return first_only(full, current, memo, settings)


async def lite_later(full, current, memo, settings):
    await asyncio.sleep(0)
    return "lite"


@pytest.mark.parametrize("policy", [lambda *_: "lite", lambda *_: {"type": "lite"}, lite_later])
@pytest.mark.parametrize("resize", [first_only, first_only_later])
def test_handlers_may_be_async_or_not_and_their_result_is_used(policy, resize) -> None:
    made = conversation("a", "b")
    made.set_policy_handler(policy)
    made.set_resize_handlers("lite", resize)
    assert made.resize() == Decision("lite", "")
    assert texts(made.current_chat_history) == ["a"]
    assert made.memo == {"mine": 2, "last_resize": {"type": "lite", "turn": 1, "reason": ""}}


async def test_the_plain_methods_work_where_a_loop_runs() -> None:
    made = conversation("a", "b")
    made.set_resize_handlers("lite", first_only_later)
    assert made.resize("lite") == Decision("lite", "force")
    assert made.judge_resize() is None
    assert texts(made.current_chat_history) == ["a"]


@pytest.mark.parametrize("given", [42, [], {"kind": "lite"}, True])
def test_a_policy_that_gives_no_decision_is_a_type_error(given) -> None:
    made = conversation("a")
    made.set_policy_handler(lambda *_: given)
    with pytest.raises(TypeError):
        made.judge_resize()


@pytest.mark.parametrize("given", [None, ([], []), ("a", "b", {}), ([], [], "memo"), ([{"role": "x"}], [], {})])
def test_an_invalid_resize_is_a_type_error_and_changes_nothing(given) -> None:
    made = conversation("a", "b")
    made.set_resize_handlers("lite", lambda *_: given)
    before = made.to_json()
    with pytest.raises(TypeError):
        made.resize("lite")
    assert made.to_json() == before


def test_memo_that_is_no_record_is_a_type_error_without_changes() -> None:
    made = remembering(lambda *_: "all well", "a")
    before = made.to_json()
    with pytest.raises(TypeError):
        made.resize("lite")
    assert made.to_json() == before


@pytest.mark.parametrize("decision", ["", {"type": ""}, Decision("")])
def test_an_empty_type_is_a_value_error(decision) -> None:
    made = conversation("a")
    made.set_policy_handler(lambda *_: decision)
    with pytest.raises(ValueError, match="name of a type"):
        made.judge_resize()
    with pytest.raises(ValueError, match="name of a type"):
        made.set_resize_handlers("", lambda full, current, memo, settings: (full, current, memo))


def test_a_type_that_nothing_does_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="archive"):
        conversation("a").resize("archive")


def test_a_handler_for_one_type_leaves_the_others_as_they_are() -> None:
    made = conversation(*"abcdef", settings=limited(messages=2))
    made.set_resize_handlers("archive", first_only)
    made.resize()
    assert texts(made.current_chat_history) == ["e", "f"]
    made.set_resize_handlers("lite", lambda *_: ([], [], {}))
    made.set_resize_handlers("lite", None)
    made.resize("lite")
    assert texts(made.current_chat_history) == ["e", "f"]


def test_a_handler_goes_before_the_settings() -> None:
    made = conversation("x" * 100, settings=limited(chars=10))
    made.set_policy_handler(lambda *_: None)
    assert made.judge_resize() is None


def test_a_handler_may_give_records_and_messages_of_its_own() -> None:
    made = conversation("a", "b", "c")

    def sum_up(full, current, memo, settings):
        own = {"role": "system", "content": "they said a and b"}
        return [{"role": each.role, "content": each.content} for each in full], [own, current[-1]], {}

    made.set_resize_handlers("lite", sum_up)
    before = made.full_chat_history
    made.resize("lite")
    assert made.full_chat_history == before
    assert texts(made.current_chat_history) == ["they said a and b", "c"]
    assert made.append_message({"role": "assistant", "content": "d"}).number == 4


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def test_attachments_reach_the_memo_with_or_without_a_handler() -> None:
    saw = []
    made = Conversation(settings={"session.mode": "memo"})
    made.set_memo_handler(lambda memo, messages, attachments, settings: {"n": len(saw.append(attachments) or saw)})
    made.append_message({"role": "user", "content": [{"type": "text", "text": "look"}, PICTURE]})
    made.resize("lite")
    made.set_attachment_summary_handler(lambda message: [{"of": message.number}])
    made.append_message({"role": "user", "content": [PICTURE]})
    made.resize("lite")
    assert saw == [({"type": "image_url", "ref": "https://example.org/a.png", "meta": {}},), ({"of": 2},)]
    made.set_attachment_summary_handler(lambda message: "a picture")
    made.append_message({"role": "user", "content": [PICTURE]})
    with pytest.raises(TypeError):
        made.resize("lite")


# -- settings ---------------------------------------------------------------------------------------------------------


def test_a_conversation_is_configured_at_once() -> None:
    made = conversation()
    made.configure(mode="memo", limit={"chars": 123, "messages": 4}, every_n_turns=5)
    settings = made.settings
    assert (settings.strategy, settings.has_memo, settings.limit) == ("memo", True, Limit(chars=123, messages=4))
    assert (settings.chars_max, settings.messages_max, settings.resize.every_n_turns) == (123, 4, 5)
    made.use_lite()
    assert not made.settings.has_memo
    made.use_memo(limit={"messages": 9})
    assert made.settings.has_memo
    assert (made.settings.messages_max, made.settings.resize.every_n_turns) == (9, 5)


@pytest.mark.parametrize(
    "settings",
    [
        {"session.resize.every_n_turns": 10_000},
        {"session.resize.max_keep_messages_count": 1_000_000},
        {"session.limit": {"messages": 1_000_000, "chars": 1_000_000}},
    ],
)
def test_a_limit_that_is_never_reached_may_be_large(settings) -> None:
    assert conversation("a", "b", settings=settings).judge_resize() is None


# -- written down -----------------------------------------------------------------------------------------------------


def lived_through():
    made = remembering(Handler(), *"abcdefg", **{"session.limit": {"messages": 3}})
    made.append_message({"role": "user", "content": [{"type": "text", "text": "看这个"}, PICTURE]})
    made.resize()
    made.append_message({"role": "assistant", "content": "h"})
    return made


def all_of(made):
    names = "id full_chat_history current_chat_history memo turns last_resize_turn memo_cursor settings"
    return {name: getattr(made, name) for name in names.split()}


@pytest.mark.parametrize("path", [None, "", "payload.session"])
def test_what_was_written_down_is_read_back_equal(path) -> None:
    made = lived_through()
    other = conversation("something", "else")
    if path is None:
        other.load_json(made.to_json())
    else:
        other.load_yaml(made.to_yaml(path), path)
    assert all_of(other) == all_of(made)
    assert other.to_json() == made.to_json()
    assert made.memo_cursor == 8


@pytest.mark.parametrize("text", ["a\x85b", "\x85", "a\u2028b\r\n", " yes", "'\x85\n'", "# \ufeff"])
def test_yaml_keeps_unusual_line_breaks_and_marks(text) -> None:
    made, other = conversation(text), Conversation()
    other.load_yaml(made.to_yaml())
    assert texts(other.full_chat_history) == [text]


@pytest.mark.parametrize("add", [Conversation.append_message, lambda made, record: made.replace([record])])
def test_a_record_as_content_becomes_its_json(add) -> None:
    made = Conversation()
    add(made, {"role": "assistant", "content": {"mood": "low", "scores": [1, 2]}})
    assert texts(made.current_chat_history) == ['{"mood":"low","scores":[1,2]}']


def test_what_was_read_back_goes_on_as_if_it_had_never_stopped() -> None:
    made, handler = lived_through(), Handler()
    other = Conversation()
    other.load_json(made.to_json())
    other.set_memo_handler(handler)
    other.append_message({"role": "user", "content": "i"})
    other.resize("deep")
    assert handler.saw == [["h", "i"]]


def test_yaml_stands_under_its_path() -> None:
    tree = yaml.safe_load(lived_through().to_yaml("payload.session"))
    assert [*tree] == ["payload"]
    assert len(tree["payload"]["session"]["full_chat_history"]) == 9


def test_names_of_agently_documents_are_read() -> None:
    messages = [{"role": role, "content": role} for role in ("user", "assistant", "user", "assistant")]
    made = Conversation()
    made.load_json({"full_context": messages, "context_window": messages[2:], "_turns": 5, "_memo_cursor": 2})
    assert (made.turns, made.memo_cursor, len(made.full_chat_history)) == (5, 2, 4)
    assert [message.content for message in made.current_chat_history] == ["user", "assistant"]
    made.load_json({"full_chat_history": messages, "_turns": 5, "turns": 7, "_last_resize_turn": 3})
    assert made.turns == 7


AGENTLY = {
    "full_chat_history": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    "settings": {
        "plugins": {"ModelRequester": {"api_key": "sk-secret"}},
        "session": {"mode": "memo", "resize": {"every_n_turns": 3}, "record": {"mode": "first"}},
    },
}


def test_a_document_of_agently_may_have_no_memo() -> None:
    made = Conversation()
    made.load_json({**AGENTLY, "memo": None})
    assert made.memo == {}
    made.load_json({**AGENTLY, "memo": {"name": "Ana", "last_resize": {"reason": "manual"}}})
    assert made.memo == {"name": "Ana"}


def test_of_an_agents_settings_those_of_its_session_are_read() -> None:
    made = Conversation()
    made.load_json(AGENTLY)
    assert (made.settings.strategy, made.settings.resize.every_n_turns) == ("memo", 3)
    assert "sk-secret" not in made.to_json() + made.to_yaml()
    made.load_json({**AGENTLY, "settings": {"session": {"resize": {"every_n_turns": "often"}}}})
    assert made.settings == ContextSettings(strategy="lite")


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '"text"',
        "3",
        "null",
        "{}",
        '{"full_chat_history": "abc"}',
        '{"full_chat_history": 3}',
        '{"full_chat_history": {"a": 1}}',
        '{"full_chat_history": ["abc"]}',
        '{"full_chat_history": [{"role": "king", "content": "a"}]}',
        '{"full_chat_history": [{"role": "user", "content": 3}]}',
        '{"full_chat_history": [], "memo": []}',
        '{"full_chat_history": [], "memo": {"last_resize": 3}}',
        '{"full_chat_history": [], "turns": -1}',
        '{"full_chat_history": [], "memo_cursor": true}',
    ],
)
@pytest.mark.parametrize("load", ["load_json", "load_yaml"])
def test_invalid_conversation_is_a_type_error_without_changes(text, load) -> None:
    made = lived_through()
    before = made.to_json()
    with pytest.raises(TypeError):
        getattr(made, load)(text)
    assert made.to_json() == before


def test_a_list_that_was_read_already_is_no_conversation() -> None:
    with pytest.raises(TypeError, match="a record, not list"):
        Conversation().load_json([])


@pytest.mark.parametrize(
    ("load", "text"),
    [
        ("load_json", "{"),
        ("load_json", b"\xff"),
        ("load_yaml", "{"),
        ("load_yaml", "a: &a [1]\nb: *a"),
        ("load_json", '{"format": 99, "full_chat_history": []}'),
    ],
)
def test_what_cannot_be_read_is_a_value_error(load, text) -> None:
    with pytest.raises(ValueError, match=r"invalid|aliases|format 99"):
        getattr(Conversation(), load)(text)


def test_a_path_that_leads_nowhere_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="session"):
        Conversation().load_yaml(lived_through().to_yaml("payload.other"), "payload.session")


def test_messages_alone_are_a_conversation() -> None:
    made = lived_through()
    made.load_json({"full_chat_history": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})
    assert texts(made.current_chat_history) == ["a", "b"]
    assert (made.turns, made.memo_cursor, made.memo) == (1, 0, {})
    assert made.settings == ContextSettings(strategy="lite")


def test_nothing_of_a_model_or_its_keys_is_written_down() -> None:
    class Hosted:
        key = "sk-secret"

        async def __call__(self, wish):
            return {"a": self.key[:2]}

    made = conversation("a", settings={"session.mode": "memo"}, condense=Hosted())
    made.resize("lite")
    assert "sk-secret" not in made.to_json() + made.to_yaml()
    assert {*json.loads(made.to_json())} == {
        *("format", "id", "full_chat_history", "current_chat_history", "memo", "turns", "last_resize_turn"),
        *("memo_cursor", "resized_to", "opener", "failed", "retry_in", "settings"),
    }


def test_a_conversation_has_an_id_of_its_own() -> None:
    assert len({conversation().id for _ in range(3)}) == 3
    assert Conversation("mine").id == "mine"


@pytest.mark.parametrize("message", ["a", None, {"content": "a"}, {"role": "user", "content": 3}, {"role": "USER"}])
def test_what_is_no_message_is_a_type_error(message) -> None:
    with pytest.raises(TypeError):
        conversation().append_message(message)

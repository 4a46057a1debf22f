"""Which messages a strategy without accounts shows, and where a window may begin."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.context.strategies import Buffer, Resizing, TokenBuffer, Window
from runtime.context.windows import chars_in, recent, tokens_in
from runtime.state.events import Message
from runtime.state.state import ContextMemory
from scripts.model.context_strategies import ContextSettings, Limit

NOTHING = ContextMemory()


def numbers(messages):
    return [message.number for message in messages]


def shown(strategy, messages, memory=NOTHING):
    return numbers(strategy.view(messages, memory).messages)


def test_a_buffer_shows_everything(messages_of) -> None:
    assert shown(Buffer(), messages_of("uaua")) == [1, 2, 3, 4]
    assert shown(Buffer(), ()) == []


def test_a_buffer_begins_where_the_conversation_was_cleared(messages_of) -> None:
    assert shown(Buffer(), messages_of("uauaua"), ContextMemory(after=4)) == [5, 6]


@pytest.mark.parametrize(
    ("roles", "k", "expected"),
    [
        ("uauaua", 2, [3, 4, 5, 6]),
        ("uauaua", 3, [1, 2, 3, 4, 5, 6]),
        ("uauaua", 9, [1, 2, 3, 4, 5, 6]),
        ("uauaua", 1, [5, 6]),
        ("uauau", 1, [3, 4, 5]),  # the one that waits for its answer comes besides
        ("auauau", 1, [5, 6]),  # where the session opens, an exchange is its question and the answer
        ("auaua", 1, [3, 4, 5]),
        ("aauaau", 1, [4, 5, 6]),
        ("uataua", 1, [5, 6]),
        ("uauata", 1, [3, 4, 5, 6]),  # the calls of tools are part of it
        ("suaua", 1, [1, 4, 5]),
        ("u", 1, [1]),
        ("", 1, []),
    ],
)
def test_a_window_is_of_whole_exchanges(messages_of, roles, k, expected) -> None:
    assert shown(Window(k), messages_of(roles)) == expected


def test_first_speaker_is_retained_without_the_first_messages(messages_of) -> None:
    memory = asyncio.run(Window(2).follow(messages_of("uaua"), NOTHING, None))
    assert shown(Window(9), messages_of("auaua", first=20), memory) == [21, 22, 23, 24]
    memory = asyncio.run(Window(2).follow(messages_of("auau"), NOTHING, None))
    assert shown(Window(9), messages_of("auaua", first=20), memory) == [20, 21, 22, 23, 24]


@pytest.mark.parametrize("strategy", [Window(2), Buffer(), TokenBuffer(400)])
def test_without_first_messages_the_user_opens_each_exchange(messages_of, strategy) -> None:
    roles = "a" + "ua" * (strategy.messages_max // 2)
    messages = messages_of(roles, first=40)
    assert shown(strategy, messages)[0] % 2 == 1  # a message of the user
    memory = asyncio.run(strategy.follow(messages, NOTHING, None))
    assert memory.opener == "user"


def message(number, role, content):
    return Message(number, "", role, content, "")


def test_a_token_buffer_shows_what_fits() -> None:
    messages = [message(1, "user", "x" * 19), message(2, "user", "y" * 9), message(3, "user", "gg")]
    assert shown(TokenBuffer(5), messages) == [3]
    assert shown(TokenBuffer(500), messages) == [1, 2, 3]


def test_the_newest_message_is_shown_even_alone_over_the_budget() -> None:
    assert shown(TokenBuffer(5), [message(1, "user", "hi"), message(2, "assistant", "x" * 500)]) == [2]


def test_a_first_system_message_is_retained_and_counted() -> None:
    messages = [message(1, "system", "s" * 8), message(2, "user", "m" * 30), message(3, "assistant", "hi")]
    assert shown(TokenBuffer(12), messages) == [1, 3]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (Limit(messages=3), [5, 6]),  # not the answer alone
        (Limit(messages=4), [3, 4, 5, 6]),
        (Limit(messages=1), [6]),
        (Limit(chars=0), [1, 2, 3, 4, 5, 6]),
        (Limit(chars=40), [5, 6]),
    ],
)
def test_lite_shows_no_more_than_its_limits_without_upkeep(messages_of, limit, expected) -> None:
    strategy = Resizing(ContextSettings(strategy="lite", limit=limit))
    assert shown(strategy, messages_of("uauaua")) == expected


# -- the end of a conversation, as one goes on from it ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("roles", "most", "expected"),
    [
        ("ua" * 10, 6, [15, 16, 17, 18, 19, 20]),
        ("ua" * 10, 5, [17, 18, 19, 20]),
        ("ua" * 10, 500, list(range(1, 21))),
        ("uatatauata", 4, [7, 8, 9, 10]),
        ("uatatauata", 3, [7, 8, 9, 10]),  # one exchange that is longer is given whole
        ("uatatatatata", 5, list(range(1, 13))),
        ("uuatatata", 3, list(range(2, 10))),  # its question comes along, not what was said before it
        ("ua" + "u" * 60, 5, [58, 59, 60, 61, 62]),  # a run without answers is no reason for more
        ("ua" + "u" * 9 + "a", 4, [9, 10, 11, 12]),
        ("u" * 9 + "aua", 6, [7, 8, 9, 10, 11, 12]),
        ("au" + "a" * 9 + "u", 4, [9, 10, 11, 12]),
        ("sua" + "ua" * 9, 5, [1, 18, 19, 20, 21]),  # the first system message stays first, and counts
        ("ssuaua", 50, [1, 2, 3, 4, 5, 6]),
        ("s", 3, [1]),
        ("tta", 3, [3]),
        ("tt", 3, [1, 2]),
        ("", 3, []),
    ],
)
def test_a_history_begins_where_an_exchange_does(messages_of, roles, most, expected) -> None:
    messages = messages_of(roles)
    opener = "user" if "u" not in roles else None
    assert numbers(recent(messages, most, opener=opener)) == expected
    assert numbers(recent(messages, most, opener=opener)) == expected
    assert numbers(messages) == list(range(1, len(roles) + 1))


def test_a_history_keeps_within_its_tokens(messages_of) -> None:
    messages = messages_of("uauaua", chars=(50 - 4) * 4)
    assert {tokens_in(each) for each in messages} == {50}
    assert numbers(recent(messages, 50, tokens_max=120)) == [5, 6]
    assert numbers(recent(messages, 50, tokens_max=99)) == [5, 6]  # an answer alone is none: its question comes along
    assert numbers(recent(messages, 50, tokens_max=220)) == [3, 4, 5, 6]


# -- whatever is said -------------------------------------------------------------------------------------------------

TURNS = st.lists(st.sampled_from(["ua", "uata", "uattata", "uu", "uaa", "u", "au", "aau"]), max_size=12).map("".join)
STRATEGIES = st.one_of(
    st.just(Buffer()),
    st.integers(1, 6).map(Window),
    st.integers(1, 120).map(TokenBuffer),
    st.builds(
        lambda chars, messages: Resizing(
            ContextSettings(strategy="lite", limit=Limit(chars=chars, messages=messages)),
        ),
        st.integers(0, 300),
        st.integers(0, 12),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(roles=TURNS, head=st.sampled_from(["", "s", "ss"]), strategy=STRATEGIES, chars=st.integers(1, 90))
def test_window_is_the_newest_messages_and_begins_with_no_orphan(messages_of, roles, head, strategy, chars) -> None:
    messages = messages_of(head + roles, chars)
    retained = strategy.view(messages, NOTHING).messages
    assert retained[: len(head)] == messages[: len(head)]
    window = retained[len(head) :]
    assert window == messages[len(messages) - len(window) :]
    assert bool(window) == bool(roles)
    if not window:
        return
    before = messages[len(head) : len(messages) - len(window)]
    if window[0].role == "tool":  # only where nothing but results of a tool is there
        assert all(each.role == "tool" for each in before + window)
    opener = next(each.role for each in messages if each.role != "system")
    if window[0].role not in (opener, "tool") and before:  # half an exchange, where that does not fit as a whole
        assert not any(one.role != opener and other.role == opener for one, other in pairwise(window))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(roles=TURNS.filter(bool), tokens=st.integers(1, 150), chars=st.integers(1, 90))
def test_window_keeps_its_budget_except_for_required_messages(messages_of, roles, tokens, chars) -> None:
    messages = messages_of(roles, chars)
    for strategy, cost, most in [
        (TokenBuffer(tokens), tokens_in, tokens),
        (Resizing(ContextSettings(strategy="lite", limit=Limit(chars=tokens))), chars_in, tokens),
    ]:
        window = strategy.view(messages, NOTHING).messages  # type: ignore[attr-defined]
        group = 1 + next((n for n, each in enumerate(reversed(window)) if each.role != "tool"), 0)
        assert sum(map(cost, window)) <= most or len(window) <= group

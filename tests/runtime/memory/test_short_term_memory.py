"""What a session has in mind: the context queue and short-term memory."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.short_term import Capacity, ShortTermUnits, forgotten, newest, recalled, restore, said

NOTHING = ShortTermUnits()


def test_of_twelve_messages_the_context_has_the_last_four_in_order() -> None:
    working = said(NOTHING, range(1, 13), Capacity(context_length=4))
    assert newest(working, 10) == (9, 10, 11, 12)
    assert newest(working, 2) == (11, 12)
    assert newest(working, 0) == ()


def test_the_oldest_leaves_the_context_first_and_is_in_short_term_memory_then() -> None:
    room = Capacity(context_length=2, capacity=10)
    working = said(NOTHING, [1, 2], room)
    assert working == ShortTermUnits(context=(1, 2), short_term=())
    assert said(working, [3], room) == ShortTermUnits(context=(2, 3), short_term=(1,))
    assert said(working, [3, 4, 5], room) == ShortTermUnits(context=(4, 5), short_term=(1, 2, 3))


def test_what_was_used_least_recently_leaves_short_term_memory() -> None:
    room = Capacity(context_length=0, capacity=3)
    working = said(NOTHING, "abc", room)
    working = recalled(working, ["a"], room)
    assert said(working, "d", room).short_term == ("c", "a", "d")


def test_what_was_recalled_is_in_short_term_memory() -> None:
    room = Capacity(context_length=2, capacity=3)
    working = said(NOTHING, [8, 9], room)
    assert recalled(working, [4, 5], room).short_term == (4, 5)
    assert recalled(recalled(working, [4, 5], room), [4], room).short_term == (5, 4)
    assert recalled(working, [1, 2, 3, 4], room).short_term == (2, 3, 4)


def test_what_is_in_the_context_is_in_mind_already() -> None:
    room = Capacity(context_length=2, capacity=3)
    assert recalled(said(NOTHING, [8, 9], room), [9], room).short_term == ()


def test_short_term_memory_that_is_off_stays_off() -> None:
    room = Capacity(context_length=1)
    working = recalled(said(NOTHING, [1, 2], room), [3], room)
    assert working == ShortTermUnits(context=(2,), short_term=None)
    assert forgotten(working, {2}) == ShortTermUnits()


def test_a_session_can_be_restored_to_short_term_memory() -> None:
    room = Capacity(context_length=2, capacity=3)
    working = recalled(said(NOTHING, [8, 9], room), [4], room)
    assert restore(working, range(1, 8), room) == ShortTermUnits(context=(8, 9), short_term=(5, 6, 7))


def test_a_session_of_which_there_is_nothing_leaves_short_term_memory_empty() -> None:
    assert restore(NOTHING, [], Capacity(capacity=3)) == ShortTermUnits(short_term=())


def test_what_is_forgotten_is_not_in_mind() -> None:
    assert forgotten(ShortTermUnits(context=(3, 4), short_term=(1, 2)), {1, 4}) == ShortTermUnits(
        context=(3,), short_term=(2,)
    )


def test_it_is_small_as_json() -> None:
    working = ShortTermUnits(context=(3, 4), short_term=(1, 2))
    encoded = msgspec.json.encode(working)
    assert encoded == b'{"context":[3,4],"short_term":[1,2]}'
    assert msgspec.json.decode(encoded, type=ShortTermUnits) == working
    assert msgspec.json.encode(NOTHING) == b"{}"


STEPS = st.lists(st.tuples(st.sampled_from(["said", "recalled", "restored", "forgotten"]), st.integers(1, 9)))


@given(STEPS, st.integers(0, 4), st.integers(0, 4))
def test_whatever_happens_both_keep_their_bounds_and_share_no_unit(steps, context_length, capacity) -> None:
    room = Capacity(context_length, capacity)
    working, at = ShortTermUnits(short_term=()), 0
    for kind, unit in steps:
        before, at = working, at + 1
        if kind == "said":
            working = said(working, [100 + at], room)
            assert working.context[-1:] == ((100 + at,) if context_length else ())
            left = set(before.context) - set(working.context)
            assert capacity == 0 or left <= set(working.short_term)
        elif kind == "forgotten":
            working = forgotten(working, {unit, 100 + unit})
        else:
            working = {"recalled": recalled, "restored": restore}[kind](working, [unit], room)
        assert len(working.context) <= context_length
        assert len(working.short_term) <= capacity
        both = [*working.context, *working.short_term]
        assert len(both) == len(set(both))

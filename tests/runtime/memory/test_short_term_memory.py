"""What a session has in mind: the context queue and short-term memory."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.short_term import Capacity, ShortTermMemory, ShortTermUnits


def empty(**capacity) -> ShortTermMemory:
    return ShortTermMemory(room=Capacity(**capacity))


def test_context_has_the_last_four_of_twelve_messages_in_order() -> None:
    memory = empty(context_length=4).with_messages(range(1, 13))
    assert memory.newest(10) == (9, 10, 11, 12)
    assert memory.newest(2) == (11, 12)
    assert memory.newest(0) == ()


def test_oldest_message_moves_from_context_to_short_term_memory() -> None:
    memory = empty(context_length=2, capacity=10).with_messages([1, 2])
    assert memory.working == ShortTermUnits(context=(1, 2), short_term=())
    assert memory.with_messages([3]).working == ShortTermUnits(context=(2, 3), short_term=(1,))
    assert memory.with_messages([3, 4, 5]).working == ShortTermUnits(context=(4, 5), short_term=(1, 2, 3))


def test_what_was_used_least_recently_leaves_short_term_memory() -> None:
    memory = empty(context_length=0, capacity=3).with_messages("abc").with_recalled(["a"])
    assert memory.with_messages("d").working.short_term == ("c", "a", "d")


def test_what_was_recalled_is_in_short_term_memory() -> None:
    memory = empty(context_length=2, capacity=3).with_messages([8, 9])
    assert memory.with_recalled([4, 5]).working.short_term == (4, 5)
    assert memory.with_recalled([4, 5]).with_recalled([4]).working.short_term == (5, 4)
    assert memory.with_recalled([1, 2, 3, 4]).working.short_term == (2, 3, 4)


def test_what_is_in_the_context_is_in_mind_already() -> None:
    assert empty(context_length=2, capacity=3).with_messages([8, 9]).with_recalled([9]).working.short_term == ()


def test_short_term_memory_that_is_off_stays_off() -> None:
    memory = empty(context_length=1).with_messages([1, 2]).with_recalled([3])
    assert memory.working == ShortTermUnits(context=(2,), short_term=None)
    assert memory.forgotten({2}).working == ShortTermUnits()


def test_a_smaller_short_term_memory_has_the_latest_units() -> None:
    memory = empty(context_length=1, capacity=3).with_messages([1, 2, 3, 4])
    assert memory.with_capacity(Capacity(1, 2)).working == ShortTermUnits(context=(4,), short_term=(2, 3))
    assert memory.with_capacity(Capacity(1, None)).working == ShortTermUnits(context=(4,))


def test_a_session_can_be_restored_to_short_term_memory() -> None:
    memory = empty(context_length=2, capacity=3).with_messages([8, 9]).with_recalled([4])
    assert memory.with_restored(range(1, 8)).working == ShortTermUnits(context=(8, 9), short_term=(5, 6, 7))


def test_session_without_messages_leaves_short_term_memory_empty() -> None:
    assert empty(capacity=3).with_restored([]).working == ShortTermUnits(short_term=())


def test_what_is_forgotten_is_not_in_mind() -> None:
    memory = ShortTermMemory(ShortTermUnits(context=(3, 4), short_term=(1, 2)))
    assert memory.forgotten({1, 4}).working == ShortTermUnits(context=(3,), short_term=(2,))


def test_it_is_small_as_json() -> None:
    working = ShortTermUnits(context=(3, 4), short_term=(1, 2))
    encoded = msgspec.json.encode(working)
    assert encoded == b'{"context":[3,4],"short_term":[1,2]}'
    assert msgspec.json.decode(encoded, type=ShortTermUnits) == working
    assert msgspec.json.encode(ShortTermUnits()) == b"{}"


STEPS = st.lists(st.tuples(st.sampled_from(["said", "recalled", "restored", "forgotten"]), st.integers(1, 9)))


@given(STEPS, st.integers(0, 4), st.integers(0, 4))
def test_context_and_short_term_memory_share_no_unit(steps, context_length, capacity) -> None:
    memory, at = ShortTermMemory(ShortTermUnits(short_term=()), Capacity(context_length, capacity)), 0
    for kind, unit in steps:
        before, at = memory.working, at + 1
        if kind == "said":
            memory = memory.with_messages([100 + at])
            assert memory.working.context[-1:] == ((100 + at,) if context_length else ())
            left = set(before.context) - set(memory.working.context)
            assert capacity == 0 or left <= set(memory.working.short_term)
        elif kind == "forgotten":
            memory = memory.forgotten({unit, 100 + unit})
        else:
            memory = memory.with_recalled([unit]) if kind == "recalled" else memory.with_restored([unit])
        working = memory.working
        assert len(working.context) <= context_length
        assert len(working.short_term) <= capacity
        both = [*working.context, *working.short_term]
        assert len(both) == len(set(both))

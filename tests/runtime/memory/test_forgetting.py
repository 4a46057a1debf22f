"""What is forgotten when there is too much."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.forgetting import ForgetOptions, forgettable
from runtime.memory.units import MemoryUnit

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def unit(sequence, parent=0, visited=0, visits=0, at=0, retained=False, live=False):
    return (sequence, parent, visited, visits, at, retained, live)


def gone(units, share, policy="oldest", similarity=None):
    """Return what is forgotten of units given as (sequence, parent, last_visit, visit_count, time, pinned, live)."""
    stored = [
        MemoryUnit(
            unit_id=str(sequence),
            sequence=sequence,
            content="",
            creation_time=BEGIN + timedelta(seconds=at),
            end_time=BEGIN + timedelta(seconds=at),
            group_id="g",
            parent_id=str(parent) if parent else None,
            last_visit=visited,
            visit_count=visits,
            never_delete=retained,
        )
        for sequence, parent, visited, visits, at, retained, _ in units
    ]
    live = {each[0] for each in units if each[6]}
    return forgettable(stored, ForgetOptions(share, policy), live, similarity)


def test_ten_percent_of_a_hundred_are_the_ten_least_important() -> None:
    units = [unit(n, visited=n % 7, visits=n % 3, at=-n) for n in range(1, 101)]
    least = sorted(units, key=lambda each: (each[2], each[3], each[4]))[:10]
    assert gone(units, 0.1) == [each[0] for each in least]


@pytest.mark.parametrize(("leaves", "share", "count"), [(100, 0.29, 29), (90, 0.7, 63), (10, 0.29, 2), (3, 0.1, 1)])
def test_a_share_is_exact_and_rounded_down(leaves, share, count) -> None:
    assert gone([unit(n, at=n) for n in range(1, leaves + 1)], share) == list(range(1, count + 1))


def test_last_visit_counts_before_visits_and_visits_before_age() -> None:
    units = [unit(1, visited=2), unit(2, visited=1, visits=1, at=1), unit(3, visited=1, at=9), unit(4, visited=1, at=8)]
    assert gone(units, 1) == [4, 3, 2, 1]


def test_pinned_units_and_the_live_context_are_never_forgotten() -> None:
    assert gone([unit(1, retained=True), unit(2, live=True), unit(3)], 1) == [3]
    assert gone([unit(1, retained=True), unit(2, live=True)], 1) == []
    assert gone([], 0.5) == []


def test_at_least_one_is_forgotten() -> None:
    assert gone([unit(n) for n in range(1, 6)], 0.1) == [1]


def test_a_unit_becomes_a_leaf_when_its_children_are_gone() -> None:
    units = [unit(1, parent=3, visited=1), unit(2, parent=3, visited=2), unit(3)]
    assert gone(units, 0.5) == [1]
    assert gone(units[1:], 0.5) == [2]
    assert gone(units[2:], 0.5) == [3]


def test_by_relevance_what_is_visited_often_and_of_late_stays() -> None:
    units = [unit(1, visited=9, visits=5), unit(2, visited=9, visits=1), unit(3, visited=9_000)]
    assert gone(units, 0.34, "relevance") == [3]
    assert gone(units, 0.34) == [2]


def test_by_relevance_what_is_near_to_recent_questions_stays() -> None:
    units = [unit(n, visited=1) for n in (1, 2, 3)]
    assert gone(units, 0.34, "relevance", similarity=[0.9, 0.8, 0.1]) == [3]


def test_units_are_forgotten_by_their_tree_and_the_live_context(memory) -> None:
    said = memory.say("a", "b", "c", last_visit=0)
    memory.say("d", parent_id=said[0].unit_id, last_visit=0)
    assert forgettable(memory.units, ForgetOptions(share=1), in_context={said[2].sequence}) == [2, 4]


@pytest.mark.parametrize("share", [0, -0.5, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(share) -> None:
    with pytest.raises(ValueError, match="not a valid share of units"):
        ForgetOptions(share)


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a forgetting policy"):
        ForgetOptions(0.1, "bogus")


UNITS = st.lists(
    st.tuples(
        st.integers(0, 30), st.integers(0, 5), st.integers(0, 3), st.integers(0, 5), st.booleans(), st.booleans()
    ),
    max_size=30,
)


@given(UNITS, st.floats(0.01, 1))
def test_whatever_there_is_exactly_the_lowest_go(drawn, share) -> None:
    units = [(n, *each) for n, each in enumerate(drawn, 1)]
    parents = {each[1] for each in units}
    leaves = [each for each in units if each[0] not in parents and not each[5] and not each[6]]
    expected = sorted(leaves, key=lambda each: (each[2], each[3], each[4], each[0]))
    expected = expected[: max(1, int(len(leaves) * Fraction(str(share))))] if leaves else []
    assert gone(units, share) == [each[0] for each in expected]

"""What is given back of what was found, with what stands beside it."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.chains import Around, Hit, chains_of

ORDER = {"visit": list(range(1, 11)), "call": list(range(11, 21))}
GROUPS = {sequence: group for group, sequences in ORDER.items() for sequence in sequences}


def given_back(hits, k=10, around=1, **more):
    around = more.pop("budget", None) or Around(units=around)
    found = [Hit(sequence, score) for sequence, score in hits.items()]
    return [chain.sequences for chain in chains_of(found, GROUPS, ORDER, k=k, around=around, **more)]


def test_hit_in_the_middle_has_both_its_neighbours() -> None:
    assert given_back({5: 0.9}) == [(4, 5, 6)]


def test_first_and_last_message_have_one_neighbour() -> None:
    assert given_back({1: 0.9}) == [(1, 2)]
    assert given_back({10: 0.9}) == [(9, 10)]


def test_hits_three_and_five_are_one_chain_from_two_to_six() -> None:
    assert given_back({3: 0.5, 5: 0.9}) == [(2, 3, 4, 5, 6)]


def test_chains_that_touch_are_one() -> None:
    assert given_back({3: 0.5, 6: 0.9}) == [(2, 3, 4, 5, 6, 7)]
    assert given_back({3: 0.5, 7: 0.9}) == [(6, 7, 8), (2, 3, 4)]


def test_a_hit_between_two_chains_makes_them_one() -> None:
    assert given_back({2: 0.9, 8: 0.8, 5: 0.7}) == [(1, 2, 3, 4, 5, 6, 7, 8, 9)]


def test_chains_never_cross_sessions() -> None:
    assert given_back({10: 0.9, 11: 0.8}) == [(9, 10), (11, 12)]


def test_without_neighbours_each_hit_is_a_chain_of_its_own() -> None:
    assert given_back({3: 0.5, 4: 0.9, 5: 0.7}, around=0) == [(4,), (5,), (3,)]


def test_k_is_the_number_of_chains() -> None:
    hits = {2: 0.9, 15: 0.8, 3: 0.7, 8: 0.6, 9: 0.5}
    assert given_back(hits, k=2) == [(1, 2, 3, 4), (14, 15, 16)]
    assert given_back(hits, k=1) == [(1, 2, 3)]
    assert given_back(hits, k=2, around=0) == [(2,), (15,)]


def test_a_chain_is_as_good_as_its_best_hit() -> None:
    chains = chains_of([Hit(3, 0.5), Hit(5, 0.9), Hit(15, 0.7)], GROUPS, ORDER, k=5, around=Around())
    assert [(chain.score, chain.group_id) for chain in chains] == [(0.9, "visit"), (0.7, "call")]
    assert chains[0].hits == (Hit(5, 0.9), Hit(3, 0.5))


def test_a_summary_stands_alone() -> None:
    found = [Hit(30, 0.9), Hit(2, 0.8)]
    chains = chains_of(found, {**GROUPS, 30: "visit"}, ORDER, k=5, around=Around())
    assert [chain.sequences for chain in chains] == [(30,), (1, 2, 3)]


def test_what_is_in_the_live_context_is_never_given() -> None:
    assert given_back({8: 0.9, 9: 0.8}, excluded={9, 10}) == [(7, 8)]


def test_neighbours_of_a_removed_unit_are_neighbours() -> None:
    chains = chains_of([Hit(4, 0.9)], GROUPS, {"visit": [1, 2, 4, 6]}, k=1, around=Around())
    assert [chain.sequences for chain in chains] == [(2, 4, 6)]


def test_neighbours_have_a_budget_and_the_best_chain_is_first() -> None:
    hits = {5: 0.9, 15: 0.8}
    assert given_back(hits, budget=Around(context_units_max=3)) == [(4, 5, 6), (14, 15)]
    assert given_back(hits, budget=Around(context_units_max=0)) == [(5,), (15,)]
    chars = dict.fromkeys(GROUPS, 10) | {4: 500}
    assert given_back(hits, budget=Around(context_chars_max=25), chars_of=chars.get) == [(5, 6), (14, 15)]


HITS = st.dictionaries(st.integers(1, 20), st.floats(0, 1), max_size=20)


@given(HITS, st.integers(1, 8), st.integers(0, 3), st.sets(st.integers(1, 20)), st.integers(0, 20))
def test_no_unit_is_returned_twice_and_the_best_come_first(hits, k, around, excluded, budget) -> None:
    found = [Hit(sequence, score) for sequence, score in hits.items()]
    chains = chains_of(
        found, GROUPS, ORDER, k=k, around=Around(units=around, context_units_max=budget), excluded=excluded
    )
    units = [sequence for chain in chains for sequence in chain.sequences]
    taken = [hit.sequence for chain in chains for hit in chain.hits]
    scores = [chain.score for chain in chains]
    assert len(chains) <= k
    assert len(units) == len(set(units))
    assert not excluded & set(units)
    assert scores == sorted(scores, reverse=True)
    assert all(list(chain.sequences) == sorted(chain.sequences) for chain in chains)
    assert all({GROUPS[sequence] for sequence in chain.sequences} == {chain.group_id} for chain in chains)
    assert len(units) - len(taken) <= budget
    left = sorted((score for sequence, score in hits.items() if sequence not in {*excluded, *taken}), reverse=True)
    assert not left or (len(chains) == k and left[0] <= min(hits[sequence] for sequence in taken))

"""Of labels with the same vector one represents all, whichever are added and removed."""

import numpy as np

from store.vectors.duplicates import DuplicateVectors
from tests.support.vector_rows import OpenIndex, VectorRows

SUM = 77
ALL = np.arange(1, 7)


def duplicates_of(same: str) -> DuplicateVectors:
    """Return six labels whose vectors have one checksum; labels with the same letter have the same vector."""
    return DuplicateVectors(lambda label, other: same[label - 1] == same[other - 1])


def test_the_first_stands_for_all_and_the_next_after_it() -> None:
    duplicates = duplicates_of("aaaaaa")
    assert [duplicates.add(label, SUM) for label in range(1, 7)] == [True] + 5 * [False]
    assert duplicates.representatives(ALL).tolist() == [1]
    assert duplicates.with_others(np.array([1]), 3).tolist() == [1, 4, 5, 6]
    assert duplicates.remove(3, SUM) is None
    assert duplicates.remove(1, SUM) == 2
    assert duplicates.representatives(np.array([2, 4, 5, 6])).tolist() == [2]
    assert duplicates.with_others(np.array([2]), 9).tolist() == [2, 4, 5, 6]
    assert [duplicates.remove(label, SUM) for label in (2, 4, 5, 6)] == [4, 5, 6, None]
    assert duplicates.add(7, SUM)


def test_what_only_has_the_same_checksum_stands_for_itself() -> None:
    duplicates = duplicates_of("abaab?")
    assert [duplicates.add(label, SUM) for label in range(1, 6)] == [True, True, False, False, True]
    assert duplicates.remove(2, SUM) is None
    assert duplicates.with_others(np.array([1, 5]), 9).tolist() == [1, 5, 3, 4]
    assert duplicates.remove(1, SUM) == 3
    assert duplicates.representatives(np.array([3, 4, 5])).tolist() == [3, 5]


def test_others_are_found_when_their_representative_is_gone(rows: VectorRows, open_index: OpenIndex) -> None:
    rows.add(300)
    same = rows.add(40, np.repeat(rows.random(1), 40, axis=0)).tolist()
    vector = rows.vectors[same[0]]
    index = open_index(rows)
    for gone in range(30):
        index.remove(rows.remove(np.array(same[gone : gone + 1])))
        if gone % 3 == 0:
            while index.catch_up():
                pass
        if gone % 7 == 0:
            index.save()
            index = open_index(rows, caught_up=False)
            assert index.reason is None
        assert index.search(vector, 5)[0].tolist() == same[:-6:-1]
    rows.assert_exact(index)


def test_what_was_all_removed_can_be_said_again(rows: VectorRows, open_index: OpenIndex) -> None:
    rows.add(300)
    index = open_index(rows)
    vector = rows.random(1)
    for _ in range(3):
        labels = rows.add(5, np.repeat(vector, 5, axis=0))
        index.add(labels, rows.of(labels))
        while index.catch_up():
            pass
        assert index.search(vector[0], 5)[0].tolist() == labels[::-1].tolist()
        index.remove(rows.remove(labels))
    rows.assert_exact(index)


def test_all_of_them_can_be_asked_for_through_a_filter(rows: VectorRows, open_index: OpenIndex) -> None:
    labels = rows.add(1_000)
    same = rows.add(200, np.repeat(rows.random(1), 200, axis=0))
    index = open_index(rows)
    allowed = np.concatenate([labels, same[:3]])
    assert index.search(rows.vectors[int(same[0])], 3, allowed)[0].tolist() == same[2::-1].tolist()

"""Finding the nearest vectors: exact while they are few, through a graph that is checked where they are many."""

import threading
from typing import Any

import numpy as np
import pytest

from store.interface.errors import VectorRefused
from store.vectors.index import VectorIndex
from store.vectors.matrix import unit_rows
from tests.support.vector_rows import OpenIndex, VectorRows

FEW, MANY = 60, 1_500


@pytest.mark.parametrize("count", [FEW, MANY])
def test_finds_the_nearest_first(rows: VectorRows, open_index: OpenIndex, count: int) -> None:
    rows.add(count)
    index = open_index(rows)
    vector = rows.vectors[7]
    labels, cosines = index.search(vector, 5)
    assert labels[0] == 7
    assert cosines[0] == pytest.approx(1, abs=1e-5)
    assert labels.tolist() == rows.nearest(vector, 5)[0].tolist()
    assert rows.recall(index) >= 0.98


def test_there_may_be_nothing_to_find(rows: VectorRows, open_index: OpenIndex) -> None:
    index = open_index(rows)
    labels, cosines = index.search(np.ones(16, np.float32), 5)
    assert (len(labels), len(cosines), index.count, index.is_behind) == (0, 0, 0, False)
    index.remove(np.array([1, 2]))
    index.save()


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("k", [-1, 0])
def test_none_are_found_where_none_are_asked_for(rows: VectorRows, open_index: OpenIndex, count: int, k: int) -> None:
    rows.add(count)
    assert len(open_index(rows).search(np.ones(16, np.float32), k)[0]) == 0


@pytest.mark.parametrize("count", [FEW, MANY])
def test_more_than_there_are_gives_all(rows: VectorRows, open_index: OpenIndex, count: int) -> None:
    rows.add(count)
    index = open_index(rows)
    labels, _ = index.search(np.ones(16, np.float32), 10 * count)
    assert sorted(labels.tolist()) == sorted(rows.vectors)
    index.remove(rows.remove(np.arange(1, 11)))
    assert len(index.search(np.ones(16, np.float32), count)[0]) == count - 10


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("share", [2, 3, 20])
def test_a_filter_is_respected_and_filled(rows: VectorRows, open_index: OpenIndex, count: int, share: int) -> None:
    labels = rows.add(count)
    index = open_index(rows)
    allowed = labels[labels % share != 0] if share == 3 else labels[labels % share == 0]
    assert rows.recall(index, allowed=allowed) >= 0.98
    assert len(index.search(rows.vectors[1], count, allowed)[0]) == len(allowed)


def test_a_filter_may_name_what_is_not_there_or_twice(rows: VectorRows, open_index: OpenIndex) -> None:
    rows.add(FEW)
    index = open_index(rows)
    index.remove(rows.remove(np.array([3])))
    assert index.search(rows.vectors[1], 9, np.array([9, 3, 9, 5, 700, -4]))[0].tolist() in ([5, 9], [9, 5])
    assert len(index.search(rows.vectors[1], 9, np.array([700]))[0]) == 0
    assert len(index.search(rows.vectors[1], 9, np.array([], np.int64))[0]) == 0


def test_of_equals_the_newest_is_first(rows: VectorRows, open_index: OpenIndex) -> None:
    rows.add(5, np.repeat(rows.random(1), 5, axis=0))
    assert open_index(rows).search(rows.vectors[1], 3)[0].tolist() == [5, 4, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(16, np.float32),
        np.full(16, np.nan, np.float32),
        np.full(16, np.inf, np.float32),
        np.ones(15, np.float32),
    ],
)
def test_what_is_no_vector_is_refused(rows: VectorRows, open_index: OpenIndex, wrong: Any) -> None:
    rows.add(FEW)
    index = open_index(rows)
    with pytest.raises(VectorRefused):
        index.search(wrong, 3)
    with pytest.raises(VectorRefused):
        index.add(np.array([99]), wrong[None])
    with pytest.raises(VectorRefused):
        unit_rows([wrong], 16)
    rows.vectors[99] = wrong
    with pytest.raises((VectorRefused, ValueError)):
        open_index(rows)


def test_a_row_has_length_1(rows: VectorRows, open_index: OpenIndex) -> None:
    index = open_index(rows)
    with pytest.raises(VectorRefused, match="length 1"):
        index.add(np.array([1]), np.full((1, 16), 3, np.float32))
    index.add(np.array([1]), unit_rows(np.full((1, 16), 3), 16))
    with pytest.raises(VectorRefused, match="2 vectors"):
        index.add(np.array([2, 3]), rows.random(3))


def test_what_is_added_is_found_before_the_graph_has_it(rows: VectorRows, open_index: OpenIndex) -> None:
    rows.add(MANY)
    index = open_index(rows)
    labels = rows.add(200)
    index.add(labels[::-1], rows.of(labels[::-1]))
    assert index.is_behind
    rows.assert_exact(index)
    while index.catch_up(rows_max=64):
        pass
    assert not index.is_behind
    assert rows.recall(index) >= 0.98
    assert [index.search(rows.vectors[label], 1)[0][0] for label in labels.tolist()] == labels.tolist()


def test_grows_far_beyond_what_it_was_made_for(rows: VectorRows, open_index: OpenIndex) -> None:
    rows.add(100)
    index = open_index(rows)
    while index.count < 4_000:
        labels = rows.add(500)
        index.add(labels, rows.of(labels))
        while index.catch_up():
            pass
    assert rows.recall(index) >= 0.98


def test_late_labels_take_their_place(rows: VectorRows, open_index: OpenIndex) -> None:
    labels = rows.add(MANY)
    late = labels[labels % 5 == 0]
    index = open_index(rows)
    index.remove(late)
    other = open_index(rows, caught_up=False)
    assert other.labels().tolist() == labels.tolist()

    early = labels[labels % 5 != 0]
    by_and_by = VectorIndex.open(index._folder, "words@1", 16, early, rows.of(early), graph_from=100)
    by_and_by.add(late, rows.of(late))
    rows.assert_exact(by_and_by)


def test_adding_again_changes_nothing_and_another_is_refused(rows: VectorRows, open_index: OpenIndex) -> None:
    labels = rows.add(FEW)
    index = open_index(rows)
    index.add(labels[:10], rows.of(labels[:10]))
    assert index.count == FEW
    with pytest.raises(VectorRefused, match="another vector"):
        index.add(labels[:1], rows.of(labels[1:2]))
    with pytest.raises(VectorRefused, match="twice"):
        index.add(np.array([99, 99]), rows.random(2))
    rows.assert_exact(index)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_what_is_removed_is_never_found_again(rows: VectorRows, open_index: OpenIndex, count: int) -> None:
    labels = rows.add(count)
    index = open_index(rows)
    gone = {label: rows.vectors[label] for label in labels[::4].tolist()}
    index.remove(rows.remove(labels[::4]))
    index.remove(labels[::4])
    for _ in range(2):
        for vector in gone.values():
            assert not gone.keys() & set(index.search(vector, 20)[0].tolist())
        assert rows.recall(index) >= 0.98
        while index.catch_up():
            pass
    with pytest.raises(VectorRefused, match="not reused"):
        index.add(labels[:1], gone[1][None])


@pytest.mark.gate
def test_graph_with_many_removed_labels_is_rebuilt_during_use(rows: VectorRows, open_index: OpenIndex) -> None:
    labels = rows.add(MANY)
    index = open_index(rows)
    index.remove(rows.remove(labels[labels % 3 == 0]))
    assert index.is_behind
    while index.catch_up(rows_max=100):
        assert rows.recall(index, questions=3) >= 0.9
        if index.count < MANY:
            some = rows.add(5)
            index.add(some, rows.of(some))
            index.remove(rows.remove(some[:2]))
            index.remove(rows.remove(rows.live()[:1]))
    assert rows.recall(index) >= 0.98
    assert sorted(rows.vectors) == index.labels().tolist()


def test_few_that_are_left_need_no_graph(rows: VectorRows, open_index: OpenIndex) -> None:
    labels = rows.add(MANY)
    index = open_index(rows)
    index.remove(rows.remove(labels[40:]))
    while index.catch_up():
        pass
    assert not index.is_behind
    rows.assert_exact(index)
    labels = rows.add(MANY)
    index.add(labels, rows.of(labels))
    while index.catch_up():
        pass
    assert rows.recall(index) >= 0.98


@pytest.mark.gate
@pytest.mark.parametrize("nearly", [0, 0.001, 0.05])
def test_many_that_say_the_same_hide_nothing(rows: VectorRows, open_index: OpenIndex, nearly: float) -> None:
    """In a graph of all of them the library finds half of what is nearest: links lead from same to same only."""
    rows.add(MANY)
    same = np.repeat(rows.random(3), 1_000, axis=0)
    rows.add(3_000, unit_rows(same + nearly * rows.random(3_000), 16))
    rows.add(200)
    index = open_index(rows)
    assert rows.recall(index, questions=200) >= 0.97


def test_threads_search_while_it_grows_shrinks_and_is_saved(rows: VectorRows, open_index: OpenIndex) -> None:
    labels = rows.add(1_000)
    index = open_index(rows)
    questions = rows.random(40)
    gone = labels[::2]
    new = rows.add(2_000)
    is_over, are_gone = threading.Event(), threading.Event()
    wrong: list[str] = []

    def ask() -> None:
        while not is_over.is_set():
            for vector in questions:
                was_gone = are_gone.is_set()
                found, cosines = index.search(vector, 10)
                if len(found) != 10 or np.any(np.diff(cosines) > 0) or (was_gone and np.isin(found, gone).any()):
                    wrong.append(f"{found} {cosines}")

    def work() -> None:
        while not is_over.is_set():
            index.catch_up(rows_max=64)
            index.save()

    threads = [threading.Thread(target=ask) for _ in range(3)] + [threading.Thread(target=work)]
    for thread in threads:
        thread.start()
    for start in range(0, 2_000, 50):
        index.add(new[start : start + 50], rows.of(new[start : start + 50]))
    for start in range(0, 500, 25):
        index.remove(gone[start : start + 25])
    are_gone.set()
    rows.remove(gone)
    while index.is_behind:
        index.catch_up()
    is_over.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert rows.recall(index) >= 0.98

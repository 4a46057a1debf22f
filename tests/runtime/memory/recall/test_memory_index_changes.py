"""However a bank came to be what it is, it answers as one that was built of the same units at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from runtime.memory.recall.memory_index import MemoryIndex
from runtime.memory.recall.query import IndexEntry, IndexHit, Question
from tests.support.effort import repeats

WORDS = ["dog", "parrot", "rain", "猫", "museum", "Ana", "2023", "yes?"]
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
        st.sampled_from(["", "Ana", "Ben"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


class Past(Struct, frozen=True):
    """Units in the order they came, and after how many of them which was removed."""

    entries: list[IndexEntry]
    removals: list[tuple[int, int]]


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    entries = [
        IndexEntry(sequence=at, group=group, content=content, source=source, has_attachment=attached)
        for at, (group, content, source, attached) in enumerate(draw(ENTRIES), start=1)
    ]
    number = st.integers(1, len(entries))
    return Past(entries, draw(st.lists(st.tuples(number, number), max_size=30)))


def vector_of(sequence: int) -> np.ndarray:
    vector = np.random.default_rng(sequence).standard_normal(8).astype(np.float32)
    return vector / np.linalg.norm(vector)


def with_vectors(bank: MemoryIndex, entries: list[IndexEntry]) -> None:
    bank.add(entries)
    for entry in entries:
        if entry.sequence % 3:
            bank.set_vectors(np.array([entry.sequence]), vector_of(entry.sequence)[None])


def answers(bank: MemoryIndex) -> list[list[IndexHit]]:
    texts = ["parrot museum", "where was Ana in the rain of 2023", "猫", "dog"]
    vectors = [vector_of(100 + at) for at in range(len(texts))]
    return [
        bank.search(Question(text=text, vector=vector if bank.vectors else None, k=40, strategy=strategy, explain=True))
        for text, vector in zip(texts, vectors, strict=True)
        for strategy in ("hybrid", "lexical")
    ]


@settings(max_examples=repeats(60), deadline=None)
@given(pasts())
def test_a_bank_with_a_past_answers_as_a_new_one(past: Past) -> None:
    lived = MemoryIndex("wordllama")
    gone: set[int] = set()
    for entry in past.entries:
        with_vectors(lived, [entry])
        due = [removed for after, removed in past.removals if after == entry.sequence and removed <= after]
        lived.remove(due)
        gone.update(due)
    fresh = MemoryIndex("wordllama")
    with_vectors(fresh, [entry for entry in past.entries if entry.sequence not in gone])
    assert len(lived) == len(fresh)
    assert lived.labelled_vectors()[0].tolist() == fresh.labelled_vectors()[0].tolist()
    for by_lived, by_fresh in zip(answers(lived), answers(fresh), strict=True):
        assert [hit.sequence for hit in by_lived] == [hit.sequence for hit in by_fresh]
        for one, other in zip(by_lived, by_fresh, strict=True):
            np.testing.assert_allclose(list(one.signals.values()), list(other.signals.values()), rtol=1e-3, atol=1e-4)

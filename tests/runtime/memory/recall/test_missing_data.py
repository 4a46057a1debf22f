"""What is not there says nothing: no neighbour, no vector, no window, few vectors to compare with."""

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.memory.recall.memory_index import MemoryIndex, SearchHits
from runtime.memory.recall.query import IndexEntry, Question
from runtime.memory.recall.signals import MEANING, Usual, usual_of

OTHER = "openai:some-model"


def narrow(count: int, seed: int = 5) -> NDArray[np.float32]:
    """Return vectors whose cosines lie at 0.82 with a small deviation."""
    random = np.random.default_rng(seed).standard_normal((count, 64)).astype(np.float32)
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    constant = np.full((count, 1), np.sqrt(0.82), np.float32)
    return np.concatenate([random * np.float32(np.sqrt(0.18)), constant], axis=1)


def bank_of(vectors: NDArray[np.float32], *, session: int) -> MemoryIndex:
    """Return a bank of one unit for each vector, in sessions of so many."""
    bank = MemoryIndex(OTHER)
    bank.add(
        IndexEntry(sequence=at + 1, group=f"g{at // session}", content=f"nothing said {at}")
        for at in range(len(vectors))
    )
    bank.set_vectors(np.arange(1, len(vectors) + 1), vectors)
    return bank


def looked(bank: MemoryIndex, question: Question) -> SearchHits:
    found = bank.look(question)
    assert found is not None
    return found


def test_the_ends_of_sessions_rank_as_others_do() -> None:
    vectors = narrow(200)
    bank = bank_of(vectors, session=10)
    questions = narrow(60, seed=6)
    found = [hit.sequence for vector in questions for hit in bank.search(Question(vector=vector, k=10))]
    ends = sum(sequence % 10 in (0, 1) for sequence in found) / len(found)
    assert 0.1 < ends < 0.4  # a fifth of all units are such


def test_a_middle_unit_is_found_by_its_own_vector() -> None:
    vectors = narrow(200)
    bank = bank_of(vectors, session=10)
    for place in (0, 4, 9, 55, 199):
        found = bank.search(Question(vector=vectors[place], k=3))
        assert found[0].sequence == place + 1


def test_signals_of_missing_neighbours_are_missing() -> None:
    vectors = narrow(40)
    seen = looked(bank_of(vectors, session=4), Question(text="nothing", vector=vectors[7], k=40))
    signals = {name: dict(zip(seen.sequences.tolist(), seen.signals[name].tolist(), strict=True)) for name in MEANING}
    assert np.isnan(signals["meaning_before"][1])
    assert np.isnan(signals["meaning_before_that"][2])
    assert np.isnan(signals["meaning_after"][4])
    assert np.isnan(signals["summary_meaning"][8])
    assert signals["meaning"][8] > 5
    assert np.isfinite([signals["meaning_before"][2], signals["meaning_after"][3]]).all()
    follows = dict(zip(seen.sequences.tolist(), seen.signals["follows_question"].tolist(), strict=True))
    assert np.isnan(follows[1])
    assert follows[2] == 0


def test_a_neighbour_without_vector_is_missing() -> None:
    vectors = narrow(40)
    bank = MemoryIndex(OTHER)
    bank.add(IndexEntry(sequence=at, group="g", content=f"nothing said {at}") for at in range(1, 41))
    bank.set_vectors(np.arange(2, 41), vectors[1:])
    seen = looked(bank, Question(text="nothing", vector=vectors[3], k=40))
    at = seen.sequences.tolist().index(2)
    assert np.isnan(seen.signals["meaning_before"][at])
    own = seen.sequences.tolist().index(1)
    assert all(np.isnan(seen.signals[name][own]) for name in MEANING)


def test_the_window_of_a_lone_unit_is_no_better_than_itself() -> None:
    bank = MemoryIndex("")
    bank.add([IndexEntry(sequence=1, group="a", content="a parrot sings here")])
    bank.add(IndexEntry(sequence=at, group="b", content=f"other talk of day {at}") for at in range(2, 9))
    seen = looked(bank, Question(text="parrot", strategy="lexical"))
    first = {name: float(seen.signals[name][0]) for name in ("words", "words_pair", "words_window")}
    assert first["words_pair"] == pytest.approx(first["words"])
    assert first["words_window"] == pytest.approx(first["words"])


def test_scales_are_those_of_the_memory_itself() -> None:
    chance = np.random.default_rng(2)
    wide = chance.normal(0.2, 0.15, 500).astype(np.float32)
    thin = chance.normal(0.82, 0.014, 500).astype(np.float32)
    for similarities in (wide, thin):
        standard = usual_of(similarities, None).standardize(similarities)
        assert standard.mean() == pytest.approx(0, abs=0.01)
        assert standard.std() == pytest.approx(1, abs=0.01)


def test_few_vectors_are_judged_by_what_is_known_of_the_embedder() -> None:
    known = Usual(0.2, 0.1)
    one = usual_of(np.array([0.7], np.float32), known)
    assert one.standardize(np.array([0.7], np.float32))[0] > 2
    nothing = usual_of(np.array([0.7], np.float32), None)
    assert np.isnan(nothing.standardize(np.array([0.7], np.float32))).all()
    many = usual_of(np.full(10_000, 0.7, np.float32), known)
    assert many.mean == pytest.approx(0.7, abs=0.01)

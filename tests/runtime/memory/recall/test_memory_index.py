"""What a bank finds: by words and by meaning, within what is allowed, and nothing where nothing answers."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.memory.recall import candidates
from runtime.memory.recall.memory_index import MemoryIndex
from runtime.memory.recall.query import Decay, IndexEntry, IndexHit, Question
from runtime.memory.recall.ranking import shipped_weights

NOW = datetime(2025, 6, 1, tzinfo=UTC)


def entry(sequence: int, content: str, group: str = "monday", **more: object) -> IndexEntry:
    return IndexEntry(**{"sequence": sequence, "content": content, "group": group, **more})


def bank_of(*contents: str, group: str = "monday") -> MemoryIndex:
    bank = MemoryIndex("wordllama")
    bank.add(entry(at, content, group) for at, content in enumerate(contents, start=1))
    return bank


def towards(*numbers: float) -> NDArray[np.float32]:
    vector = np.array(numbers, np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def sequences(found: list[IndexHit]) -> list[int]:
    return [hit.sequence for hit in found]


def ask(bank: MemoryIndex, text: str = "", **more: object) -> list[int]:
    return sequences(bank.search(Question(**{"text": text, **more})))


def test_the_unit_that_shares_the_rare_words_comes_first() -> None:
    bank = bank_of("I walk the dog", "We adopted a parrot in May", "The dog sleeps a lot", "It rains")
    assert ask(bank, "When was the parrot adopted?")[0] == 2


def test_k_means_k() -> None:
    bank = bank_of(*(f"The dog has toy number {at}" for at in range(50)))
    assert len(ask(bank, "the toys of the dog", k=7)) == 7
    assert ask(bank, "the toys of the dog", k=0) == []


def test_nothing_is_found_where_nothing_shares_a_word() -> None:
    bank = bank_of("I walk the dog", "It rains")
    assert ask(bank, "volcano") == []
    assert ask(bank, "") == []
    assert ask(MemoryIndex("wordllama"), "volcano") == []


def test_k_units_are_found_however_far_they_are() -> None:
    bank = bank_of("I walk the dog", "It rains", "Snow fell")
    bank.set_vectors(np.array([1, 2]), np.stack([towards(1, 0, 0), towards(0, 1, 0)]))
    far = towards(0, 0, -1)
    assert sorted(ask(bank, "volcano", vector=far)) == [1, 2, 3]
    assert sorted(ask(bank, vector=far, k=2)) == [1, 2]
    assert ask(bank, "volcano", vector=far, min_score=0.9) == []


def test_as_many_as_asked_for_of_a_large_memory() -> None:
    chance = np.random.default_rng(3)
    vectors = chance.standard_normal((700, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    bank = bank_of(*(f"number {at}" for at in range(700)))
    bank.set_vectors(np.arange(1, 701), vectors)
    for strategy in ("hybrid", "dense"):
        assert len(ask(bank, "volcano", vector=-vectors[0], k=600, strategy=strategy)) == 600


def test_chinese_is_found_by_its_characters() -> None:
    bank = bank_of("我家的猫叫小白", "今天下雨了", "我们去了动物园")
    assert ask(bank, "猫叫什么名字？")[0] == 1


def test_an_answer_is_found_by_the_question_before_it() -> None:
    bank = bank_of("How is the parrot?", "He talks again", "Lovely weather today", "The end")
    assert ask(bank, "parrot")[:2] == [1, 2]
    assert 4 not in ask(bank, "parrot")


def test_neighbours_are_within_a_group() -> None:
    bank = MemoryIndex("wordllama")
    bank.add([entry(1, "How is the parrot?"), entry(2, "He talks again", "tuesday"), entry(3, "He sleeps")])
    assert ask(bank, "parrot") == [1, 3]


def test_neighbours_of_a_removed_unit_become_neighbours() -> None:
    bank = bank_of(
        "How is the parrot?", "Wait", "Hold on", "Look there", "He talks again", "The end", "x", "y", "z", "a", "b"
    )
    assert 5 not in ask(bank, "parrot")
    bank.remove([2, 3, 4])
    assert ask(bank, "parrot")[:2] == [1, 5]


def test_unit_after_a_removed_one_is_linked_to_the_one_before() -> None:
    bank = bank_of("How is the parrot?", "Wait")
    bank.remove([2])
    bank.add([entry(3, "He talks again")])
    assert ask(bank, "parrot") == [1, 3]


def test_a_removed_unit_is_found_no_more() -> None:
    bank = bank_of("I walk the dog", "It rains", "Snow")
    bank.remove([1, 99])
    assert ask(bank, "dog") == []
    assert (len(bank), 1 in bank, 2 in bank) == (2, False, True)


def test_only_allowed_units_are_found() -> None:
    bank = bank_of(*(f"The dog has toy number {at}" for at in range(20)))
    bank.set_vectors(np.arange(1, 21), np.stack([towards(1, at) for at in range(20)]))
    for allowed in ({3, 5, 99}, np.array([5, 3])):
        assert sorted(ask(bank, "dog toy", vector=towards(1, 0), allowed=allowed)) == [3, 5]
    assert ask(bank, "dog toy", vector=towards(1, 0), allowed=frozenset()) == []
    assert ask(bank, "dog toy", vector=towards(1, 0), allowed={3, 5}, excluded={3}) == [5]


def test_a_unit_without_a_vector_is_found_by_its_words() -> None:
    bank = bank_of("I walk the dog", "It rains", "The parrot speaks")
    bank.set_vectors(np.array([1, 2]), np.stack([towards(1, 0, 0), towards(0, 1, 0)]))
    assert 3 not in bank.labelled_vectors()[0]
    assert ask(bank, "parrot", vector=towards(1, 1, 3))[0] == 3


def test_meaning_finds_what_shares_no_word() -> None:
    bank = bank_of("I walk the dog", "It rains", "Snow", "Bread", "Tea", "Shoes")
    bank.set_vectors(np.arange(1, 7), np.eye(6, dtype=np.float32))
    question = Question(text="puppy", vector=towards(1, 0, 0, 0, 0, 0))
    assert sequences(bank.search(question))[0] == 1
    assert sequences(bank.search(Question(vector=question.vector)))[0] == 1
    assert ask(bank, "puppy", vector=question.vector, strategy="lexical") == []
    assert ask(bank, "rains", vector=question.vector, strategy="dense")[0] == 1


def test_nearness_is_to_the_nearest_question_and_at_least_zero() -> None:
    bank = bank_of("I walk the dog", "It rains", "Snow", "Bread")
    bank.set_vectors(np.array([1, 2, 3]), np.stack([towards(1, 0), towards(3, 4), towards(0, -1)]))
    questions = [towards(1, 0), towards(0, 1), towards(1, 0, 0)]
    near = bank.nearness(np.array([4, 3, 2, 1, 99]), questions)
    assert near == pytest.approx([0, 0, 0.8, 1, 0])
    assert not bank.nearness(np.array([1, 2]), []).any()
    assert not MemoryIndex().nearness(np.array([1]), questions).any()


def test_vectors_of_another_dimension_are_refused() -> None:
    bank = bank_of("I walk the dog", "It rains")
    bank.set_vectors(np.array([1]), np.eye(1, 4, dtype=np.float32))
    with pytest.raises(ValueError, match="have 4 numbers, not 3"):
        bank.set_vectors(np.array([2]), np.eye(1, 3, dtype=np.float32))
    with pytest.raises(ValueError, match="have 4 numbers, not 2"):
        ask(bank, "dog", vector=towards(1, 0))


def test_units_come_in_order() -> None:
    bank = bank_of("One", "Two")
    with pytest.raises(ValueError, match="unit 2 is not newer than unit 2"):
        bank.add([entry(2, "Two again")])


def test_units_by_the_person_asked_about_count_more_not_alone() -> None:
    bank = MemoryIndex("wordllama")
    bank.add(
        [
            entry(1, "I went to the museum", source="Ana", group="one"),
            entry(2, "I went to the museum", source="Ben", group="two"),
            entry(3, "I bought a parrot", source="Ben", group="three"),
        ]
    )
    assert ask(bank, "When did Ana go to the museum?")[0] == 1
    assert ask(bank, "When did Ben go to the museum?")[0] == 2
    assert ask(bank, "What parrot did Ana buy?")[0] == 3
    for ranker in (shipped_weights().lexical, *shipped_weights().hybrid.values()):
        assert 0 < ranker.signals["asked_source"].weight <= 0.25


def test_a_date_in_a_question_finds_what_was_said_then() -> None:
    bank = MemoryIndex("wordllama")
    days = [datetime(2023, 5, day, tzinfo=UTC) for day in (8, 9, 10)]
    bank.add(entry(at, "We met", group=f"g{at}", created_at=day) for at, day in enumerate(days, start=1))
    assert ask(bank, "whom did we meet on 9 May 2023")[0] == 2


def test_a_summary_is_a_unit_and_speaks_for_those_under_it() -> None:
    bank = MemoryIndex("wordllama")
    bank.add(entry(at, "Yes, at last", group) for at, group in enumerate(("one", "two", "three"), start=1))
    assert ask(bank, "at last: the adoption")[0] != 2
    bank.add([entry(4, "They spoke of the adoption", "two", rank=1), entry(5, "The weather", "one", rank=1)])
    bank.place_under(4, [2])
    bank.place_under(5, [1])
    assert ask(bank, "at last: the adoption", allowed={1, 2, 3})[0] == 2
    assert ask(bank, "at last: the adoption")[0] in (2, 4)
    assert ask(bank, "adoption") == [4]


def test_scores_are_within_0_and_1_and_fall() -> None:
    bank = bank_of(*(f"The dog {'dog ' * (at % 3)} has toy {at}" for at in range(30)))
    scores = [hit.score for hit in bank.search(Question(text="dog toy 7", k=30))]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)


def test_a_threshold_leaves_out_what_is_below_it() -> None:
    bank = bank_of("We adopted a parrot in May", "A dog", "In May it rains", "The parrot", "Nothing")
    every = bank.search(Question(text="parrot adopted in May"))
    bound = (every[0].score + every[1].score) / 2
    assert sequences(bank.search(Question(text="parrot adopted in May", min_score=bound))) == [every[0].sequence]


def test_a_hit_is_explained_by_its_signals() -> None:
    bank = bank_of("We adopted a parrot in May", "A dog")
    bank.set_vectors(np.array([1, 2]), np.eye(2, dtype=np.float32))
    explained = bank.search(Question(text="parrot", vector=towards(1, 0), explain=True))[0]
    ranker = shipped_weights().hybrid["wordllama"]
    assert explained.signals.keys() == ranker.signals.keys()
    assert explained.signals["words"] > 0
    total = ranker.slope * sum(explained.signals.values()) + ranker.intercept
    assert explained.score == pytest.approx(1 / (1 + np.exp(-total)), rel=1e-4)
    assert bank.search(Question(text="parrot"))[0].signals == {}


def test_time_takes_no_more_than_the_floor_leaves() -> None:
    bank = MemoryIndex("wordllama")
    old, new = NOW - timedelta(days=3_650), NOW - timedelta(days=1)
    same = "We adopted a parrot"  # by four people, so that they are not one result
    bank.add(
        [
            entry(1, same, group="a", source="Ana", created_at=old),
            entry(2, same, group="b", source="Ben", created_at=old, is_pinned=True),
            entry(3, same, group="c", source="Cem", created_at=new),
            entry(4, same, group="d", source="Dot"),
        ]
    )
    decay = Decay(half_life_s=86_400 * 30, floor=0.8)
    plain = {hit.sequence: hit.score for hit in bank.search(Question(text="parrot"))}
    faded = {hit.sequence: hit.score for hit in bank.search(Question(text="parrot", decay=decay, now=NOW))}
    assert faded[1] == pytest.approx(0.8 * plain[1])
    assert (faded[2], faded[4]) == (plain[2], plain[4])
    assert 0.8 * plain[3] < faded[3] < plain[3]


@pytest.mark.parametrize(("half_life_s", "floor"), [(0, 0.8), (10, 1.5), (10, -0.1)])
def test_a_decay_without_sense_is_refused(half_life_s: float, floor: float) -> None:
    with pytest.raises(ValueError, match="half_life_s above 0"):
        Decay(half_life_s, floor)


class _Index:
    """What an index of vectors would find: unit 7, and one that is no more."""

    def __init__(self) -> None:
        self.allowed: list[int] | None = []

    def search(
        self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        self.allowed = None if allowed is None else allowed.tolist()
        return np.array([999, 7, 4]), np.array([0.9, 0.8, 0.7], np.float32)


def test_hits_of_the_index_are_joined_if_there_are_many_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "EXACT_MAX", 5)
    monkeypatch.setattr(candidates, "EXACT_AMONG_MAX", 3)
    bank = bank_of(*(f"word {at}" for at in range(9)))
    bank.set_vectors(np.arange(1, 10), np.stack([towards(1, at) for at in range(9)]))
    index = _Index()
    found = bank.search(Question(vector=towards(0, 1), excluded={4}, k=3), index)
    assert {7} <= set(sequences(found)) <= {5, 6, 7, 8}
    assert index.allowed == [1, 2, 3, 5, 6, 7, 8, 9]
    bank.search(Question(vector=towards(0, 1)), index)
    assert index.allowed is None
    assert 1 in sequences(bank.search(Question(vector=towards(1, 0), allowed={1, 2}), index))


def test_common_words_find_nothing_where_rarer_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "COMMON_MIN", 3)
    bank = MemoryIndex("wordllama")
    bank.add(entry(at, f"dog {at}" if at != 4 else "dog parrot", group=f"g{at}") for at in range(1, 10))
    assert ask(bank, "dog parrot") == [4]
    assert len(ask(bank, "dog")) == 9
    assert len(ask(bank, "dog volcano")) == 9


def test_an_embedder_nobody_fitted_weights_for_is_served_too() -> None:
    chance = np.random.default_rng(7)
    vectors = chance.standard_normal((60, 16)).astype(np.float32) + 3  # all of them near each other
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    bank = MemoryIndex("openai:some-model")
    bank.add(entry(at, f"nothing {at}", group=f"g{at}") for at in range(1, 61))
    bank.set_vectors(np.arange(1, 61), vectors)
    assert ask(bank, "unrelated", vector=vectors[41])[0] == 42

"""Results are distinct, and what carries no content is not among them."""

import numpy as np
import pytest

from runtime.memory.recall.memory_index import MemoryIndex
from runtime.memory.recall.query import IndexEntry, IndexHit, Question
from runtime.memory.recall.terms import says_nothing


def bank_of(*contents: str, source: str = "Ana", vectors: bool = False) -> MemoryIndex:
    bank = MemoryIndex("wordllama")
    bank.add(
        IndexEntry(sequence=at, group="g", source=source, content=content)
        for at, content in enumerate(contents, start=1)
    )
    if vectors:
        rows = np.random.default_rng(1).standard_normal((len(contents), 8)).astype(np.float32)
        bank.set_vectors(np.arange(1, len(contents) + 1), rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return bank


def ask(bank: MemoryIndex, text: str, **more: object) -> list[IndexHit]:
    return bank.search(Question(**{"text": text, **more}))


def towards(place: int) -> np.ndarray:
    vector = np.zeros(8, np.float32)
    vector[place] = 1
    return vector


def test_units_in_the_same_words_are_one_result() -> None:
    bank = bank_of("I take the blue pill", "It rains", "I take the BLUE pill!", "We ate", "I take the blue pill.")
    found = ask(bank, "Which pill?", k=5)
    said = [hit for hit in found if hit.sequence in (1, 3, 5)]
    assert len(said) == 1
    assert sorted([said[0].sequence, *said[0].same]) == [1, 3, 5]
    assert all(hit.same == () for hit in found if hit is not said[0])
    (allowed,) = ask(bank, "Which pill?", allowed={1, 3})
    assert sorted([allowed.sequence, *allowed.same]) == [1, 3]
    bank.remove([1, 3])
    assert ask(bank, "Which pill?", allowed={5})[0].same == ()


@pytest.mark.parametrize(
    ("question", "contents"),
    [
        ("knows", ["He knows C", "He knows C++", "He knows C#"]),
        ("degrees", ["It was -5 degrees", "It was 5 degrees"]),
        ("dose", ["The dose is 1.5 mg", "The dose is 1/5 mg"]),
        ("paid", ["I paid 5%", "I paid $5", "I paid 5"]),
        ("pizza", ["👍 pizza", "👎 pizza"]),
    ],
)
def test_other_signs_are_another_result(question: str, contents: list[str]) -> None:
    assert {hit.sequence for hit in ask(bank_of(*contents), question, k=5)} == set(range(1, len(contents) + 1))


def test_the_same_words_of_another_source_are_another_result() -> None:
    bank = MemoryIndex("")
    bank.add(
        IndexEntry(sequence=at, group="g", source=who, content="I like tea") for at, who in ((1, "Ana"), (2, "Ben"))
    )
    assert len(ask(bank, "tea")) == 2


def test_a_linked_near_duplicate_is_one_result() -> None:
    bank = bank_of("I take the blue pill each night", "I take the blue pill every night", "The pill is small")
    assert len(ask(bank, "pill")) == 3
    bank.link_duplicate(2, 1)
    found = ask(bank, "pill")
    assert len(found) == 2
    assert {1, 2} in [{hit.sequence, *hit.same} for hit in found]
    late = MemoryIndex("")
    late.add(
        [
            IndexEntry(sequence=1, group="g", content="blue pill"),
            IndexEntry(sequence=2, group="g", content="pill, blue"),
        ]
    )
    late.add([IndexEntry(sequence=3, group="g", content="the bluest pill")])
    late.link_duplicate(3, 1)
    assert len(ask(late, "pill")) == 2


def test_many_copies_do_not_hide_the_rest() -> None:
    bank = bank_of(*["The pill is blue"] * 700, "Pill two", "Pill three", "Pill four", vectors=True)
    for question in ({"strategy": "lexical"}, {"vector": towards(2)}, {"vector": towards(2), "strategy": "dense"}):
        found = ask(bank, "pill", k=4, **question)
        assert len(found) == 4
        assert max(len(hit.same) for hit in found) == 699


@pytest.mark.parametrize(
    "text",
    ["ok", "OK!!", "Thanks.", "Thank you!", "yes, yes", "👍", "...", "嗯", "嗯嗯", "好的，谢谢", "知道了。"],
)
def test_fillers_are_known(text: str) -> None:
    assert says_nothing(text)


@pytest.mark.parametrize("text", ["Lisbon", "42", "ok, Friday", "Thanks to Ada", "北京", "好吃的面", "no sugar"])
def test_short_texts_with_content_are_no_fillers(text: str) -> None:
    assert not says_nothing(text)


def test_fillers_are_found_only_where_they_are_wanted() -> None:
    bank = bank_of("ok", "I adopted a parrot", "嗯", "ok", vectors=True)
    assert [hit.sequence for hit in ask(bank, "ok", vector=towards(1))] == [2]
    assert {hit.sequence for hit in ask(bank, "ok", with_fillers=True)} & {1, 4}


def test_a_short_unit_said_very_often_is_a_routine() -> None:
    often = [text for at in range(12) for text in (f"Something new number {at}", "dale pues")]
    bank = bank_of(*often, "Lisbon", vectors=True)
    found = {hit.sequence for hit in ask(bank, "dale", vector=towards(1), k=40)}
    assert found == {*range(1, 25, 2), 25}
    bank.remove([2, 4, 6])  # nine are left
    assert len(ask(bank, "dale", vector=towards(1), k=40)) == 14

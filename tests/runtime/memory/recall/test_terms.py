"""Texts are compared by stems, and by characters where no spaces are written."""

from datetime import UTC, datetime

import pytest

from runtime.memory.recall.query import IndexEntry
from runtime.memory.recall.terms import plain_words, terms_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("painted", "Painting"),
        ("Ana's dogs", "ana dog"),
        ("Ana’s dogs", "ana dog"),
        ("ＡＢＣ", "abc"),
        ("Straße", "strasse"),
        ("книги", "книга"),
    ],
)
def test_forms_of_a_word_are_one_term(one: str, other: str) -> None:
    assert terms_of(one) == terms_of(other)


def test_the_commonest_words_and_marks_are_left_out() -> None:
    assert terms_of("What is it, and who did it?!") == []


def test_numbers_are_words() -> None:
    assert terms_of("room 42") == ["room", "42"]


def test_chinese_is_read_by_one_and_two_characters() -> None:
    assert terms_of("我养猫") == ["我", "我养", "养", "养猫", "猫"]
    assert set(terms_of("我家的猫叫小白")) & set(terms_of("猫叫什么")) == {"猫", "猫叫", "叫"}


def test_scripts_beside_each_other_are_distinguished() -> None:
    assert terms_of("我用Python写") == ["我", "我用", "用", "python", "写"]


def test_plain_words_are_neither_stemmed_nor_left_out() -> None:
    assert plain_words("Do you like dogs?") == ["do", "you", "like", "dogs"]


def test_a_unit_is_embedded_with_when_and_by_whom_it_was_said() -> None:
    said = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert (
        IndexEntry(sequence=1, group="g", source="Ana", created_at=said, content="Hi").index_text
        == "[8 May 2023] Ana: Hi"
    )
    assert IndexEntry(sequence=1, group="g", content="Hi").index_text == "Hi"

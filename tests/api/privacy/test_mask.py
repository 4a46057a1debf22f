"""Values of personal variables in texts and in other values: every spelling is found again, and nothing else."""

from typing import Any

import pytest

from api.privacy.mask import SPELLINGS_MAX, Mask
from store.interface.masking import HIDDEN

NAMES = frozenset({"name", "age", "contact"})


@pytest.mark.parametrize(
    ("value", "text", "masked"),
    [
        ("Ana", "Hello Ana, ANA! Ana's here.", "Hello [name], [name]! [name]'s here."),
        ("Ana", "Banana, Anabel, diana", "Banana, Anabel, diana"),
        ("Ana", "anaana ana_1 Ana1", "anaana [name]_1 Ana1"),
        ("Ana María", "Ana\n  maría and Ana", "[name] and Ana"),
        ("Ana Mar\u00eda", "Ana MARI\u0301A, ana maria", "[name], ana maria"),
        ("Rene\u0301", "Ren\u00e9 and rene\u0301", "[name] and [name]"),
        ("李永", "你好李永先生", "你好[name]先生"),
        ("Strauß", "Herr Strauß, HERR STRAUẞ", "Herr [name], HERR [name]"),
        ("a.b+c@x.org", "write to A.B+C@x.org or aab+c@x.org", "write to [name] or aab+c@x.org"),
        (28, "28 years, 128, 2.8, 28.5", "[name] years, 128, 2.8, [name].5"),
        (28.0, "28 and 28.0", "[name] and [name]"),
        (["Eva", {"phone": "0170 12"}], "Eva: 0170  12", "[name]: [name]"),
        ("A", "A or B", "A or B"),
        (True, "True or true", "True or true"),
        (None, "None", "None"),
        ("  ", "a  b", "a  b"),
    ],
)
def test_a_value_is_found_in_a_text_however_it_stands_there(value: Any, text: str, masked: str) -> None:
    assert Mask(NAMES, [("name", value)]).text(text) == masked


def test_of_two_values_the_longer_is_found_first() -> None:
    mask = Mask(NAMES, [("name", "Ana"), ("contact", "Ana Lopez")])
    assert mask.text("Ana Lopez, Ana") == "[contact], [name]"


def test_derived_value_is_masked_where_it_contains_the_original() -> None:
    mask = Mask(NAMES, [("name", "Ana"), ("age", 28)])
    given = {"name": "anything", "age": None, "greeting": ["Hi Ana", 28, 29, 2.5, True, None, {"age": [1]}]}
    assert mask.fields(given) == {
        "name": "[name]",
        "age": None,
        "greeting": ["Hi [name]", "[age]", 29, 2.5, True, None, {"age": "[age]"}],
    }


def test_a_text_tells_a_value_when_all_of_it_is_spelt_there() -> None:
    mask = Mask(NAMES, ())
    assert mask.contains("I am ana, 28.", ["Ana", 28])
    for text, value in (("the first of May", "1999-05-01"), ("yes", True), ("Ana", ["Ana", "Eva"]), ("it is A", "A")):
        assert not mask.contains(text, value)


def test_everything_is_hidden_if_there_are_too_many_values() -> None:
    mask = Mask(NAMES, [("name", f"word {number}") for number in range(SPELLINGS_MAX + 1)])
    assert (mask.text("anything"), mask.text("")) == (HIDDEN, "")
    assert mask.fields({"name": "word", "other": [1, "two", True]}) == {
        "name": "[name]",
        "other": [HIDDEN, HIDDEN, True],
    }

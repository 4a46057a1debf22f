"""What says the same as something earlier, and what holds when."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from runtime.memory.duplicates import NEAR_WORDS, exact_duplicates, holds_at, near_duplicates, words_of

LONG = "my sister ana lives in oslo with her two dogs and a cat"


@pytest.mark.parametrize(
    ("one", "other"),
    [("I like  tea.", "i like TEA"), ("我喜欢喝茶。", "我喜欢喝茶"), ("ＡＢＣ 12", "abc 12"), ("Straße", "STRASSE")],
)
def test_units_differing_in_case_width_or_punctuation_are_equal(memory, one, other) -> None:
    first, second = memory.say(one, other, source="user")
    assert exact_duplicates(memory.units) == {second.unit_id: first.unit_id}


def test_what_another_says_is_no_duplicate(memory) -> None:
    memory.say("I like tea.", source="user")
    memory.say("I like tea.", source="assistant")
    assert exact_duplicates(memory.units) == {}
    memory.say(LONG, source="user")
    memory.say(LONG, source="assistant")
    assert near_duplicates(memory.units) == {}


def test_what_has_no_words_is_no_duplicate(memory) -> None:
    memory.say("…", "", "?!", "")
    assert exact_duplicates(memory.units) == {}


def test_every_duplicate_names_the_earliest(memory) -> None:
    first, second, third = memory.say(LONG, LONG + ".", LONG.upper())
    links = {second.unit_id: first.unit_id, third.unit_id: first.unit_id}
    assert exact_duplicates(memory.units) == links
    assert near_duplicates(memory.units) == links
    known = [first, replace(second, duplicate_of=first.unit_id), third]
    assert near_duplicates(known, begin=2) == {third.unit_id: first.unit_id}


def test_near_duplicates_have_nearly_the_same_words(memory) -> None:
    first, second, _ = memory.say(LONG, LONG + " now", LONG + " now and then there")
    assert near_duplicates(memory.units) == {second.unit_id: first.unit_id}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I am allergic to penicillin", "I am not allergic to penicillin"),
        ("我昨天吃了药，感觉好多了", "我昨天没吃药，感觉好多了"),
        ("it was 5 degrees", "it was -5 degrees"),
        ("he knows C", "he knows C++"),
    ],
)
def test_negations_and_signs_say_something_else(memory, one, other) -> None:
    memory.say(f"{LONG}, and {one}", f"{LONG}, and {other}")
    assert exact_duplicates(memory.units) == near_duplicates(memory.units) == {}


def test_what_is_superseded_held_until_then(memory) -> None:
    old, new = memory.say("Ana lives in Oslo.", "Ana lives in Rome.")
    moved = new.creation_time + timedelta(days=3)
    old, new = replace(old, valid_to=moved, superseded_by=new.unit_id), replace(new, valid_from=moved)
    for moment, held in [(moved - timedelta(seconds=1), [old]), (moved, [new]), (moved + timedelta(days=9), [new])]:
        assert [unit for unit in (old, new) if holds_at(unit, moment)] == held
    assert not holds_at(old, old.creation_time - timedelta(days=1))


WORDS = st.lists(st.lists(st.sampled_from("abcdefghijkl"), min_size=1, max_size=12).map(" ".join), max_size=12)


@given(WORDS)
def test_no_near_duplicate_is_missed_whatever_words_are_rare(new_memory, contents) -> None:
    memory = new_memory()
    memory.say(*contents)
    sets = [set(words_of(unit.content)) for unit in memory.units]
    expected = {
        unit.unit_id
        for place, unit in enumerate(memory.units)
        for earlier in sets[:place]
        if len(sets[place]) >= 5
        and len(earlier) >= 5
        and len(sets[place] & earlier) >= NEAR_WORDS * len(sets[place] | earlier)
    }
    assert set(near_duplicates(memory.units)) == expected

"""Accounts without a language model: sentences, which of them stand for all, and conversations summed up by them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.context.extracts import (
    FACTS_CHARS_MAX,
    FACTS_MAX,
    MARK,
    SENTENCE_CHARS_MAX,
    SUMMARY_CHARS_MAX,
    ExtractiveCondenser,
    Sentence,
    extract_sentences,
    rank,
    sentences_of,
)
from runtime.context.ports import Condense
from runtime.state.events import Message


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Mr. Smith has 3.5 dogs. They bark.", ["Mr. Smith has 3.5 dogs.", "They bark."]),
        ("J. R. Smith came. He left.", ["J. R. Smith came.", "He left."]),
        ("See example.com for it, e.g. the map. Fine.", ["See example.com for it, e.g. the map.", "Fine."]),
        ('She said "no." Then she left.', ['She said "no."', "Then she left."]),
        ("我叫李永，28岁。我在北京工作！你呢？", ["我叫李永，28岁。", "我在北京工作！", "你呢？"]),
        ("他说：“好。”然后走了。", ["他说：“好。”", "然后走了。"]),
        ("first line\nsecond line", ["first line", "second line"]),
        ("Wait... what?", ["Wait...", "what?"]),
        (" \n… !", []),
        ("", []),
    ],
)
def test_a_text_is_parted_into_its_sentences(text, sentences) -> None:
    assert sentences_of(text) == sentences


def test_a_long_sentence_is_cut() -> None:
    assert [len(each) for each in sentences_of("x" * 5_000)] == [SENTENCE_CHARS_MAX]


def chosen(*texts, **bounds):
    return [each.text for each in extract_sentences([Sentence(text) for text in texts], **bounds)]


ENGLISH = (
    "The flat in Lyon has a leaking roof.",
    "By the way, nice weather.",
    "The landlord of the flat will not repair the roof.",
    "The leaking roof of the flat damaged the bed.",
    "I like tea.",
)
CHINESE = (
    "我最近总是失眠，睡不好。",
    "今天天气不错。",
    "因为工作压力大，所以失眠。",
    "失眠让我白天工作没有精神。",
    "我喜欢喝茶。",
)


@pytest.mark.parametrize(("texts", "central"), [(ENGLISH, {0, 2, 3}), (CHINESE, {0, 2, 3})])
def test_what_a_conversation_is_about_ranks_first(texts, central) -> None:
    ranks = rank([Sentence(text) for text in texts])
    assert {*sorted(range(5), key=lambda place: -ranks[place])[:3]} == central


def test_an_extract_is_in_order_and_repeats_nothing() -> None:
    found = chosen(*ENGLISH, ENGLISH[0], chars_max=1_000)
    assert sorted(found) == sorted(ENGLISH)
    assert [each for each in found if each != ENGLISH[0]] == list(ENGLISH[1:])


def test_a_sentence_that_counts_for_more_ranks_higher() -> None:
    sentences = [Sentence("I like tea."), Sentence("I like dogs.", weight=3.0), Sentence("I like cats.")]
    assert extract_sentences(sentences, chars_max=15) == [sentences[1]]


@given(st.lists(st.text(max_size=60), max_size=30), st.integers(0, 300), st.integers(0, 10))
def test_extract_has_sentences_in_order_within_its_bounds(texts, chars, count) -> None:
    found = chosen(*texts, chars_max=chars, count_max=count)
    assert len(found) <= count
    assert sum(map(len, found)) <= chars
    rest = iter(texts)
    assert all(each in rest for each in found)
    assert found == chosen(*texts, chars_max=chars, count_max=count)


# -- conversations ----------------------------------------------------------------------------------------------------


def conversation(*texts):
    roles = ("user", "assistant")
    return tuple(Message(n + 1, "", roles[n % 2], text, "") for n, text in enumerate(texts))


SAID = conversation(
    "Hello! The flat in Lyon has a leaking roof.",
    "How long has the roof been leaking?",
    "The roof of the flat has been leaking for two weeks. Can you help?",
    "I will write to the landlord about the leaking roof.",
)


async def test_summary_is_marked_as_an_extract_and_names_speakers() -> None:
    summary = await ExtractiveCondenser()(Condense(purpose="summarise", messages=SAID))
    mark, *lines = summary.splitlines()
    assert mark == MARK
    assert "User: The flat in Lyon has a leaking roof." in lines
    assert all(line.split(": ")[0] in ("User", "Assistant") for line in lines)


async def test_a_summary_goes_on_from_the_one_before() -> None:
    first = await ExtractiveCondenser()(Condense(purpose="summarise", messages=SAID[:2]))
    both = await ExtractiveCondenser()(Condense(purpose="summarise", messages=SAID[2:], previous=first))
    assert both.count(MARK) == 1
    assert "User: The flat in Lyon has a leaking roof." in both
    assert "two weeks" in both


async def test_a_summary_goes_on_from_one_that_a_model_made() -> None:
    before = "Ana rents a flat in Lyon. " + "The roof of the flat leaks. " * 100
    summary = await ExtractiveCondenser()(Condense(purpose="summarise", messages=SAID, previous=before))
    assert "Ana rents a flat in Lyon." in summary


async def test_a_memo_holds_what_people_said_of_themselves() -> None:
    memo = await ExtractiveCondenser()(Condense(purpose="memo", messages=SAID))
    assert memo["extract"] is True
    assert "The roof of the flat has been leaking for two weeks." in memo["facts"]
    assert not [each for each in memo["facts"] if "Can you help" in each or "landlord" in each]


async def test_a_memo_keeps_what_it_had() -> None:
    before = {"facts": ["我叫李永，28岁。"], "mood": "low"}
    messages = conversation("我在北京工作。你在吗？", "在的。")
    memo = await ExtractiveCondenser()(Condense(purpose="memo", messages=messages, previous=before))
    assert memo == {"facts": ["我叫李永，28岁。", "我在北京工作。"], "mood": "low", "extract": True}


async def test_accounts_stay_within_bounds_however_long_a_conversation() -> None:
    summary, memo = None, None
    for piece in range(20):
        messages = conversation(
            *(f"Today {piece} I met person{n} at place{n * piece} and we ate dish{n}." for n in range(30))
        )
        summary = await ExtractiveCondenser()(Condense(purpose="summarise", messages=messages, previous=summary))
        memo = await ExtractiveCondenser()(Condense(purpose="memo", messages=messages, previous=memo))
    assert len(summary) <= SUMMARY_CHARS_MAX + len(MARK) + 12 * 100
    assert len(memo["facts"]) <= FACTS_MAX
    assert sum(map(len, memo["facts"])) <= FACTS_CHARS_MAX


async def test_conversation_without_sentences_has_a_summary_too() -> None:
    assert await ExtractiveCondenser()(Condense(purpose="summarise", messages=conversation("…", "!"))) == MARK


@pytest.mark.parametrize("part", [".", "?!", "A. ", "mr. ", ".)", '"', "…", "a, "])
def test_the_sentences_of_any_long_text_are_found_in_a_moment(part: str) -> None:
    """A user may send it, and a memory may contain it."""
    began = time.process_time()
    assert all(len(each) <= SENTENCE_CHARS_MAX for each in sentences_of(part * (100_000 // len(part)) + "x"))
    assert time.process_time() - began < 2  # with a quadratic search, minutes

"""What is suggested for a word that a script does not know: a similar word, or none."""

import pytest

from scripts.expressions.suggestions import suggest

KEYS = ["say", "ai_say", "ai_ask", "choose", "condition", "caption", "tone", "scene", "max_rounds"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sya", "say"),
        ("chose", "choose"),
        ("maxRounds", "max_rounds"),
        ("Max Rounds", "max_rounds"),
        ("AI_Ask", "ai_ask"),
        ("aiSay", "ai_say"),
    ],
)
def test_a_similar_word_is_suggested_in_any_casing(written, meant) -> None:
    assert suggest(written, KEYS, "") == f"Did you mean `{meant}`?"


@pytest.mark.parametrize("written", ["description", "python", "sleep", "actionId", "estimated_time"])
def test_a_word_that_only_shares_letters_is_not_suggested(written) -> None:
    assert suggest(written, KEYS, "") == ""


def test_an_opposite_word_is_not_suggested() -> None:
    assert suggest("exit_condition", ["entry_condition"], "") == ""
    assert suggest("entry_conditions", ["entry_condition"], "") == "Did you mean `entry_condition`?"


def test_the_name_of_a_field_in_other_tools_is_its_key_here() -> None:
    assert suggest("name", ["choices", "field", "type"]) == "Did you mean `field`?"


def test_the_second_of_two_chinese_characters_may_be_wrong() -> None:
    assert suggest("数子", ["文本", "数字", "整数"]) == "Did you mean `数字`?"
    assert suggest("时间", ["文本", "数字"], "") == ""


@pytest.mark.parametrize(
    ("written", "meant"), [("内容", "content"), ("类型", "type"), ("必填", "required"), ("最大值", "max")]
)
def test_a_chinese_word_for_a_key_is_the_key(written: str, meant: str) -> None:
    assert suggest(written, ["content", "max", "required", "type"]) == f"Did you mean `{meant}`?"

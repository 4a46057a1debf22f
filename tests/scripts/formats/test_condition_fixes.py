"""The fixes for conditions of the older formats: the condition as it can be written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.formats.condition_fixes import condition_fix
from scripts.formats.conditions import to_condition
from tests.scripts.formats.test_conditions import PIECES
from tests.support.effort import repeats
from tests.support.script_readers import ReadScript


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{age}在12到18之间", "{age} >= 12 && {age} <= 18"),
        ("{age}介于12和18之间", "{age} >= 12 && {age} <= 18"),
        ("｛年龄｝在１２～１８岁之间", "{年龄} >= 12 && {年龄} <= 18"),
        ("{age}不在12到18之间", "{age} < 12 || {age} > 18"),
        ("!{age}在12到18之间", "!({age} >= 12 && {age} <= 18)"),
        ("{paid} == 1 或 {age}在[12,18]之间", "{paid} == 1 或 ({age} >= 12 && {age} <= 18)"),
        ("{born}在2001-01-01到2005-12-31之间", "{born} >= 2001-01-01 && {born} <= 2005-12-31"),
        ("{age} in 12-18", "{age} >= 12 && {age} <= 18"),
        ("age in [12 - 18]", "age >= 12 && age <= 18"),
        ("{age} in 12 to 18", "{age} >= 12 && {age} <= 18"),
        ("{age} not in 12-18", "{age} < 12 || {age} > 18"),
        ("{age} in 12", "{age} == 12"),
        ("{age} > 12 < 18", "{age} > 12 && {age} < 18"),
        ("{年龄}>=18岁", "{年龄}>=18"),
        ("{年齡}≥18歲", "{年齡}≥18"),
        ("如果{性别}是男性且{年龄}超过18岁", "{性别}是男性 且 {年龄}超过18"),
        ("{age} >= 18 years old", "{age} >= 18"),
        ("{age}18岁以上", "{age} >= 18"),
        ("{age}未满18周岁", "{age} < 18"),
        ("{name}没有值", "{name} == ''"),
        ("{name}已填写", "{name} != ''"),
        ("{mood}在'好'、'一般'中", "{mood} in ['好', '一般']"),
        ("{story}中提到了“18岁”或包含“18岁”", None),
        ("{story}中有“18岁”", "“18岁” in {story}"),
        ("['a', 'b'].indexOf({x}) >= 0", "{x} in ['a', 'b']"),
        ("['a', 'b'].indexOf({x}) === -1", "{x} not in ['a', 'b']"),
        ("{age} is at least 18", "{age} >= 18"),
        ("{age} is older than 18", "{age} > 18"),
        ("“{年龄}＞18”", "{年龄}>18"),
        ("'{age} > 18 && {sex} == f'", "{age} > 18 && {sex} == f"),
        ("score在0.5到0.8之间", "score >= 0.5 && score <= 0.8"),
        ("{city} starts with 'New'", "{city}.startsWith('New')"),
        ("{city}以“北”开头", "{city}.startsWith(“北”)"),
        ("{city} ends with 'York'", "{city}.endsWith('York')"),
        ("{ok} 为真 && {done}不成立", "{ok} == true && {done} == false"),
        ("exists({age}) && isEmpty({mood})", "{age} exists && {mood} == ''"),
        ("{a} >> 3", None),
        ("{score} > 80%", None),
    ],
)
def test_a_condition_that_is_not_supported_has_a_fix(written: str, meant: str | None) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        to_condition(written, known=lambda word: False)
    assert condition_fix(written) == (f"Write `{meant}`." if meant else "")


@pytest.mark.parametrize(
    "written", ["{x} in [-1, 2]", "{x} in (1, -1)", "{x} in [12]", "{x} in {n} - 1", "{x} in '12-18'"]
)
def test_a_list_or_text_of_numbers_may_contain_a_value(written: str) -> None:
    assert " in " in to_condition(written)


def test_a_text_with_a_variable_in_it_is_still_a_condition() -> None:
    assert to_condition("'{name}'") == "name"
    assert to_condition("'{sex}' == 'f'") == 'sex == "f"'


def test_a_chain_around_a_variable_is_a_condition() -> None:
    assert to_condition("12 <= {age} <= 18") == "12 <= age <= 18"
    assert to_condition("{age} > 12 + {n} < 18") == "age > 12 + n < 18"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{age} >= 12 && <= 18", "{age} >= 12 && {age} <= 18"),
        ("{年龄}大于12且小于18", "{年龄} 大于 12 && {年龄} 小于 18"),
        ("{age} == 12-18", "{age} >= 12 && {age} <= 18"),
        ("{年龄}：12~18岁", "{年龄} >= 12 && {年龄} <= 18"),
    ],
)
def test_limit_without_variable_and_range_as_value_have_a_fix(written: str, meant: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        to_condition(written, known=lambda word: False)
    assert condition_fix(written) == f"Write `{meant}`."


FORMATS = {
    "session": """
        session:
          session_id: talk
          phases:
            - phase_id: main
              topics:
                - topic_id: t
                  actions:
                    - {action_type: ai_say, action_id: a, condition: "WRITTEN", config: {content: 好}}
    """,
    "stage": """
        sessions:
          - session: talk
            declare: [{var: age}]
            stages: [{stage: a, steps: [{goal: b, actions: [{say: 好, when: "WRITTEN"}]}]}]
    """,
    "detector": """
        consciousness:
          consciousness_id: talk
          keywords: [难过]
          output_config: {trigger_actions: [{action_type: say, config: {text: 好, condition: "WRITTEN"}}]}
    """,
}


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS)
def test_each_format_reports_the_fix_of_a_condition(read: ReadScript, text: str) -> None:
    reading = read(text.replace("WRITTEN", "{age}在12到18之间"))
    (problem,) = reading.errors
    assert (problem.code, problem.fix) == ("EXPRESSION_INVALID", "Write `{age} >= 12 && {age} <= 18`.")


@pytest.mark.parametrize("form", ["session", "stage"])
def test_a_condition_without_braces_may_be_read_as_one_name(read: ReadScript, form: str) -> None:
    reading = read(FORMATS[form].replace("WRITTEN", "年龄在12到18之间"))
    assert [each.fix for each in reading.errors] == ["Write `年龄 >= 12 && 年龄 <= 18`."]


def test_a_variable_may_have_such_a_name(read: ReadScript) -> None:
    text = FORMATS["stage"].replace("{var: age}", "{var: 年龄在12到18之间, value: true}")
    assert read(text.replace("WRITTEN", "年龄在12到18之间")).errors == ()
    text = FORMATS["session"].replace("session_id: talk", "session_id: talk\n          declare: [年龄在12到18之间]")
    assert read(text.replace("WRITTEN", "年龄在12到18之间")).errors == ()


def test_the_fix_for_the_place_of_a_value_in_a_list_is_reported(read: ReadScript) -> None:
    text = FORMATS["stage"].replace("{var: age}", "{var: pets, value: [cat]}, {var: pet, value: cat}")
    reading = read(text.replace("WRITTEN", "{pets}.indexOf({pet}) >= 0"))
    (problem,) = (each for each in reading.problems if each.code == "TYPE_CLASH")
    assert problem.fix == "Write `VALUE in pets`."


PHRASES = st.sampled_from(
    ["{年龄}", "在", "不", "12", "18", "到", "之间", "岁", "以上", "、", "且", "in", " ", ".indexOf("]
)


@settings(max_examples=repeats(300), deadline=None)
@given(st.lists(PIECES | PHRASES, max_size=14).map("".join) | st.text(max_size=30))
def test_a_fix_is_always_a_condition(written: str) -> None:
    if fix := condition_fix(written):
        to_condition(fix.removeprefix("Write `").removesuffix("`."), known=lambda word: False)


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        ("{score} >= 60分", "Write `{score} >= 60` for a condition."),
        ("{score}在60到80之间", "Write `{score} >= 60 && {score} <= 80` for a condition."),
        ("{score} >= 60", None),
        ("{score}说得很清楚", None),
        ("the visitor gave a name", None),
    ],
)
@pytest.mark.parametrize("form", ["session", "stage"])
def test_an_exit_in_words_may_be_meant_as_a_condition(
    read: ReadScript, form: str, written: str, fix: str | None
) -> None:
    asking = {
        "session": '{action_type: ai_say, action_id: a, condition: "WRITTEN", config: {content: 好}}',
        "stage": '{say: 好, when: "WRITTEN"}',
    }[form]
    question = {
        "session": f'{{action_type: ai_ask, action_id: a, content: 好, exit: "{written}", output: [score]}}',
        "stage": f'{{ai_ask: 好, exit: "{written}", output: score}}',
    }[form]
    problems = read(FORMATS[form].replace(asking, question)).problems
    assert [each.fix for each in problems if each.code == "VALUE_AMBIGUOUS"] == ([fix] if fix else [])

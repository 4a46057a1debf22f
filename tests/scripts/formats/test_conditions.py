"""The conditions of the older forms: how people write them, and whether they hold."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.expressions.expressions import compile_expression
from scripts.formats.conditions import is_computed, to_condition
from scripts.formats.placeholders import SCOPES, reference
from tests.support.effort import repeats

VALUES = {
    "年龄": "28",
    "性别": "女",
    "age": 28,
    "married": False,
    "owns": "true",
    "empty": "",
    "nothing": None,
    "pets": ["cat", "dog"],
    "none_yet": [],
    "person": {"name": "Ana", "child": {"age": 7}},
    "zero": 0,
    "sure": "是",
    "born": "1998-03-01",
    "opens": "before noon",
    "mood": "set",
}


@pytest.mark.parametrize(
    ("written", "holds"),
    [
        ("({年龄} >= 20 && {性别} == '女') || !{married}", True),
        ("（{年龄} ＞＝ 20 ＆＆ {性别} ＝＝ ‘女’） ｜｜ ！{married}", True),
        ("{年龄} >= 20 且 {性别} 等于 '男'", False),
        ("{年龄}大于20并且{性别}是'女'", True),
        ("{年龄} 小于 20 或 {性别} 不等于 '男'", True),
        ("非 {married} 而且 {年龄} 不小于 28", True),
        ("{性别} = '女'", True),
        ("{性别} = 女", True),
        ("'{性别}' === \"女\"", True),
        ("{性别} !== “女”", False),
        ("{性别} <> '男'", True),
        ("not {married} AND {age} < 30", True),
        ("NOT ({age} < 30)", False),
        ("{unknown || 30} > 28", True),
        ("{{ unknown ?? -1 }} + {age|default(0)} >= 28", False),
        ("'{unknown || \"x\"}' == x", True),
        ("{unknown or '女'} == {性别} && ${unknown || 0} == 0", True),
        ("{性别} == 男 or 女", True),
        ("{性别} == 男 或 不详", False),
        ("{性别} == 男 或 女 且 {age} > 30", False),
        ("{性别} != 男 and 女", False),
        ("{性别} != 男 or 不详", True),
        ("{age} == 27 || 28", True),
        ("{pets} contains bird or dog", True),
        ("{pets} contains cat and bird", False),
        ("{性别} == 男 or {married}", False),
        ("{opens} == before noon", True),
        ("{age}超过18且{性别}为'女'", True),
        ("{age} 不超过 18 或 {性别} 不为 女", False),
        ("{age}至少28", True),
        ("{age}大于18并且{性别}为女", True),
        ("{性别}不是女", False),
        ("{opens} in (at noon, before noon)", True),
        ("{opens} == at noon or before noon", True),
        ("!!{age}", True),
        ("!({age} == 28)", False),
        ("!{age} == 28", False),
        ("{nobody} == ''", True),
        ("{empty} == ''", True),
        ("{nothing} == ''", True),
        ("{zero} == ''", False),
        ("{none_yet} == ''", True),
        ("'' != {性别}", True),
        ("{nobody} == null", True),
        ("{nobody} != undefined", False),
        ("{age} != null", True),
        ("{none_yet} == []", True),
        ("{pets} != []", True),
        ("{pets}.length > 1", True),
        ("{性别}.length == 1", True),
        ("{pets} contains 'cat'", True),
        ("{pets}.includes('cow')", False),
        ("{pets} 包含 'cow' 或者 {pets} 不包含 'cow'", True),
        ("{性别} in ['男', '女']", True),
        ("{性别} not in ('男', '女')", False),
        ("{owns} == true", True),
        ("{married} == false", True),
        ("{nobody} > 3", False),
        ("{age} + 2 == 30", True),
        ("{age} % 2 == 0", True),
        ("-{age} < 0", True),
        ("({age} > 30 ? 1 : 2) == 2", True),
        ("parseInt({年龄}) + 1 == 29", True),
        ("{person.name} == 'Ana'", True),
        ("{person}.child.age == 7", True),
        ("{person}['name'] == 'Ana'", True),
        ("{pets}[0] == 'cat'", True),
        ("{性别}.startsWith('女')", True),
        ("{性别} + '士' == '女士'", True),
        ("'{性别}士' == '女士'", True),
        ("true", True),
        ("{age} >= 20；", True),
        ("{age} ＞ ２０", True),
        ("{age} is 28 and {age} is not 20", True),
        ("{age} is not null", True),
        ("{age} is defined and {nobody} is not defined", True),
        ("{age} >= 20 && {性别} == '男' || {owns}", True),
        ("{married} && ({married} || {age} > 20)", False),
        ("{nobody} > 3 || !{nobody}", True),
        ("${age} < 30 && {{ age }} > 20", True),
        ("{性别} == 'x && {b} || !c'", False),
        ("{born} < 2026-10-15", True),
        ("age大于或等于20 且 age小于30", True),
        ("性别等于女", True),
        ("{born} == 1998-3-1 && {born} == 1998/03/01", True),
        ("{性别} in (男, 女)", True),
        ("{性别} not in [男]", True),
        ("{age} between 28 and 30 and {性别} == 女", True),
        ("{age} between 9 and 10", False),
        ("{nobody} 为空 and {age} 不为空", True),
        ("{empty} is empty and {age} is not empty", True),
        ("{nothing} != 空", False),
        ("{age} exists and {nobody} exists", False),
        ("{age} is set and {nobody} is not set", True),
        ("{nobody} is known or {empty} is given", False),
        ("{nobody} is missing and {age} is not missing", True),
        ("{mood} == set", True),
        ("{sure} == 是 and {sure} != 否", True),
        ("{sure} 是 是", True),
        ("{session.age} == 28 and global.性别 == 女", True),
        ("age不为空 && nobody为空", True),
        ("性别不为空且age大于20", True),
        ("{pets} does not contain 'cow' and {pets} not contains 'fox'", True),
        ("{pets} doesn't contain 'cat'", False),
        ("{性别} is in ['男', '女'] and {性别} is not one of (男)", True),
        ("{性别} in 性别", True),
        ("'cat' is in pets and {age} not in pets", True),
        ("always", True),
        ("总是", True),
        ("never", False),
    ],
)
def test_a_condition_holds_or_not(evaluate, written, holds) -> None:
    def refer(name: str) -> str:
        head, _, rest = name.partition(".")
        if head in SCOPES:
            return reference(name)
        return f"{reference(head)}.{rest}" if rest else reference(head)

    source = to_condition(written, refer, VALUES.__contains__)
    assert bool(evaluate(source, **VALUES).value) is holds, source


@pytest.mark.parametrize(
    "written",
    [
        "",
        "{age} >",
        "({age}",
        "{age} >> 3",
        "{age} 3",
        "before noon",
        "{age} > 80%",
        "{age} > 80% && {age} < 90%",
        "eval({age})",
        "{age} ? 1",
        "{age}.explode()",
        "&& {age}",
        "(" * 60,
    ],
)
def test_what_has_no_meaning_is_reported(written) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        to_condition(written)


@pytest.mark.parametrize("text", ["very-good", "high-risk-2", "well-being-first"])
def test_a_text_with_hyphens_needs_no_quotes(text: str) -> None:
    assert to_condition(f"{{mood}} == {text} and {{age}} > 3", known=lambda word: False) == (
        f'mood == "{text}" and age > 3'
    )


@pytest.mark.parametrize("written", ["{mood} == 'very' - good", "{mood} == very - {age}", "{mood} == very-"])
def test_a_text_is_no_part_of_a_difference(written: str) -> None:
    with pytest.raises(ValueError, match='begins with "very" needs quotes'):
        to_condition(written, known=lambda word: False)


@pytest.mark.parametrize(
    ("written", "computed"),
    [
        ("{age} + 1", True),
        ("{age} > 3", True),
        ("age * 2", True),
        ("'quoted'", True),
        ("1 + 2", True),
        ("!{married}", True),
        ("{age}", False),
        ("{city}的朋友", False),
        ("{year}-{month}", False),
        ("{year}/{month}/{day}", False),
        ("{age} >= 18 and {city} == 'Rome'", True),
        ("not {married}", True),
        ("{age} 大于 {limit}", True),
        ("{city} not in {places}", True),
        ("({age} + 2) / 3", True),
        ("{age || 0} + 1", True),
        ("{age || 0} of {city || 'Rome'}", False),
        ("{city || 'you'} and {mood}", False),
        ("{age || 0}", False),
        ("{city} is {mood}", False),
        ("{city} and {place}", False),
        ("{city} & {place}", False),
        ("{姓名}是{职业}", False),
        ("{姓名}或{职业}且{city}", False),
        ("{city}。", False),
        ("{city}，", False),
        ("{age}.5", False),
        ("{city} == Rome", True),
        ("{city} is Rome", False),
        ("{age}.5 points", False),
        ("2026-01-31", False),
        ("2026/1/31", False),
        ("2026/01/31", False),
        ("2026.1.31", False),
        ("1.2.3", False),
        ("192.168.1.1", False),
        ("24/7", False),
        ("well-known", False),
        ("hello there", False),
        ("Is it so?", False),
        ("a, b", False),
    ],
)
def test_a_value_is_worked_out_or_said(written, computed) -> None:
    assert is_computed(written, {"age", "married", "city"}.__contains__) is computed


SIGNS = [*"()[]!><.,?:+-*/%{}＝“”且或不是 \\\n", "&&", "||", "==", "!="]
WORDS = ["{a}", "{b.c}", "'x'", '"y"', "3", "in", "contains", "null", "true", "length"]
PIECES = st.sampled_from([*SIGNS, *WORDS])


@settings(max_examples=repeats(300), deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=30))
def test_any_text_is_an_expression_or_a_value_error(written) -> None:
    try:
        source = to_condition(written, known=lambda word: False)
    except ValueError:
        return
    compile_expression(source)

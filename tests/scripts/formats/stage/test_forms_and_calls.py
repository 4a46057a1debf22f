"""Forms, calls and rules of the stage form, as its makers write them."""

from collections.abc import Callable
from textwrap import dedent, indent

import pytest

from scripts.model.script import FormDefinition
from scripts.parse.conversion import convert
from scripts.parse.read_script import Reading, Source, read_script

HEAD = "sessions:\n- session: s\n  declare: [姓名, {var: 家人, value: []}]\n  stages:\n  - stage: t\n    steps:\n"
WIDGETS = """\
forms:
- form: 基本信息   # 第一张
  fields:
  - text: 名称
  - combobox: 性别
    options: [男, 女]
  - date: 出生日期
  - label: 请如实填写
  - number: 年龄
    var: 岁数
    required: 必填
  - table: 家庭成员
    format: 姓名,关系、年龄
    rows: 3
  - table: 作息
    format:
    - text: 时段
    - combobox: 感觉
      options: [好, 坏]
    rows: [早上, 中午]
  - button: 提交
"""


def problems_of(reading: Reading, severity: str) -> list[tuple[str, str, int]]:
    return [(each.code, each.file, each.line) for each in reading.problems if each.severity == severity]


@pytest.fixture(scope="session")
def reading() -> Callable[..., Reading]:
    """Return a script whose one goal does these things."""

    def reading(actions: str, **sides: str) -> Reading:
        body = "    - goal: g\n      actions:\n" + indent(dedent(actions).strip("\n"), "      ") + "\n"
        return read_script(Source(HEAD + body, "s.yaml", {f"{name}.yaml": text for name, text in sides.items()}))

    return reading


@pytest.fixture(scope="session")
def form(reading) -> Callable[[str], FormDefinition]:
    def form(forms: str) -> FormDefinition:
        found = reading("- fill: 基本信息", forms=forms)
        assert found.script is not None, found.errors
        assert problems_of(found, "warning") == []
        return found.script.forms[0]

    return form


def test_every_widget_is_a_field_of_its_own(form) -> None:
    found = form(WIDGETS)
    assert [(each.name, each.type) for each in found.fields] == [
        ("名称", "text"), ("性别", "choice"), ("出生日期", "date"), ("岁数", "number"),
        ("家庭成员", "table"), ("作息", "table"),
    ]  # fmt: skip
    assert found.fields[1].choices == ("男", "女")
    assert found.fields[3].label.source == "年龄"
    assert found.fields[3].required
    assert found.text.source == "请如实填写"


@pytest.mark.parametrize("kind", ["combobox: 频率", "radio: 频率", "text: 频率"])
def test_a_choice_with_a_value_shows_its_label(form, kind) -> None:
    options = "[{value: 0, label: 从不}, {value: 3, text: 每天}]"
    found = form(f"forms:\n- form: 基本信息\n  fields:\n  - {kind}\n    options: {options}\n").fields[0]
    assert (found.choices, found.labels) == (("0", "3"), {"0": "从不", "3": "每天"})


def test_a_table_has_the_columns_of_its_format(form) -> None:
    *_, family, day = form(WIDGETS).fields
    assert [(each.name, each.type) for each in family.columns] == [("姓名", "text"), ("关系", "text"), ("年龄", "text")]
    assert (family.min, family.max, family.default) == (None, 3, None)
    assert [(each.name, each.type) for each in day.columns] == [("时段", "text"), ("感觉", "choice")]
    assert (day.max, day.default) == (2, [{"时段": "早上"}, {"时段": "中午"}])


@pytest.mark.parametrize(
    "table",
    [
        "format: [事件, 次数]",
        "format: 事件|次数",
        "format: 事件/次数",
        "format: |\n      事件\n      次数",
        "columns: {事件: text, 次数: number}",
        "format: [{text: 事件}, {number: 次数}]",
        "format: [{var: 事件}, {var: 次数, type: number}]",
        "rows: 1-5\n    format: [事件, 次数]",
        "rows: [[睡觉, 3], [吃饭, 2]]\n    header: [事件, 次数]",
        "rows: [{事件: 睡觉, 次数: 3}]\n    format: [事件, 次数]",
    ],
)
def test_a_format_may_be_written_in_any_way(form, table) -> None:
    found = form(f"forms:\n- form: 基本信息\n  fields:\n  - table: 记录\n    {table}\n").fields[0]
    assert [each.name for each in found.columns] == ["事件", "次数"]


@pytest.mark.parametrize(
    "forms",
    [
        "forms:\n- form: 基本信息\n  fields: [text: 名称, {combobox: 性别, options: [男, 女]}]\n",
        "forms:\n- form: 基本信息\n  controls:\n  - text: 名称\n  - combobox: 性别\n    items: 男、女\n",
        "forms:\n- form: 基本信息\n  组件:\n  - text: 名称\n  - combobox: 性别\n    options: {A: 男, B: 女}\n",
        "forms:\n- form: 基本信息\n- text: 名称\n- combobox: 性别\n  options: [男, 女]\n",
        "forms:\n  基本信息:\n  - text: 名称\n  - combobox: 性别\n    options: [男, 女]\n",
        "- form: 基本信息\n  fields:\n  - text: 名称\n  - combobox: {label: 性别, var: 性别, options: [男, 女]}\n",
    ],
)
def test_fields_may_stand_in_a_form_in_any_way(form, forms) -> None:
    found = form(forms).fields
    assert [(each.name, each.type, each.choices) for each in found] == [
        ("名称", "text", ()),
        ("性别", "choice", ("男", "女")),
    ]


def test_two_fields_of_one_name_are_an_error_that_deletes_none(reading) -> None:
    forms = "forms:\n- form: 表\n  fields:\n  - {text: 姓名}\n  - {number: 姓名}\n"
    found = reading("- fill: 表", forms=forms)
    assert problems_of(found, "error") == [("DUPLICATE_DECLARATION", "forms.yaml", 5)]
    assert "var: NAME" in found.errors[0].fix
    assert "emove" not in found.errors[0].fix


def test_a_form_that_is_not_shown_keeps_nothing_from_running(reading) -> None:
    broken = WIDGETS + "- form: 坏的\n  fields:\n  - {text: 姓名}\n  - {number: 姓名}\n  - {text: '1（a！'}\n"
    for actions in ("- say: 你好", "- fill: 基本信息"):
        found = reading(actions, forms=broken)
        assert found.script is not None, found.errors
        assert ("DUPLICATE_DECLARATION", "forms.yaml", 25) in problems_of(found, "warning")
        converted = convert(found.script, found)
        again = read_script(Source(converted.text, "s.yaml", found.source.side_files), "strict")
        assert again.script is not None, again.errors
        assert [sheet.id for sheet in again.script.forms] == [sheet.id for sheet in found.script.forms]
    assert reading("- fill: 坏的", forms=broken).script is None


@pytest.mark.parametrize(
    "forms",
    [
        "forms:\n- 表: [{text: 姓名}, {number: 年龄}]\n",
        "forms:\n- 表: {fields: [姓名: 文本, 年龄: number]}\n",
        "forms:\n- form: 表\n  fields: [姓名, {年龄: 数字}]\n",
        "forms:\n- form: 表\n  姓名: text\n  年龄: {type: number}\n",
        "forms:\n- 表: {姓名: text, 年龄: number}\n",
        "forms:\n- form: 表\n  fields: [{姓名: text, 年龄: number}]\n",
    ],
)
def test_a_form_may_be_a_name_with_its_fields(reading, forms) -> None:
    (sheet,) = reading("- fill: 表", forms=forms).script.forms
    assert [(each.name, each.type) for each in sheet.fields] == [("姓名", "text"), ("年龄", "number")]


@pytest.mark.parametrize("fields", ["{name: text, age: number}", "[name: text, age: number]"])
def test_a_field_may_be_called_name(reading, fields) -> None:
    (sheet,) = reading("- fill: 表", forms=f"forms:\n- form: 表\n  fields: {fields}\n").script.forms
    assert [(each.name, each.type) for each in sheet.fields] == [("name", "text"), ("age", "number")]


def test_code_among_the_fields_is_no_field(reading) -> None:
    found = reading(
        "- fill: 表", forms="forms:\n- form: 表\n  fields:\n  - text: 姓名\n  - python: |\n      return 1\n"
    )
    assert [each.name for each in found.script.forms[0].fields] == ["姓名"]
    assert problems_of(found, "warning") == [("PYTHON_REFUSED", "forms.yaml", 5)]


def test_fields_may_be_a_text_of_names(reading) -> None:
    (sheet,) = reading("- fill: 表", forms="forms:\n- form: 表\n  fields: 姓名、年龄\n").script.forms
    assert [each.name for each in sheet.fields] == ["姓名", "年龄"]


def test_rules_and_skills_may_be_names_with_their_content(reading) -> None:
    skills = "skills:\n- 问好:\n    do: [{say: 你好}]\n"
    rules = "rules:\n- 紧急:\n    keywords: 救命\n    say: 我在\n"
    script = reading("- call: 问好", skills=skills, rules=rules).script
    assert [each.id for each in script.skills] == ["问好"]
    assert [(each.id, each.on.keywords) for each in script.interrupts] == [("紧急", ("救命",))]


SKILLS = """\
skills:
- goal: 深度了解
  declare: [角色, 称呼]
  actions:
  - ai_ask: 说说{角色}{称呼}
    output: [get: 情况]
"""


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("input: [{set: 称呼, value: '{姓名}'}]", {"称呼": "姓名"}),
        ("input:\n  - set: 称呼   # 怎么叫\n    value: '{姓名}'\n  - set: 角色\n    value: 妈妈", {
            "称呼": "姓名", "角色": '"妈妈"'}),
        ("input: [{set: 称呼, value: '老{姓名}'}]", {"称呼": '"老" ~ 姓名'}),
        ("input: [{set: 称呼, get: 姓名}]", {"称呼": "姓名"}),
        ("input: {set: 称呼, value: 3}", {"称呼": "3"}),
        ("input: [{set: {称呼: '{姓名}'}}]", {"称呼": "姓名"}),
        ("input: [{var: 称呼, value: '{姓名}'}]", {"称呼": "姓名"}),
        ("input: [{get: 称呼, value: '{姓名}'}]", {"称呼": "姓名"}),
        ("input: [{get: 角色}, {get: 称呼, define: 怎么叫}]", {"角色": "角色", "称呼": "称呼"}),
        ("input: {称呼: '{姓名}'}", {"称呼": "姓名"}),
        ("称呼: '{姓名}'", {"称呼": "姓名"}),
        ("fromlist: 家人", {"角色": "item.角色", "称呼": "item.称呼"}),
        ("fromlist: 家人 as 人\n  input: [{set: 称呼, value: '{人.称呼}'}]", {"角色": "人.角色", "称呼": "人.称呼"}),
        ("input: [{set: 称呼, fromlist: 家人}]", {"角色": "item.角色", "称呼": "item.称呼"}),
        ("input: [{set: 称呼, fromlist: 家人.角色}]", {"角色": "item.角色", "称呼": "item.角色"}),
        ("input: [{set: 称呼, value: '{角色}', fromlist: 家人}]", {"角色": "item.角色", "称呼": "item.角色"}),
    ],
)  # fmt: skip
def test_a_call_hands_over(reading, call, given) -> None:
    actions = f"- ai_ask: 谁\n  tolist: 家人\n  output: [角色, 称呼]\n- call: 深度了解\n  {call}\n"
    found = reading(actions, skills=SKILLS)
    assert found.script is not None, found.errors
    made = found.script.phases[0].topics[0].actions[1]
    assert {name: value.source for name, value in made.input.items()} == given
    assert (made.loop is not None) == ("fromlist" in call)
    convert(found.script, found)


@pytest.mark.parametrize("calls", ["[深度了解, 问好]", "[{goal: 深度了解}, 问好]"])
def test_a_call_may_name_several_skills(reading, calls) -> None:
    found = reading(f"- call: {calls}", skills=f"{SKILLS}- goal: 问好\n  actions: [say: 你好]\n")
    assert [each.skill for each in found.script.phases[0].topics[0].actions] == ["深度了解", "问好"]


def test_a_skill_may_be_the_key_of_its_parameters(reading) -> None:
    found = reading("- call: {深度了解: {称呼: 小李, 角色: 妈妈}}\n", skills=SKILLS)
    (made,) = found.script.phases[0].topics[0].actions
    assert (made.skill, {name: value.source for name, value in made.input.items()}) == (
        "深度了解",
        {"称呼": '"小李"', "角色": '"妈妈"'},
    )


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("input: [{set: 称乎, value: 3}]", "PARAMETER_UNKNOWN"),
        ("input: [{set: 称呼, value: 3, when: '{姓名}'}]", "UNKNOWN_KEY"),
        ("timing: 3", "UNKNOWN_KEY"),
        ("timing_to: 时长", "UNKNOWN_KEY"),
        ("input: [{set: 称呼, fromlist: 家人}, {set: 角色, fromlist: 朋友}]", "KEY_CONFLICT"),
        ("output: [{get: 没有}]", "RETURN_UNKNOWN"),
    ],
)
def test_what_a_call_cannot_do_is_an_error(reading, call, code) -> None:
    assert code in {each.code for each in reading(f"- call: 深度了解\n  {call}\n", skills=SKILLS).errors}


@pytest.mark.parametrize(
    "rule",
    [
        "check_time: 30秒\n  say: a",
        "check_time: before_ai\n  say: a",
        "check_time: every day before noon\n  say: a",
        "check_time: 每天早上\n  say: a",
        "timing: 3\n  say: a",
        "timing_to: 时长\n  say: a",
        "desc: nothing to do",
        "sya: a",
        "do: [{sya: a}]",
        "then: goto nowhere",
    ],
)
def test_a_rule_that_would_do_nothing_is_an_error(reading, rule) -> None:
    found = reading("- say: 你好", rules=f"rules:\n- rule: a\n  keywords: b\n  {rule}\n")
    assert found.script is None
    assert {each.file for each in found.errors} == {"rules.yaml"}


@pytest.mark.parametrize("key", ["on", "condition", "check"])
def test_a_rule_says_in_words_what_the_user_means(reading, key) -> None:
    found = reading("- say: 你好", rules=f"rules:\n- rule: a\n  {key}: 用户询问隐私\n  say: 保密\n")
    (rule,) = found.script.interrupts
    assert (rule.on.intent, rule.when) == ("用户询问隐私", None)


def test_two_rules_of_one_name_both_count(reading) -> None:
    rules = "rules:\n" + "".join(f"- rule: a\n  keywords: {word}\n  say: {word}\n" for word in ("b", "c"))
    found = reading("- say: 你好", rules=rules)
    assert found.script is not None, found.errors
    assert [each.id for each in found.script.interrupts] == ["a", "a_2"]


def test_two_skills_of_one_name_are_an_error(reading) -> None:
    skills = "skills: [{goal: a, actions: [{say: b}]}, {goal: a, actions: [{say: c}]}]\n"
    assert [each.code for each in reading("- call: a", skills=skills).errors] == ["DUPLICATE_ID"]


@pytest.mark.parametrize(
    ("declared", "code", "severity"),
    [
        ("[{var: a, define: x}, {var: a, value: 3}]", "DUPLICATE_DECLARATION", "warning"),
        ("[{var: a, value: 2}, {var: a, value: 3}]", "DUPLICATE_DECLARATION", "error"),
        ("[{var: a, type: number, value: many}]", "DEFAULT_MISMATCH", "error"),
    ],
)
def test_two_declarations_are_put_together(reading, declared, code, severity) -> None:
    found = reading("- say: '{a}'", **{"global": f"global: {declared}\n"})
    assert [each.code for each in found.problems if each.severity == severity] == [code]
    assert (found.script is None) == (severity == "error")
    if found.script is not None:
        assert (found.script.globals[0].define, found.script.globals[0].value) == ("x", 3)


def test_results_of_a_skill_may_be_described(reading) -> None:
    skills = (
        "skills: [{goal: 问候, output: [{get: 回答, define: 怎么说}], actions: [{ai_ask: 你好, output: [回答, 别的]}]}]"
    )
    (skill,) = reading("- call: 问候", skills=skills).script.skills
    assert skill.returns == ("回答",)


def test_a_skill_may_name_its_parameters(reading) -> None:
    skills = "skills: [{skill: 问候, params: [称呼], returns: 回答, actions: [{ai_ask: '你好{称呼}', output: [回答]}]}]"
    (skill,) = reading("- call: 问候(称呼=先生)", skills=skills.replace("skill: 问候", "goal: 问候")).script.skills
    (own,) = read_script(
        Source(HEAD + f"    - goal: g\n      actions: [call: 问候]\n{skills}\n", "s.yaml")
    ).script.skills
    for each in (skill, own):
        assert ([param.var for param in each.params], each.returns) == (["称呼"], ("回答",))
        assert each.actions[0].task.source == "你好{{ 称呼 }}"


def test_several_skills_in_one_text_are_fixed_by_a_list() -> None:
    skills = "skills:\n- goal: 问候\n  actions:\n  - say: a\n- goal: 告别\n  actions:\n  - say: b\n"
    called = f"{HEAD}    - goal: g\n      actions:\n      - call: 问候，告别\n{skills}"
    (problem,) = read_script(Source(called)).errors
    assert (problem.code, problem.line) == ("SKILL_UNKNOWN", 9)
    assert problem.fix == "Write `call: [问候, 告别]`."
    assert not read_script(Source(called.replace("问候，告别", "[问候, 告别]"))).errors


@pytest.mark.parametrize(
    ("condition", "fixes"),
    [
        ("{姓名} == 王或李", ["Write `王 或 李` if two are meant, or put quotes around the text."]),
        ("{姓名} == 王 或 李", []),
        ("{姓名} == '王或李'", []),
        ("{姓名} == 或许", []),
    ],
)
def test_a_text_that_may_be_meant_as_two_is_reported(condition, fixes) -> None:
    body = f'    - goal: g\n      actions:\n      - if: "{condition}"\n        do: [{{say: a}}]\n'
    reading = read_script(Source(HEAD + body))
    found = [each for each in reading.problems if each.code == "VALUE_AMBIGUOUS"]
    assert ([each.fix for each in found], [each.line for each in found]) == (fixes, [9] * len(fixes))


def test_a_declared_value_that_looks_calculated_is_reported() -> None:
    head = HEAD.replace("{var: 家人, value: []}", "{var: 天数, value: =2 * 7}")
    reading = read_script(Source(f"{head}    - goal: g\n      actions:\n      - say: a\n"))
    (problem,) = (each for each in reading.problems if each.code == "TYPE_MISMATCH")
    assert (problem.severity, problem.line) == ("warning", 3)
    assert problem.fix == "Write `set: 天数` with `value: 2 * 7` in the first goal."

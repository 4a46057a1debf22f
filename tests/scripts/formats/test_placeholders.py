"""The older forms' placeholders and conditions, as they come out in Jinja2."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.expressions.expressions import compile_template
from scripts.expressions.members import SPEAKER_PARTS, Speaker
from scripts.formats.placeholders import reference, report_placeholders, to_template
from scripts.model.actions import AiSay, Say
from scripts.model.base import Location
from scripts.model.diagnostics import Problems
from scripts.parse.read_script import Reading
from scripts.yaml.decoder import Reader
from tests.support.script_readers import ReadScript

VALUES = {
    "姓名": "Leo",
    "name": "Leo",
    "用户-情绪": "calm",
    "time": "noon",
    "first name": "Leo",
    "age": 28,
    "married": False,
}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("你好{{姓名}}", "你好Leo"),
        ("{% name %} and {%name%}", "Leo and Leo"),
        ("{name}", "Leo"),
        ("{ name }", "Leo"),
        ("{{name}}", "Leo"),
        ("${name}", "Leo"),
        ("${{name}}", "Leo"),
        ("｛name｝", "Leo"),
        ("{first name}", "Leo"),
        ("{session.name} and ${global.姓名}", "Leo and Leo"),
        ("{用户-情绪}", "calm"),
        ("{unknown}|{{unknown}}", "|"),
        ("{name || 'you'} {unknown || 'you'} ${unknown ?? 'you'} {{ unknown or \"you\" }}", "Leo you you you"),
        ("{unknown || 0} {{ unknown ?? -2.5 }} {unknown | default(7)} {name or 3}", "0 -2.5 7 Leo"),
        ("{{ name | default('you') }} {unknown|default(\"you\", true)}", "Leo you"),
        ("costs $$5 & {name} pays $5", "costs $$5 & Leo pays $5"),
        ("{}", "{}"),
        ('{"age": 5}', '{"age": 5}'),
        ("{1st} {a@b}", "{1st} {a@b}"),
        ("{% if vip %}Hi{% else %}Ho{% endif %}", "{% if vip %}Hi{% else %}Ho{% endif %}"),
        ("{{ }} {# no comment #} {% if %x", "{{ }} {# no comment #} {% if %x"),
        ("{not}{true}{_x}", ""),
        ("two\nlines {name}\n", "two\nlines Leo\n"),
    ],
)
def test_every_spelling_of_a_placeholder_means_the_variable(render, written, said) -> None:
    assert render(to_template(written), **VALUES).text == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{%user%}, {% user %}", "ana, ana"),
        ("{%time%}", "2026-03-01 09:30"),
        ("{%who%}", "guide"),
        ("{time}: {%time%}", "noon: 2026-03-01 09:30"),
    ],
)
def test_what_the_runtime_knows_has_a_value(render, written, said) -> None:
    now = datetime(2026, 3, 1, 9, 30, 12, tzinfo=UTC)
    given = {"user": {"id": "ana"}, "now": now, "role": speaker("guide"), "time": "noon"}
    assert render(to_template(written), **given).text == said
    assert render(to_template("{%who%}"), role=speaker("")).text == "AI"


def speaker(name: str) -> Speaker:
    return Speaker(name, dict.fromkeys(SPEAKER_PARTS, "") | {"id": name, "name": name})


@pytest.mark.parametrize("value", ["$$5 and $& end", "{name}", "{{ name }}", "{% set a = 1 %}", "{task}", "1+1"])
def test_a_value_is_never_looked_at_again(render, value) -> None:
    assert render(to_template("say {x}, {x}"), x=value, name="Leo", task="leak").text == f"say {value}, {value}"


@pytest.mark.parametrize(
    ("written", "problems"),
    [
        ("{抚养者} {user_name} {{x}} {{{x}}} {%time%}", []),
        ("{123非法}", [("{123非法} is not a variable name", 0)]),
        ("ok\n{变量@名}", [("{变量@名} is not a variable name", 1)]),
        ("```\n{1st} {{x\n``` {2nd}", [("{2nd} is not a variable name", 2)]),
        ('{"json": {"a": 1}} {} {{"a": 1}}', []),
        (
            "{age + 1} and {age*2}",
            [("{age + 1} is not a variable name", 0), ("{age*2} is not a variable name", 0)],
        ),
        ("{{ name | default: 'you' }}", [("{name | default: 'you'} is not a variable name", 0)]),
        ("你好\n{{用户名，再见", [("`{{用户名，再见` is not closed on its line", 1)]),
        ("{{name\n}} and {{ name }", [("`{{name` is not closed on its line", 1)]),
        ("{{name {x}", [("`{{name` is not closed on its line", 0)]),
        ("{%time}", [("`{%time` is not closed on its line", 0)]),
        ("{name|upper}", [("{name|upper} is not a variable name", 0)]),
        ("{list[n]} {age:.1f}", [(f"{{{each}}} is not a variable name", 0) for each in ("list[n]", "age:.1f")]),
        ("{{ name or 'you' }} {name || you}", [("{name || you} is not a variable name", 0)]),
        ('{{"a": 1}} {"a": [1]}', []),
        (
            "你好{}，\n{ }和{{ }}、｛｝",
            [("{} names no variable", 0), *[(f"{each} names no variable", 1) for each in ("{ }", "{{ }}", "｛｝")]],
        ),
        ("f(x) = {}, [{}]", []),
        (
            "{age >= 18 ? 'a' : 'b'}\n${性别 == “男” ? 1 : 2} {a && b} {x ?? y} {x<3}",
            [
                ("{age >= 18 ? 'a' : 'b'} is not a variable name", 0),
                *[
                    (f"{{{each}}} is not a variable name", 1)
                    for each in ("性别 == “男” ? 1 : 2", "a && b", "x ?? y", "x<3")
                ],
            ],
        ),
        ("{您几岁？}", [("{您几岁？} is not a variable name", 0)]),
        (
            "{姓名，年龄} ｛姓名、年龄｝",
            [("{姓名，年龄} is not a variable name", 0), ("{姓名、年龄} is not a variable name", 0)],
        ),
        ("{1, 2, 3} { color: red } {a: 1}", []),
        (
            "Hi\n{% if vip %}{name}{% else %}you{% endif %}",
            [("'{% if vip %}' is not run: texts of this format have no statements", 1)],
        ),
    ],
)
def test_braces_without_a_name_or_an_end_are_problems(written, problems) -> None:
    found = Problems()
    report_placeholders(Reader(found, lenient=True), written, Location(1, 1))
    assert [(each.message, each.line - 1) for each in found.sorted()] == problems


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("{}%#$ab_1 '\"\n", max_size=30))
def test_any_text_of_the_older_forms_is_a_valid_text(text) -> None:
    compile_template(to_template(text))


@settings(deadline=None)
@given(st.from_regex(r"[^\W\d][\w\-（）.]{0,12}", fullmatch=True))
def test_a_reference_reads_the_variable_of_that_name(evaluate, name) -> None:
    rendered = evaluate(reference(name), **{name: "it"})
    assert rendered.value == "it" or name in {"now", "today", "round", "user", "role", "history", "vars", "range"}


SESSION = """
    session:
      session_id: talk
      declare: [DECLARED]
      phases:
        - phase_id: p
          topics: [{topic_id: t, actions: [{action_type: ai_say, action_id: a, config: {content: "TEXT"}}]}]
"""
STAGE = """
    sessions:
      - session: talk
        declare: [DECLARED]
        stages: [{stage: p, steps: [{goal: t, actions: [{say: "TEXT"}]}]}]
"""


def source_of(reading: Reading) -> str:
    assert reading.script is not None
    action = reading.script.phases[0].topics[0].actions[0]
    assert isinstance(action, Say | AiSay)
    return action.texts[0].source if isinstance(action, Say) else action.task.source


@pytest.mark.parametrize("text", [SESSION, STAGE])
def test_a_member_of_a_built_in_value_can_be_read(read: ReadScript, text: str) -> None:
    reading = read(text.replace("DECLARED", "").replace("TEXT", "{user.id} {role.name} {now.year}"))
    assert source_of(reading) == "{{ user.id }} {{ role.name }} {{ now.year }}"
    assert [each.code for each in reading.problems if each.code != "ID_DERIVED"] == []


@pytest.mark.parametrize("text", [SESSION, STAGE])
def test_a_variable_with_the_name_of_such_a_member_comes_first(read: ReadScript, text: str) -> None:
    reading = read(text.replace("DECLARED", "{var: user.id, value: a7}").replace("TEXT", "{user.id}"))
    assert source_of(reading) == '{{ vars["user.id"] }}'


def test_member_of_a_variable_named_like_a_built_in_is_its_own(read: ReadScript) -> None:
    reading = read(STAGE.replace("DECLARED", "{var: user, value: {id: a7}}").replace("TEXT", "{user.id}"))
    assert source_of(reading) == "{{ user_.id }}"


@pytest.mark.parametrize(
    ("text", "written", "name", "fix"),
    [
        (SESSION, "{user_id}", "user_id", "The id of the user is `{user.id}`."),
        (SESSION, "{user.name}", "user.name", "Of the user, a script knows only the id, `{user.id}`"),
        (STAGE, "{user}", "user", "The id of the user is `{user.id}`."),
        (STAGE, "{now}", "now", "The time is `{%time%}`."),
        (STAGE, "{role}", "role", "The role that speaks is `{%who%}`."),
    ],
)
def test_a_name_like_that_of_a_built_in_value_is_reported(
    read: ReadScript, text: str, written: str, name: str, fix: str
) -> None:
    problems = read(text.replace("DECLARED", "").replace("TEXT", written)).problems
    (problem,) = (each for each in problems if each.code == "VARIABLE_NEVER_SET")
    assert problem.message == f"nothing sets `{name}`"
    assert problem.fix.startswith(fix)

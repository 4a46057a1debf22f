"""``cuebook prompts``: prompts are shown, copied, changed and checked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.prompts.templates import DEFAULT, NAMES
from tests.support.fixture_types import RunCommand

SCRIPT = """\
script: tea
locale: en
template_scheme: warm
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_ask: "Ask {{ name }} for the age.", id: age, output: [{get: age, type: number}]}
          - {ai_say: Say goodbye., id: bye}
          - {ask: Name?, id: fixed, output: [{get: other, type: date}]}
      - topic: again
        actions:
          - {ai_say: Say it again., id: bye}
skills:
  - skill: breathe
    params: [{var: times}]
    actions: [{ai_say: "Breathe {{ times }} times.", id: breathe_in}]
interrupts:
  - {interrupt: leave, on: {intent: the user wants to leave}, do: [{say: Bye., id: left}], then: end}
"""

Write = Callable[[str, str], Path]


def documents(result: Any) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_every_prompt_is_listed_with_where_it_comes_from(cuebook: RunCommand, write: Write) -> None:
    default = documents(cuebook("prompts", "list", "--json"))
    assert {(each["prompt"], each["language"]) for each in default} == {(n, la) for n in NAMES for la in ("en", "zh")}
    write("own/custom/warm/de/say.jinja", "{{ data }} {{ task }}")
    listed = documents(cuebook("prompts", "list", "--prompts", "own", "--json"))
    own = {"prompt": "say", "language": "de", "scheme": "warm", "file": "own/custom/warm/de/say.jinja"}
    assert listed[len(default) :] == [own]
    warm = documents(cuebook("prompts", "list", "--prompts", "own", "--scheme", "warm", "--json"))
    assert [each["scheme"] for each in warm if each["prompt"] == "say"] == ["warm", None, None]
    plain = cuebook("prompts", "list").stdout.splitlines()
    assert plain[0] == "PROMPT\tLANGUAGE\tSCHEME\tFILE"
    assert len(plain) == 1 + len(default)


def test_the_prompts_folder_of_the_scripts_is_the_default(cuebook: RunCommand, write: Write) -> None:
    write("mine/prompts/custom/warm/en/say.jinja", "warmly {{ task }}")
    assert cuebook("prompts", "show", "say", "--scheme", "warm", "--scripts", "mine").stdout == "warmly {{ task }}\n"
    write("cuebook.toml", 'prompts = "elsewhere"\n')
    write("elsewhere/custom/warm/en/say.jinja", "elsewhere {{ task }}")
    assert cuebook("prompts", "show", "say", "--scheme", "warm").stdout == "elsewhere {{ task }}\n"


def test_a_template_is_shown_in_the_language_of_a_locale(cuebook: RunCommand) -> None:
    for locale, language in (("en", "en"), ("zh-Hant", "zh"), ("de", "en")):
        shown = cuebook("prompts", "show", "ask", "--locale", locale)
        assert shown.stdout == (DEFAULT / language / "ask.jinja").read_text("utf-8")
        assert str(DEFAULT / language / "ask.jinja") in shown.stderr
    assert cuebook("prompts", "show", "ask", "--locale", "../x").exit_code == 2
    assert cuebook("prompts", "show", "nothing").exit_code == 2


def test_the_prompt_of_an_action_is_shown_as_the_model_gets_it(cuebook: RunCommand, write: Write) -> None:
    script = write("tea.yaml", SCRIPT)
    show = ("prompts", "show", "--script", script, "--action")
    first = cuebook(*show, "age", "ask", "--var", "name=Bo").stdout
    assert 'Ask <value id="1"/> for the age.' in first
    assert '{"1": "Bo"}' in first.split("--- user ---")[1]
    judged = documents(cuebook(*show, "p/t/age", "ask", "--reply", "</reply>", "--json"))
    assert judged["schema"]["required"][-1] == "text"
    assert "\\u003c/reply\\u003e" in judged["messages"][1]["content"]
    assert "目标" not in cuebook(*show, "age", "ask").stdout
    assert "任务" in cuebook(*show, "age", "ask", "--locale", "zh").stdout
    assert "age" in cuebook(*show, "age", "extract", "--reply", "hm").stdout
    assert "the user wants to leave" in cuebook(*show, "age", "route", "--reply", "hm").stdout
    assert "Say it again." in cuebook(*show, "p/again/bye", "say").stdout
    assert '{"1": "3"}' in cuebook(*show, "breathe_in", "say", "--var", "times=3").stdout
    assert "Name?" in cuebook(*show, "fixed", "extract", "--reply", "hm").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ask", "--action", "bye"], "several actions bye: p/t/bye, p/again/bye"),
        (["ask", "--action", "none"], "has no action none"),
        (
            ["think", "--action", "age"],
            "p/t/age asks no model to think before any reply, but to ask; give one with --reply",
        ),
        (["say", "--action", "age", "--reply", "x"], "asks no model to say at this reply, but to ask, extract"),
        (["ask"], "require each other"),
    ],
)
def test_what_is_not_asked_cannot_be_shown(
    cuebook: RunCommand, write: Write, arguments: list[str], message: str
) -> None:
    shown = cuebook("prompts", "show", *arguments, "--script", write("tea.yaml", SCRIPT))
    assert shown.exit_code == 2
    assert message in shown.stderr


def test_a_broken_script_shows_its_problems(cuebook: RunCommand, write: Write) -> None:
    shown = cuebook("prompts", "show", "ask", "--script", write("x.yaml", "script: x\n"), "--action", "a")
    assert shown.exit_code == 2
    assert "REQUIRED_FIELD_MISSING" in shown.stderr


def test_a_copy_is_made_to_be_changed_and_counts_for_its_scheme(
    cuebook: RunCommand, write: Write, tmp_path: Path
) -> None:
    copied = cuebook("prompts", "copy", "warm", "say", "ask", "--prompts", "own")
    assert copied.exit_code == 0
    own = tmp_path / "own/custom/warm"
    found = sorted(str(path.relative_to(own)) for path in own.rglob("*.jinja"))
    assert found == ["en/ask.jinja", "en/say.jinja", "zh/ask.jinja", "zh/say.jinja"]
    assert (own / "en/say.jinja").read_text() == (DEFAULT / "en/say.jinja").read_text()
    (own / "en/say.jinja").write_text("Be very warm. {{ task }} {{ data }}")
    show = ("prompts", "show", "say", "--script", write("tea.yaml", SCRIPT), "--action", "p/t/bye", "--prompts", "own")
    assert "Be very warm. Say goodbye." in cuebook(*show).stdout
    assert "Be very warm" not in cuebook(*show, "--scheme", "other").stdout
    again = cuebook("prompts", "copy", "warm", "--prompts", "own")
    assert (again.exit_code, "already exists (and 3 more)" in again.stderr) == (2, True)
    assert not (own / "en/chat.jinja").exists()
    assert cuebook("prompts", "copy", "warm", "--prompts", "own", "--force").exit_code == 0
    assert (own / "en/say.jinja").read_text() == (DEFAULT / "en/say.jinja").read_text()
    assert (own / "zh/memo.jinja").exists()
    assert cuebook("prompts", "copy", "kalt", "say", "--locale", "de-AT", "--prompts", "own").exit_code == 0
    assert (tmp_path / "own/custom/kalt/de/say.jinja").exists()
    assert cuebook("prompts", "check", "own").exit_code == 0


@pytest.mark.parametrize("scheme", ["../up", "a/b", "..", "", "a b", ".x"])
def test_a_scheme_is_never_a_path(cuebook: RunCommand, tmp_path: Path, scheme: str) -> None:
    copied = cuebook("prompts", "copy", scheme, "say", "--prompts", "own")
    assert (copied.exit_code, "cannot be the name of a scheme" in copied.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_copied_among_the_examples(cuebook: RunCommand) -> None:
    copied = cuebook("prompts", "copy", "warm")
    assert (copied.exit_code, "name the target folder" in copied.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "line", "severity", "message"),
    [
        ("", 1, "error", "it is empty"),
        ("   \n", 1, "error", "it is empty"),
        ("{{ data }}\na {{ task\nb\n", 2, "error", "`{{` is not closed by `}}`"),
        ("{{ data }}\n{{ task }\n{{ tone }}\n", 2, "error", "`{{` is not closed by `}}`"),
        ("{{ data }}\n{% if task\n", 2, "error", "`{%` is not closed by `%}`"),
        ("{{ data }}{{ task }}\n{{ 123非法 }}", 2, "error", "not possible here"),
        ("{{ data }}{{ task }}{% set x = 1 %}", 1, "error", "{% set %} is not available"),
        (
            "{{ data }}\n{{ tusk }}{{ task }}",
            2,
            "warning",
            "there is no variable `tusk`: it is empty. Did you mean `task`?",
        ),
        ("{{ data }}{{ task }}\n{{ reply }}", 2, "warning", "there is no variable `reply`"),
        ("{{ task }}", 1, "warning", "it does not say that data is not an instruction"),
        ("{{ data }}", 1, "warning", "it does not contain the script's task"),
        ("{{ data }}{{ task }}\n{用户名}", 2, "warning", "{用户名} is not replaced; for a value write {{ 用户名 }}"),
    ],
)
def test_a_template_is_checked(
    cuebook: RunCommand, write: Write, text: str, line: int, severity: str, message: str
) -> None:
    write("own/custom/warm/en/say.jinja", text)
    checked = cuebook("prompts", "check", "own", "--json")
    assert checked.exit_code == (severity == "error")
    (fault,) = json.loads(checked.stdout)
    assert (fault["line"], fault["severity"]) == (line, severity)
    assert message in fault["message"]
    plain = cuebook("prompts", "check", "own").stdout
    assert plain.startswith(f"own/custom/warm/en/say.jinja:{line} {severity} ")


def test_single_braces_are_code_within_fences_and_json_anywhere(cuebook: RunCommand, write: Write) -> None:
    write("own/custom/warm/en/say.jinja", '{{ data }}{{ task }}\n```\n{name}\n```\n{"a": 1} {1} {}\n~~~\n{x}')
    checked = cuebook("prompts", "check", "own")
    assert (checked.exit_code, checked.stdout) == (0, "")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("custom/warm/en/saay.jinja", "there is no prompt called saay. Did you mean `say`?"),
        ("custom/say.jinja", "it belongs in custom/SCHEME/LANGUAGE/say.jinja"),
        ("default/en/say.jinja", "it belongs in custom/SCHEME/LANGUAGE/say.jinja"),
        ("custom/so warm/en/say.jinja", "contain only letters, digits, _ and -"),
    ],
)
def test_a_template_that_nothing_reads_is_reported(cuebook: RunCommand, write: Write, path: str, message: str) -> None:
    write(f"own/{path}", "{{ data }}{{ task }}")
    checked = cuebook("prompts", "check", "own")
    assert (checked.exit_code, message in checked.stdout) == (1, True)


def test_the_default_prompts_pass_their_own_check(cuebook: RunCommand, tmp_path: Path) -> None:
    assert cuebook("prompts", "copy", "same", *NAMES, "--prompts", "own").exit_code == 0
    checked = cuebook("prompts", "check", "own")
    assert (checked.exit_code, checked.stdout) == (0, "")


def test_without_prompts_of_ones_own_nothing_is_wrong(cuebook: RunCommand) -> None:
    assert cuebook("prompts", "check").exit_code == 0
    assert cuebook("prompts", "check", "nowhere").exit_code == 2

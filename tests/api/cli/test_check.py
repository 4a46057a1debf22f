"""``cuebook check`` and ``cuebook explain``: what is wrong, where, and how to fix it."""

import json
from pathlib import Path

import pytest

from scripts.checks.examples import explanation
from scripts.model.diagnostics import CODES, code_groups
from tests.support.fixture_types import RunCommand, WriteFile

BROKEN = """\
script: b
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - say: Hello.
            id: hi
          - aks: Name?
            id: ask
"""
OLDER = """\
session:
  session_id: older
  phases:
    - phase_id: p
      topics:
        - topic_id: t
          actions:
            - {action_type: ai_say, action_id: greet, config: {content_template: Hello}}
"""


def test_a_problem_is_shown_in_its_line_with_its_cure(cuebook: RunCommand, write: WriteFile) -> None:
    path = write("b.yaml", BROKEN)
    result = cuebook("check", path)
    assert result.exit_code == 1
    head, line, caret, fix = result.stdout.splitlines()[:4]
    assert head.startswith(f"{path}:9:13 error ACTION_TYPE_UNKNOWN ")
    assert line.strip() == "- aks: Name?"
    assert line[caret.index("^")] == "a"
    assert "ask" in fix
    assert "1 script: 1 error" in result.stderr


def test_the_same_as_json(cuebook: RunCommand, write: WriteFile) -> None:
    path = write("b.yaml", BROKEN)
    result = cuebook("check", path, "--format", "json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["files"] == [str(path)]
    (problem,) = document["diagnostics"]
    assert set(problem) == {"code", "severity", "message", "fix", "file", "line", "column", "path", "patch"}
    assert (problem["code"], problem["line"], problem["column"]) == ("ACTION_TYPE_UNKNOWN", 9, 13)


def test_a_valid_script_is_reported_as_valid(cuebook: RunCommand, conversations: Path) -> None:
    result = cuebook("check", conversations, "--strict")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.strip() == "2 scripts: 0 errors, 0 warnings, 0 notes"


def test_warnings_count_only_strictly(cuebook: RunCommand, write: WriteFile) -> None:
    path = write("older.yaml", OLDER)
    lenient = cuebook("check", path)
    assert lenient.exit_code == 0
    assert "warning DEPRECATED_KEY" in lenient.stdout
    strict = cuebook("check", path, "--strict")
    assert strict.exit_code == 1
    assert "error DEPRECATED_KEY" in strict.stdout


def test_a_folder_is_searched_for_scripts(cuebook: RunCommand, write: WriteFile) -> None:
    write("all/deep/b.yaml", BROKEN)
    write("all/older.yml", OLDER)
    write("all/globals.yaml", "globals:\n  - {var: x, value: 1}\n")
    write("all/.hidden/b.yaml", BROKEN)
    write("all/notes.txt", "no script")
    result = cuebook("check", "all", "--format", "json")
    assert result.exit_code == 1
    files = [Path(file).name for file in json.loads(result.stdout)["files"]]
    assert sorted(files) == ["b.yaml", "older.yml"]


def test_a_file_that_was_named_is_looked_at_whatever_it_is(cuebook: RunCommand, write: WriteFile) -> None:
    result = cuebook("check", write("notes.yaml", "just: notes\n"))
    assert result.exit_code == 1
    assert "UNRECOGNISED_SCRIPT" in result.stdout
    (write("latin.yaml", "")).write_bytes(b"cuebook: 1\nscript: \xff\n")
    result = cuebook("check", "latin.yaml")
    assert result.exit_code == 1
    assert "FILE_UNREADABLE line 2 is not UTF-8 text" in result.stdout


@pytest.mark.parametrize("arguments", [[], ["missing.yaml"], ["."], [".", "--format", "xml"]])
def test_wrong_use_exits_2(cuebook: RunCommand, arguments: list[str]) -> None:
    result = cuebook("check", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


def test_markup_in_a_script_is_shown_as_it_is(cuebook: RunCommand, write: WriteFile) -> None:
    path = write("b.yaml", BROKEN.replace("aks: Name?", "'[bold]aks[/]': Name?"))
    assert "[bold]aks[/]" in cuebook("check", path).stdout


def test_explain_one_code(cuebook: RunCommand) -> None:
    result = cuebook("explain", "goto_unknown")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "GOTO_UNKNOWN (error)"
    assert CODES["GOTO_UNKNOWN"].fix in result.stdout
    described = json.loads(cuebook("explain", "GOTO_UNKNOWN", "--json").stdout)
    assert described == {
        "code": "GOTO_UNKNOWN",
        "severity": "error",
        "meaning": CODES["GOTO_UNKNOWN"].meaning,
        "cause": explanation("GOTO_UNKNOWN").cause,
        "fix": CODES["GOTO_UNKNOWN"].fix,
        "broken": explanation("GOTO_UNKNOWN").broken,
        "fixed": explanation("GOTO_UNKNOWN").fixed,
    }


@pytest.mark.parametrize("code", CODES)
def test_an_explanation_shows_cause_cure_and_both_examples(cuebook: RunCommand, code: str) -> None:
    shown, explained = cuebook("explain", code).stdout, explanation(code)
    parts = [CODES[code].meaning, explained.cause, CODES[code].fix, "Before", "After"]
    assert all(part in shown for part in parts)
    assert all(line in shown for line in (*explained.broken.splitlines(), *explained.fixed.splitlines()))


def test_all_codes_are_listed_by_what_they_are_about(cuebook: RunCommand) -> None:
    lines = cuebook("explain").stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == list(code_groups())
    assert [line.split()[1] for line in lines if line.startswith(" ")] == list(CODES)


def test_the_caret_stands_under_what_is_wrong(cuebook: RunCommand, write: WriteFile) -> None:
    head = "script: b\nphases:\n  - phase: p\n    topics:\n      - topic: t\n        actions:\n"
    path = write("b.yaml", head + "          - {say: 你好, id: a/b}\n")
    lines = cuebook("check", path).stdout.splitlines()
    assert lines[1] == "              - {say: 你好, id: a/b}"
    assert lines[2] == " " * 32 + "^"  # each of the two characters takes two places


def test_a_line_of_a_side_file_is_shown(cuebook: RunCommand, write: WriteFile) -> None:
    write("side.yaml", "globals:\n  - {vra: x}\n")
    head = "script: b\nuse: [side.yaml]\nphases:\n  - phase: p\n    topics:\n      - topic: t\n"
    path = write("b.yaml", head + "        actions: [{say: Hello., id: a}]\n")
    assert "      - {vra: x}\n         ^" in cuebook("check", path).stdout


def test_explain_all_codes(cuebook: RunCommand) -> None:
    every = json.loads(cuebook("explain", "--json").stdout)
    assert [each["code"] for each in every] == list(CODES)
    assert all(each["meaning"] and each["fix"] for each in every)


def test_explain_a_code_that_is_none(cuebook: RunCommand) -> None:
    result = cuebook("explain", "GOTO_UNKNOWEN")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "GOTO_UNKNOWN" in result.stderr


SIDED = (
    "script: s\nuse: [below/globals.yaml]\nphases: [{phase: p, topics: [{topic: t, actions: [{say: Hi., id: hi}]}]}]\n"
)
CASE = "script: s.yaml\ncases: [{name: a, turns: [{expect: [Hi.], at: p/t/hy}], end: {variables: {whom: null}}}]\n"


def test_a_case_file_is_checked_as_one(cuebook: RunCommand, write: WriteFile) -> None:
    write("s.yaml", SIDED)
    write("below/globals.yaml", "globals: [{var: who}]\n")
    write("s.case.yaml", CASE)
    for path in ("s.case.yaml", "."):
        result = cuebook("check", path)
        assert result.exit_code == 1
        lines = result.stdout.splitlines()
        assert "s.case.yaml:2:47 error ENUM_VALUE_INVALID the script has no place p/t/hy" in lines
        assert "    Did you mean `p/t/hi`?" in lines
        assert "s.case.yaml:2:75 warning VARIABLE_NEVER_SET nothing sets `whom`" in lines
        assert "    Did you mean `who`?" in lines
    assert "1 script and 1 case file: 1 error, 1 warning, 0 notes" in result.stderr
    write("s.case.yaml", CASE.replace("p/t/hy", "the end").replace("whom", "who"))
    result = cuebook("check", "s.case.yaml", "--strict")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 case file: 0 errors, 0 warnings, 0 notes\n")


def test_a_side_file_is_checked_with_the_scripts_that_use_it(cuebook: RunCommand, write: WriteFile) -> None:
    write("s.yaml", SIDED)
    write("below/globals.yaml", "globals: [{var: who}]\n")
    result = cuebook("check", "below/globals.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "below/globals.yaml is an include file; checking s.yaml" in result.stderr
    write("alone/skills.yaml", "skills: []\n")
    result = cuebook("check", "alone/skills.yaml", "s.yaml")
    assert result.exit_code == 0
    assert "no script in its folder lists it in `use`" in result.stderr
    assert "1 script and 1 include file: 0 errors" in result.stderr
    write("other.yaml", "key: value\n")
    result = cuebook("check", "other.yaml")
    assert (result.exit_code, "UNRECOGNISED_SCRIPT" in result.stdout) == (1, True)

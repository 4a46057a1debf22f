"""Random walks: what they find, and the small case that shows it again when it is saved and run."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from api.cli import testing
from api.testing.cases import random_walk as walking
from runtime.actions.dispatch import AT_ONCE
from scripts.model.actions import Say
from tests.support.fixture_types import RunCommand, WriteFile
from tests.support.paths import LIBRARY

DEFECT = """\
script: defect
declare: [{var: age, type: number}, {var: left, type: number}]
phases:
  - phase: only
    topics:
      - topic: talk
        actions:
          - {ask: "Your name?", id: ask_name, output: [{get: name}]}
          - {ask: "How are you?", id: ask_mood, output: [{get: mood}]}
          - {ask: "How old are you?", id: ask_age, output: [{get: age, type: number, min: 0, max: 120}]}
          - if: age == 66
            id: retired
            then:
              - {ask: "Since when?", id: since, output: [{get: when}]}
              - {set: {left: 100 / (age - 66)}, id: divide}
          - {say: Goodbye., id: bye}
"""
NO_ANSWER = """\
cuebook: 1
script: no_answer
declare: [{var: moods, type: list, value: []}]
actions:
  - repeat: {until: moods, max: 2}
    do:
      - {ask: "How are you?", id: ask_mood, into: {var: mood, type: number}, expire: {after: 1 day, then: skip}}
      - {add: {moods: =mood}, when: mood is defined}
  - {set: {average: =(moods | sum) / (moods | length)}, id: divide}
"""
TRAP = """\
script: trap
phases:
  - phase: only
    topics:
      - topic: hello
        actions:
          - {ask: "Your name?", id: ask_name, output: [{get: name}]}
      - topic: code
        actions:
          - {ask: "The code?", id: ask_code, output: [{get: code, pattern: "Q-[0-9]{9}"}], on_fail: goto code}
"""


@pytest.fixture
def walk(cuebook: RunCommand, write: WriteFile) -> Callable[..., Any]:
    """Walk through a script; the document of what came of it."""

    def run(text: str, *arguments: object, exit_code: int = 1) -> Any:
        write("walked.yaml", text)
        result = cuebook("test", "walked.yaml", "--walk", *arguments, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)["walks"][0]

    return run


def inputs(case: str) -> list[str]:
    return re.findall(r"^      - (?:say|choose): (.*)", case, re.MULTILINE)


def test_questions_expire_in_walks_and_in_the_case_of_a_finding(
    walk: Any, cuebook: RunCommand, write: WriteFile
) -> None:
    (finding,) = walk(NO_ANSWER, 300)["findings"]
    assert finding["place"] == "main/main/divide"
    assert finding["case"].count("- pass: 1 day") == 2
    write("found.case.yaml", finding["case"])
    assert "division by zero" in cuebook("test", "found.case.yaml").stdout


def test_defect_gives_a_minimal_case_that_fails_until_fixed(walk: Any, cuebook: RunCommand, write: WriteFile) -> None:
    walks = walk(DEFECT, 300)
    (finding,) = walks["findings"]
    assert (finding["kind"], finding["place"], finding["line"]) == ("failed", "only/talk/divide", 15)
    assert "divi" in finding["message"]
    assert finding["times"] >= 1
    given = inputs(finding["case"])
    assert len(given) == 4  # name, mood, age and since: no reply can be left out
    assert given[2] == '"66"'
    assert all(len(each) <= 5 for each in given)

    write("defect.case.yaml", finding["case"])
    failed = cuebook("test", "defect.case.yaml")
    assert failed.exit_code == 1
    assert "only/talk/divide" in failed.stdout
    write("walked.yaml", DEFECT.replace("(age - 66)", "age"))
    assert cuebook("test", "defect.case.yaml").exit_code == 0


@pytest.mark.gate
def test_a_place_nobody_gets_away_from_is_found(walk: Any, cuebook: RunCommand, write: WriteFile) -> None:
    walks = walk(TRAP, 5)
    (finding,) = walks["findings"]
    assert (finding["kind"], finding["place"], finding["times"]) == ("stuck", "only/code/ask_code", 5)
    assert walks["completed"] == 0
    assert len(inputs(finding["case"])) == 11  # the name, and ten codes in vain
    write("trap.case.yaml", finding["case"])
    failed = cuebook("test", "trap.case.yaml")
    assert failed.exit_code == 1
    assert 'expected "completed"\n    got      "waiting_input"' in failed.stdout


def test_failing_expression_is_found_without_ending_the_walk(walk: Any, cuebook: RunCommand, write: WriteFile) -> None:
    script = DEFECT.replace("{left: 100 / (age - 66)}, id: divide", "{left: mood + 1}, id: add")
    script = script.replace("{get: mood}", "{get: mood, type: text}")
    walks = walk(script, 100)
    (finding,) = walks["findings"]
    assert (finding["kind"], finding["place"], finding["line"]) == ("warned", "only/talk/add", 15)
    assert walks["completed"] == 100
    assert len(inputs(finding["case"])) == 4

    write("sum.case.yaml", finding["case"])
    assert "expression_failed" in cuebook("test", "sum.case.yaml").stdout
    write("walked.yaml", script.replace("mood + 1", "age + 1"))
    assert cuebook("test", "sum.case.yaml").exit_code == 0


def test_a_defect_of_the_machine_itself_is_found_too(
    walk: Any, cuebook: RunCommand, write: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a wire came loose")

    monkeypatch.setitem(AT_ONCE, Say, fails)
    finding = walk(DEFECT.replace("age == 66", "false"), 5)["findings"][0]
    assert (finding["kind"], finding["place"]) == ("broken", "only/talk/ask_age")
    write("broken.case.yaml", finding["case"])
    assert "RuntimeError: a wire came loose" in cuebook("test", "broken.case.yaml").stdout


@pytest.mark.gate
def test_the_same_seed_walks_the_same_ways(walk: Any) -> None:
    assert walk(DEFECT, 100, "--seed", 4) == walk(DEFECT, 100, "--seed", 4)
    assert walk(TRAP, 3, "--seed", 4)["findings"] != walk(TRAP, 3, "--seed", 5)["findings"]


def test_a_visitor_who_comes_again_is_walked_too(walk: Any, write: WriteFile) -> None:
    write("globals.yaml", "globals: [{var: visits, type: number, value: 0}]\n")
    actions = "{set: {visits: visits + 1}, id: count}, {ask: 'Hm?', id: hm}, {set: {x: 1 / (visits - 2)}, id: divide}"
    head = "script: again\nuse: [globals.yaml]\nphases: [{phase: p, topics: [{topic: t, actions: ["
    (finding,) = walk(f"{head}{actions}]}}]}}]\n", 50)["findings"]
    assert (finding["place"], finding["message"].split(":")[-1].strip() != "") == ("p/t/divide", True)
    assert '    variables: {"visits":1}' in finding["case"].splitlines()
    assert len(inputs(finding["case"])) == 1


@pytest.mark.gate
@pytest.mark.parametrize("script", ["intake", "sign_up", "sleep_followup_zh", "winding_down"])
def test_the_examples_stand_random_visitors(cuebook: RunCommand, script: str) -> None:
    result = cuebook("test", LIBRARY / f"{script}.yaml", "--walk", 30, "--json")
    assert result.exit_code == 0, result.stdout
    walks = json.loads(result.stdout)["walks"][0]
    assert (walks["walks"], walks["findings"]) == (30, [])


def test_walks_count_for_coverage_and_use_the_scripts_of_cases(cuebook: RunCommand, write: WriteFile) -> None:
    write("defect.yaml", DEFECT.replace("(age - 66)", "age"))
    write("one.case.yaml", "script: defect.yaml\ncases: [{name: a, turns: [{}], end: {status: null}}]\n")
    result = cuebook("test", "one.case.yaml", "--walk", 300, "--coverage", "json", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["passed"]) == (0, 1)
    assert document["coverage"][0]["branches"]["percent"] == 100


def test_the_time_is_bounded(cuebook: RunCommand, write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "WALK_S_MAX", 0.0)
    write("trap.yaml", TRAP)
    result = cuebook("test", "trap.yaml", "--walk", 10)
    assert "trap.yaml: 0 walks of 10 (time limit reached)" in result.stdout


def test_a_conversation_without_end_is_unfinished_where_it_moves(walk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "TURNS_MAX", 12)
    walks = walk(TRAP, 2, exit_code=0)
    assert (walks["unfinished"], walks["findings"]) == (2, [])
    assert walks["turns"] == 26


@pytest.mark.gate
def test_as_text(cuebook: RunCommand, write: WriteFile) -> None:
    write("trap.yaml", TRAP)
    lines = cuebook("test", "trap.yaml", "--walk", "2").stdout.splitlines()
    assert re.fullmatch(r"trap\.yaml: 2 walks, \d+ turns, 0 completed, 0 unfinished, 1 finding", lines[0])
    assert lines[1].startswith("  stuck at trap.yaml:10 only/code/ask_code: ")
    assert "save this as" in lines[2]
    assert lines[3] == '    script: "trap.yaml"'


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["."],
        ["none.yaml"],
        ["trap.yaml"],
        ["trap.yaml", "--walk", "0"],
        ["--coverage", "pdf"],
        ["empty", "--walk", "1"],
    ],
)
def test_wrong_use_exits_2(cuebook: RunCommand, write: WriteFile, arguments: list[str]) -> None:
    write("trap.yaml", TRAP)
    write("empty/notes.txt", "")
    result = cuebook("test", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr

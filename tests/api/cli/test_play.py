"""``cuebook play``: a script in the terminal, or by itself from a file of replies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixture_types import RunCommand, WriteFile

FIRST = {"content": "What may I call you?", "role": "assistant", "actionId": "ask_name"}
REPLIES = 'Ana\n300\n30\n{"choice": "B"}\n\nyes\n'


@pytest.fixture
def replies(tmp_path: Path) -> Path:
    path = tmp_path / "replies.txt"
    path.write_text(REPLIES)
    return path


def played(cuebook: Callable[..., Any], *arguments: object, **more: Any) -> Any:
    result = cuebook("play", *arguments, "--json", **more)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_script_runs_by_itself(cuebook: RunCommand, conversations: Path, replies: Path) -> None:
    result = cuebook("play", conversations / "visit.yaml", "--inputs", replies)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Welcome.",
        "This takes a minute.",
        "What may I call you?",
        "> Ana",
        "How old are you, Ana?",
        "> 300",
        "A number from 1 to 120, please.",
        "> 30",
        "How are you?",
        "  A) well",
        "  B) so so",
        '> {"choice": "B"}',
        "Noted as B, Ana.",
        "  [Go on, please.]",
        "> ",
        "That was visit 1. Ready?",
        "  [OK]",
        "> yes",
        "Goodbye.",
    ]
    assert "completed" in result.stderr


def test_the_report_tells_everything(cuebook: RunCommand, conversations: Path, replies: Path) -> None:
    report = played(cuebook, conversations / "visit.yaml", "--inputs", replies)
    assert set(report) == {
        "status",
        "executionStatus",
        "turns",
        "variables",
        "variableStore",
        "waits",
        "actions",
        "warnings",
    }
    assert (report["status"], report["executionStatus"], report["waits"]) == ("completed", "completed", 6)
    assert report["actions"] == {"executed": 10, "skipped": 0}
    assert report["variables"] == {"visits": 1, "age": 30}
    assert set(report["variableStore"]) == {"global", "session", "phase", "topic"}
    assert [turn["input"] for turn in report["turns"]] == [None, "Ana", "300", "30", {"choice": "B"}, "", "yes"]
    assert all(set(turn) == {"input", "messages", "wait", "position"} for turn in report["turns"])
    assert report["turns"][0]["messages"][-1] == FIRST
    assert report["turns"][0]["wait"] == {"kind": "text"}
    assert report["turns"][3]["wait"]["choices"][0] == {"key": "A", "text": "well"}
    assert report["turns"][4]["wait"] == {"kind": "suggestion", "suggestion": "Go on, please."}
    assert report["turns"][-1]["wait"] is None
    assert report["turns"][0]["position"]["actionId"] == "ask_name"


def test_replies_from_standard_input(cuebook: RunCommand, conversations: Path) -> None:
    report = played(cuebook, conversations / "diary.yaml", "--inputs", "-", input="a\r\nb\n\nstop")
    assert [turn["input"] for turn in report["turns"]] == [None, "a", "b", "", "stop"]
    assert [message["content"] for turn in report["turns"][1:] for message in turn["messages"]] == [
        "Entry 1: a",
        "What comes after 1?",
        "Entry 2: b",
        "What comes after 2?",
        "What comes after 2?",
        "Entry 3: stop",
        "Closed after 3.",
    ]


def test_a_person_in_the_terminal(cuebook: RunCommand, conversations: Path) -> None:
    result = cuebook("play", conversations / "diary.yaml", input="a\nstop\n")
    assert result.exit_code == 0
    assert "Entry 1: a" in result.stdout
    assert "Closed after 2." in result.stdout


def test_replies_that_run_out_leave_it_waiting(cuebook: RunCommand, conversations: Path) -> None:
    result = cuebook("play", conversations / "diary.yaml", "--inputs", "-", "--json", input="a\n")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["executionStatus"] == "waiting_input"
    assert "still waits for text" in result.stderr


def test_initial_variables(cuebook: RunCommand, conversations: Path) -> None:
    given = ["--var", "channel=web", "--var", "age=41", "--var", 'diary=["a"]', "--var", "note=a=b"]
    report = played(cuebook, conversations / "visit.yaml", "--inputs", "-", *given, input="")
    assert report["variables"] == {"visits": 0, "channel": "web", "age": 41, "diary": ["a"], "note": "a=b"}
    for wrong in ("age", "=3"):
        result = cuebook("play", conversations / "visit.yaml", "--var", wrong)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "NAME=VALUE" in result.stderr


def test_the_seed_decides(cuebook: RunCommand, write: WriteFile) -> None:
    path = write("dice.yaml", f"script: d\nphases: [{{phase: p, topics: [{{topic: t, actions: [{DICE}]}}]}}]\n")
    drawn = {seed: played(cuebook, path, "--inputs", "-", "--seed", seed, input="")["turns"] for seed in range(6)}
    assert drawn[3] == played(cuebook, path, "--inputs", "-", "--seed", 3, input="")["turns"]
    assert len({json.dumps(turns) for turns in drawn.values()}) > 1


DICE = "{say: [one, two, three, four], id: a}, {say: [one, two, three, four], id: b}"


def test_a_script_that_fails_while_it_runs_exits_1(cuebook: RunCommand, write: WriteFile) -> None:
    actions = "{say: Hello., id: hi}, {ask: How many?, id: ask}, {set: {n: '1 / 0'}, id: divide}"
    path = write("fails.yaml", f"script: f\nphases: [{{phase: p, topics: [{{topic: t, actions: [{actions}]}}]}}]\n")
    result = cuebook("play", path, "--inputs", "-", "--json", input="one\n")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["executionStatus"] == "error"
    assert report["error"]["position"]["actionId"] == "divide"
    assert len(report["turns"]) == 1
    assert "p/t/divide" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_broken_script_exits_2_with_the_place(cuebook: RunCommand, write: WriteFile) -> None:
    path = write("broken.yaml", "script: b\nphases:\n  - phase: p\n    topics:\n      - topic: t\n        actons: []\n")
    result = cuebook("play", path, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path}:6:9" in result.stderr.replace("\n", "")
    assert "actions" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.yaml"],
        [],
        ["{script}", "--inputs", "missing.txt"],
        ["{script}", "--model", "none-such"],
        ["{script}", "--seed", "-1"],
        ["{script}", "--locale", "german"],
    ],
)
def test_wrong_use_exits_2(cuebook: RunCommand, conversations: Path, arguments: list[str]) -> None:
    given = [each.format(script=conversations / "diary.yaml") for each in arguments]
    result = cuebook("play", *given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr
    assert "Traceback" not in result.stderr


def test_a_choice_that_is_not_offered_exits_2(cuebook: RunCommand, conversations: Path) -> None:
    result = cuebook("play", conversations / "diary.yaml", "--inputs", "-", input='{"choice": "A"}\n')
    assert result.exit_code == 2
    assert "waits for text" in result.stderr


def test_a_scripted_model_speaks(cuebook: RunCommand, write: WriteFile) -> None:
    actions = "{ai_ask: Find out the name., id: who, output: [{get: name}]}, {say: 'Hi {{ name }}', id: hi}"
    path = write("led.yaml", f"script: led\nphases: [{{phase: p, topics: [{{topic: t, actions: [{actions}]}}]}}]\n")
    model = write("replies.yaml", "replies:\n  who:\n    - And you are?\n    - {exit: true, values: {name: Ana}}\n")
    result = cuebook("play", path, "--inputs", "-", "--model", f"scripted:{model}", input="me\n")
    assert result.stdout.splitlines() == ["And you are?", "> me", "Hi Ana"]


@pytest.mark.parametrize("reply", ["B", "2", "so so"])
def test_a_choice_is_taken_by_key_number_or_text(cuebook: RunCommand, conversations: Path, reply: str) -> None:
    report = played(cuebook, conversations / "visit.yaml", "--inputs", "-", input=f"Ana\n30\n{reply}\n")
    assert report["turns"][3]["messages"][0]["content"] == "Noted as B, Ana."


def test_what_is_piped_in_is_all_said_to_the_script(cuebook: RunCommand, conversations: Path) -> None:
    result = cuebook("play", conversations / "diary.yaml", input="/vars\nstop\n")
    assert "Entry 1: /vars" in result.stdout


def test_unsuitable_variable_is_refused_before_any_message(cuebook: RunCommand, write: WriteFile) -> None:
    declared = "{var: cups, type: number}, {var: size, choices: [S, L]}"
    path = write(
        "d.yaml",
        f"script: d\ndeclare: [{declared}]\nphases: [{{phase: p, topics: [{{topic: t, actions: [{DICE}]}}]}}]\n",
    )
    for given, words in (("cups=many", "--var cups: "), ("size=M", "--var size: ")):
        result = cuebook("play", path, "--inputs", "-", "--var", given, input="")
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
    result = cuebook("play", path, "--inputs", "-", "--var", "cusp=3", input="")
    assert result.exit_code == 0
    assert "the script has no variable cusp. Did you mean cups?" in result.stderr


def test_colons_around_a_word_stay_as_they_are(cuebook: RunCommand, write: WriteFile) -> None:
    write("score.yaml", 'cuebook: 1\nscript: score\nactions:\n  - say: "Press :x: for a score of 1:100:2."\n')
    assert cuebook("play", "score.yaml").stdout == "Press :x: for a score of 1:100:2.\n"

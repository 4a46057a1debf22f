"""Real scripts of the session form, where a folder of them is at hand (SCRIPT_CORPUS): they load, and run to the
waits, actions and completion that the folder's README states, on the command line and over HTTP.
"""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from api.cli.main import main
from runtime.models.cassette_file import ScriptedReply
from runtime.models.recorded_models import ScriptedModel
from scripts.model.actions import AiAsk, AiThink, walk
from scripts.model.variables import Output
from scripts.parse.folder import read_path
from scripts.parse.read_script import Reading
from tests.support.fixture_types import OpenApp

FOLDER = Path(os.environ.get("SCRIPT_CORPUS", "no-corpus")) / "session-form"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="SCRIPT_CORPUS names no folder of scripts"),
]


class Expected(NamedTuple):
    """What a correct run of a file comes to."""

    phases: int
    topics: int
    actions: int
    waits: list[str]  # the action of each wait, in order
    messages: list[int]  # how many each turn says, the first at creation
    variables: int  # offline
    cross_topic_reads: int


CBT = "cbt_depression_assessment.yaml"
DEPRECATED = "test_deprecated_fields.yaml"
MULTI_OUTPUT = "test_multi_output.yaml"
STORY = "story-2.1-verification-test.yaml"
RUNS = {
    CBT: Expected(
        3,
        5,
        9,
        ["ask_name", "ask_age", "ask_main_issue", "ask_mood", "ask_interest", "share_summary"],
        [2, 1, 1, 1, 1, 1, 1],
        5,
        2,
    ),
    MULTI_OUTPUT: Expected(1, 1, 4, ["ask_name", "ask_symptoms", "ask_background", "summary"], [1, 1, 1, 1, 0], 9, 0),
    STORY: Expected(
        1,
        2,
        6,
        [
            "welcome_message",
            "ask_user_name",
            "verify_extraction",
            "confirm_visibility",
            "compatibility_test",
            "completion_message",
        ],
        [1, 1, 1, 1, 1, 1, 0],
        2,
        1,
    ),
    DEPRECATED: Expected(1, 1, 3, ["action_1", "action_2", "action_3"], [1, 1, 1, 0], 1, 0),
    "new_session_template.yaml": Expected(1, 1, 2, ["action_1", "action_2"], [1, 2, 0], 1, 0),
}


def read(name: str) -> Reading:
    reading = read_path(FOLDER / name)
    assert reading.script is not None, reading.errors
    return reading


def outputs(name: str) -> dict[str, list[str]]:
    """Return what each action of a script asks for."""
    script = read(name).script
    assert script is not None
    topics = [topic for phase in script.phases for topic in phase.topics]
    asking = [action for topic in topics for action in walk(topic.actions) if isinstance(action, AiAsk | AiThink)]
    return {action.id: [each.get for each in action.outputs if isinstance(each, Output)] for action in asking}


def replies(name: str) -> list[str]:
    """Return a reply to each wait; one that answers several questions names each."""
    wanted = outputs(name)
    return ["，".join(f"{each}：v{n}" for n, each in enumerate(wanted.get(at, []))) for at in RUNS[name].waits]


def test_the_table_knows_every_file() -> None:
    assert {path.name for path in FOLDER.glob("*.yaml")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_it_loads_in_compat_mode(name: str) -> None:
    reading, expected = read(name), RUNS[name]
    assert reading.script is not None
    topics = [topic for phase in reading.script.phases for topic in phase.topics]
    actions = [action for topic in topics for action in walk(topic.actions)]
    assert (len(reading.script.phases), len(topics), len(actions)) == expected[:3]
    reported = Counter(problem.code for problem in reading.problems)
    assert reported["CROSS_TOPIC_READ"] == expected.cross_topic_reads
    known = {"CROSS_TOPIC_READ", "DEPRECATED_KEY", "KEY_CONFLICT", "KEY_IGNORED", "VARIABLE_MAYBE_UNSET"}
    assert set(reported) <= (
        {*known, "PLACEHOLDER_INVALID"} if name == STORY else known
    )  # its strategy names a variable


def played(name: str, *more: str) -> Any:
    arguments = ["play", str(FOLDER / name), "--inputs", "-", "--json", *more]
    result = CliRunner().invoke(main, arguments, input="".join(f"{reply}\n" for reply in replies(name)))
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", RUNS)
def test_it_plays_on_the_command_line(name: str) -> None:
    report, expected = played(name), RUNS[name]
    assert (report["status"], report["executionStatus"]) == ("completed", "completed")
    assert report["waits"] == len(expected.waits)
    assert report["actions"] == {"executed": expected.actions, "skipped": 0}
    assert [turn["position"]["actionId"] for turn in report["turns"]] == [*expected.waits, ""]
    assert [len(turn["messages"]) for turn in report["turns"]] == expected.messages
    assert len(report["variables"]) == expected.variables


@pytest.mark.parametrize("name", RUNS)
async def test_it_runs_over_http_as_it_plays(app: OpenApp, tmp_path: Path, name: str) -> None:
    report = await asyncio.to_thread(played, name)
    async with app(tmp_path) as api:
        script = await api.publish_script((FOLDER / name).read_text("utf-8"), strict=False)
        turns = [await api.create_session(script["scriptId"])]
        turns += [await api.send_texts(turns[0], reply) for reply in replies(name)]
        said = await api.transcript(turns[0])
        variables = await api.read(f"/api/sessions/{turns[0]['sessionId']}/variables")
    assert [turn["position"] for turn in turns] == [turn["position"] for turn in report["turns"]]
    assert [turn["wait"] for turn in turns] == [turn["wait"] for turn in report["turns"]]
    expected = [[message["content"] for message in turn["messages"]] for turn in report["turns"]]
    assert [[message["content"] for message in turn["messages"]] for turn in turns] == expected
    assert [content for role, content in said if role == "assistant"] == [text for turn in expected for text in turn]
    assert turns[-1]["sessionStatus"] == "completed"
    assert variables == report["variables"]


def test_names_of_another_topic_are_filled() -> None:
    asked = played(CBT)["turns"][2]["messages"][0]
    assert asked["actionId"] == "ask_main_issue"
    assert asked["content"].startswith("v0")
    last = played(STORY)["turns"][-2]["messages"][0]
    assert last["actionId"] == "completion_message"
    assert "v0" in last["content"]


def test_the_summary_has_its_six_values() -> None:
    (summary,) = played(MULTI_OUTPUT)["turns"][-2]["messages"]
    lines = summary["content"].splitlines()
    assert sum(any(f"v{n}" in line for n in range(5)) for line in lines) == 6
    assert "{" not in summary["content"]


def test_older_keys_are_located() -> None:
    problems = read(DEPRECATED).problems
    lines = (FOLDER / DEPRECATED).read_text("utf-8").splitlines()
    older = [problem for problem in problems if problem.code == "DEPRECATED_KEY"]
    named = [lines[problem.line - 1][problem.column - 1 :].split(":")[0] for problem in older]
    keys = ["content_template", "question_template", "target_variable", "extraction_prompt", "required"]
    assert Counter(named) == Counter([*keys, "content_template"])
    assert all(problem.severity == "warning" and problem.fix for problem in older)
    (conflict,) = [problem for problem in problems if problem.code == "KEY_CONFLICT"]
    assert "question_template" in conflict.message


async def test_the_eight_variables_of_a_session_with_a_model(app: OpenApp, tmp_path: Path) -> None:
    wanted = outputs(CBT)
    answers: dict[str, list[str | ScriptedReply]] = {
        "welcome_greeting": ["Welcome."],
        "share_summary": ["In short.", "Until next time."],
    }
    for action, names in wanted.items():
        values = {name: f"{name} by the model" for name in names}
        given = ScriptedReply(exit=True, values=values)
        answers[action] = [f"About {action}?", given] if action in RUNS[CBT].waits else [given]
    async with app(tmp_path, ScriptedModel(answers)) as api:
        script = await api.publish_script((FOLDER / CBT).read_text("utf-8"), strict=False)
        turns = [await api.create_session(script["scriptId"])]
        turns += [await api.send_texts(turns[0], "a reply") for _ in RUNS[CBT].waits]
        variables = await api.read(f"/api/sessions/{turns[0]['sessionId']}/variables")
    assert [len(turn["messages"]) for turn in turns] == RUNS[CBT].messages
    assert turns[-1]["sessionStatus"] == "completed"
    assert variables == {name: f"{name} by the model" for names in wanted.values() for name in names}
    assert len(variables) == 8

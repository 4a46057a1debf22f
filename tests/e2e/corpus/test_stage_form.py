"""Real include files of the stage form, where a folder of them is at hand (SCRIPT_CORPUS), used by a script of ours."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from api.cli.main import main
from runtime.state.inputs import Reply
from runtime.state.program import Program
from runtime.state.state import State
from scripts.parse.conversion import convert
from scripts.parse.read_script import Source, read_script

FOLDER = Path(os.environ.get("SCRIPT_CORPUS", "no-corpus")) / "stage-form"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="SCRIPT_CORPUS names no folder of scripts"),
]

SCRIPT = """
sessions:
- session: visit
  declare: [{{var: people, value: []}}]
  stages:
  - stage: hello
    steps:
    - scene: hall
      ai: {ai}
      human: {human}
    - goal: meeting
      actions:
      - call: {greet}
        {helper}: Robin
      - say: "Nice to meet you, {{{greeted}}}."
      - ai_ask: Who is close to you?
        tolist: people
        output: [{kind}, {called}]
      - call: {ask}
        foreach: people
      - foreach: people as one
        do:
        - say: "{{one.{called}}}: {{one.{situation}}}"
"""


@pytest.fixture
def sides() -> dict[str, str]:
    return {name: (FOLDER / name).read_text("utf-8") for name in ("global.yaml", "roles.yaml", "skills.yaml")}


def test_all_of_it_is_read(sides) -> None:
    native = "script: s\nuse: [global.yaml, roles.yaml, skills.yaml]\n"
    for text in (
        native + "phases: [{phase: p, topics: [{topic: t, actions: []}]}]\n",
        "sessions: [{session: s, stages: []}]\n",
    ):
        script = read_script(Source(text, "s.yaml", sides)).script
        assert script is not None
        assert (len(script.globals), sum(each.value is not None for each in script.globals)) == (11, 6)
        assert [role.type for role in script.roles] == ["AI", "AI", "HUMAN"]
        assert all(role.attributes for role in script.roles)
        assert [len(skill.params) for skill in script.skills] == [1, 3]
        assert [len(skill.returns) for skill in script.skills] == [1, 1]


async def test_skills_are_called_with_parameters_and_for_each_record(player_of, sides) -> None:
    bare = read_script(Source("sessions: [{session: s, stages: []}]\n", "s.yaml", sides)).script
    assert bare is not None
    (greet, ask), (ai, _, human) = bare.skills, bare.roles
    kind, called, situation = (each.var for each in ask.params)
    names = {"greet": greet.id, "helper": greet.params[0].var, "greeted": greet.returns[0], "ask": ask.id}
    names |= {"kind": kind, "called": called, "situation": situation, "ai": ai.id, "human": human.id}
    source = Source(SCRIPT.format(**names), "s.yaml", sides)
    reading = read_script(source)
    assert reading.script is not None, reading.errors
    native = read_script(Source(convert(reading.script, reading).text, "s.yaml", sides))
    assert native.script is not None, native.errors
    transcripts = []
    for script in (reading.script, native.script):
        player = player_of(Program(script), State(0, "zh"))
        said = [message.content for message in (await player.begin()).messages]
        for reply in ["Ana", f"{kind}: sister, {called}: Bea", "we talk every day"]:
            said += [message.content for message in (await player.take(Reply(reply), reply)).messages]
        assert player.state.status == "completed"
        transcripts.append(said)
    assert transcripts[0] == transcripts[1]
    assert "Robin" in transcripts[0][0]
    assert "Nice to meet you, Ana." in transcripts[0]
    assert transcripts[0][-1] == "Bea: we talk every day"


@pytest.mark.parametrize(("name", "brings"), [("global", "11 globals"), ("roles", "3 roles"), ("skills", "2 skills")])
def test_each_side_file_is_checked_by_itself(name, brings) -> None:
    result = CliRunner().invoke(main, ["check", str(FOLDER / f"{name}.yaml")])
    assert result.exit_code == 0, result.output
    assert f"it defines {brings}" in result.stderr

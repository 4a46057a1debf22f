"""Real skills of the technique form, where a folder of them is at hand (SCRIPT_CORPUS)."""

import os
from pathlib import Path

import pytest

from runtime.engine.engine import TurnFailed
from runtime.state.inputs import Reply, Start
from runtime.state.program import Program
from runtime.state.state import State
from scripts.parse.folder import read_path
from scripts.parse.read_script import Source, read_script

FOLDER = Path(os.environ.get("SCRIPT_CORPUS", "no-corpus")) / "technique-form"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="SCRIPT_CORPUS names no folder of scripts"),
]

FILE = "socratic_questioning.yaml"
RETURNS = ["alternative_thoughts", "evidence_for", "evidence_against", "reframed_belief"]
CALLER = f"""
script: caller
use: [{FILE}]
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - call: socratic_questioning
      id: reframe
      input: {{target_belief: "'I always fail'"}}
      output: {{{", ".join(f"my_{name}: {name}" for name in RETURNS)}}}
    - {{say: "For: {{{{ my_evidence_for }}}}. Against: {{{{ my_evidence_against }}}}.", id: told}}
"""


async def test_a_technique_is_called_and_returns_its_values(player_of) -> None:
    reading = read_script(Source(CALLER, "", {FILE: (FOLDER / FILE).read_text("utf-8")}))
    assert reading.script is not None, reading.errors
    player = player_of(Program(reading.script), State(0, "zh"))
    await player.begin()
    waits = 1
    for reply in ["ok", "two exams", "many others passed", "I can learn", "ok"]:
        turn = await player.take(Reply(reply), reply)
        waits += turn.state.wait is not None
    assert (player.state.status, waits) == ("completed", 5)
    assert [message.content for message in turn.messages][-1] == "For: two exams. Against: many others passed."


async def test_a_missing_parameter_is_an_error_before_it_starts(player_of) -> None:
    script = read_path(FOLDER / FILE).script
    assert script is not None
    assert [len(skill.actions) for skill in script.skills] == [6]
    assert [list(skill.returns) for skill in script.skills] == [RETURNS]
    with pytest.raises(TurnFailed, match="needs `target_belief`"):
        await player_of(Program(script), State(0, "zh")).take(Start(), None)

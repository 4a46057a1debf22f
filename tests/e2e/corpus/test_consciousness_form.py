"""A real detector of the consciousness form, where a folder of scripts is at hand (SCRIPT_CORPUS).

Its two examples are oracles. Compared are: whether a change is detected, the name of its pattern, and for every message
that the example gives numbers for the valence and arousal: the same sign, and no further apart than what the detector
itself calls significant (0.3); with that, the order from message to message. Not compared are the words that only a
model can give (`primary`, `emotion`, `clinical_notes`).
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from api.cli.main import main
from api.testing.player import Player
from runtime.state.events import Detected, Emitted
from runtime.state.inputs import Reply
from runtime.state.program import Program
from runtime.state.state import State
from scripts.detectors.estimate import Vocabulary
from scripts.detectors.examples import run_examples
from scripts.detectors.judge import WindowMessage, judge
from scripts.parse.conversion import convert
from scripts.parse.folder import read_path
from scripts.parse.read_script import Source, read_script

FILE = Path(os.environ.get("SCRIPT_CORPUS", "no-corpus")) / "consciousness-form" / "emotion-detection.yaml"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FILE.is_file(), reason="SCRIPT_CORPUS names no folder of scripts"),
]


@pytest.fixture(scope="module")
def script():
    reading = read_path(FILE)
    assert reading.script is not None, reading.errors
    assert [problem for problem in reading.problems if problem.severity != "note"] == []
    return reading.script


def test_its_parts_are_all_there(script) -> None:
    (detector,) = script.detectors
    assert (detector.on, detector.cooldown, detector.look_back, detector.min_messages) == ("user", 2, 8, 2)
    assert [measure.name for measure in detector.measures] == ["valence", "arousal", "dominance"]
    assert (len(detector.signs), len(detector.patterns), len(detector.rules)) == (12, 6, 4)
    assert [pattern.id for pattern in detector.patterns if not pattern.courses] == ["suppressed_emotion"]
    assert detector.on_failure == "use_previous"


def test_both_examples_come_out_without_a_model(script) -> None:
    (detector,) = script.detectors
    assert [example.label for example in detector.examples] == ["sudden_shift", "gradual_decline"]
    assert [example.measured["valence"] for example in detector.examples] == [(0.6, -0.5), (0.0, -0.2, -0.4, -0.7)]
    assert [(each.passed, each.differences) for each in run_examples(detector)] == [(True, ()), (True, ())]


def test_the_values_rise_and_fall_as_the_examples_do(script) -> None:
    (detector,) = script.detectors
    vocabulary = Vocabulary(detector.measures, detector.signs)
    for example in detector.examples:
        found = judge(detector, vocabulary, [WindowMessage(line.role, line.content) for line in example.messages])
        assert found is not None
        values = [each.values["valence"] for each in found.measured]
        assert values == sorted(values, reverse=True)
        assert len(set(values)) == len(example.measured["valence"])


async def test_crisis_keyword_raises_an_alert_without_a_model(
    script, player_of: Callable[[Program, State], Player]
) -> None:
    program = Program(script)
    player = player_of(program, State(1, program.locale, "visitor"))
    await player.begin()
    for said in ("我不想活了", "真的想死", "今天还行"):
        await player.take(Reply(said), None)
    emitted = [
        [event.body.event for event in played.turn.events if isinstance(event.body, Emitted)]
        for played in player.played
    ]
    assert emitted == [[], ["immediate_alert"], ["immediate_alert"], []]
    first = next(event.body for event in player.played[1].turn.events if isinstance(event.body, Detected))
    assert (first.label, first.severity, first.by, first.words) == ("crisis", 1.0, "rule", ("不想活",))


def test_converted_detector_has_the_same_examples(script) -> None:
    text = convert(script, read_path(FILE)).text
    again = read_script(Source(text, "again.yaml"))
    assert again.problems == ()
    assert all(each.passed for each in run_examples(again.script.detectors[0]))


def test_the_command_line_checks_and_tests_it() -> None:
    assert CliRunner().invoke(main, ["check", str(FILE)]).exit_code == 0
    tested = CliRunner().invoke(main, ["test", str(FILE)])
    assert tested.exit_code == 0, tested.output
    assert "2 examples of detectors: 2 passed, 0 failed" in tested.output

"""``cuebook test --record`` and ``cuebook play --record``: what a model says becomes the file of replies of a case."""

from pathlib import Path

import pytest

from tests.support.fixture_types import RunCommand, WriteFile

SCRIPT = """\
script: led
declare: [{var: again, type: boolean}]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_ask: Find out the name., id: who, output: [{get: name}]}
          - {say: "Hi {{ name }}", id: hi}
          - {ask: Another?, id: another, output: [{get: again}]}
          - {goto: t, id: back, when: again}
"""
CASE = """\
script: led.yaml
cases:
  - name: two visitors
    model: said/led.yaml
    turns:
      - expect: ["Who are you?"]
      - {say: a friend, expect: ["Hi Ana", "Another?"]}
      - {say: yes, expect: ["And you?"]}
      - {say: me, expect: ["Hi Ben", "*"]}
      - {say: no}
"""
REAL = """\
replies:
  who:
    - ["Who are you?", {exit: true, values: {name: Ana}}]
    - ["And you?", {exit: true, values: {name: Ben}}]
"""


@pytest.fixture(autouse=True)
def files(write: WriteFile):
    write("led.yaml", SCRIPT)
    write("led.case.yaml", CASE)
    write("real.yaml", REAL)


def test_recorded_case_is_played_with_the_replies_of_the_model(cuebook: RunCommand, tmp_path: Path) -> None:
    missing = cuebook("test")
    assert missing.exit_code == 2
    assert "led.case.yaml:4:12 USE_NOT_FOUND there is no file said/led.yaml" in missing.stdout
    assert "cuebook test --record" in missing.stdout
    (tmp_path / "said").mkdir()
    done = cuebook("test", "--record", "--model", "scripted:real.yaml")
    assert (done.exit_code, done.stderr) == (0, "wrote said/led.yaml: 4 replies to 1 action\n")
    assert (tmp_path / "said/led.yaml").read_text("utf-8") == (
        "replies:\n"
        "  who:\n"
        "    - [Who are you?, {values: {name: Ana}, exit: true}]\n"
        "    - [And you?, {values: {name: Ben}, exit: true}]\n"
    )
    assert cuebook("test").exit_code == 0


def test_the_model_that_is_set_is_asked(cuebook: RunCommand, write: WriteFile, tmp_path: Path) -> None:
    write("cuebook.toml", 'model = "offline"\n')
    (tmp_path / "said").mkdir()
    done = cuebook("test", "--record")
    assert done.exit_code == 1  # the offline model words it otherwise; all turns were taken, so it is written
    assert '"Who are you?"' in done.stdout
    assert '"And you?"' in done.stdout
    assert "Find out the name." in (tmp_path / "said/led.yaml").read_text("utf-8")


def test_the_offline_model_replaces_nothing_that_was_recorded(
    cuebook: RunCommand, write: WriteFile, tmp_path: Path
) -> None:
    write("said/led.yaml", REAL)
    done = cuebook("test", "--record")
    assert done.exit_code == 2
    assert "use --model" in done.stderr
    assert (tmp_path / "said/led.yaml").read_text("utf-8") == REAL


def test_a_conversation_that_fails_leaves_the_file_as_it_was(cuebook: RunCommand, write: WriteFile) -> None:
    before = write("said/led.yaml", REAL)
    write("short.yaml", "replies: {who: [[Who?]]}\n")
    done = cuebook("test", "--record", "--model", "scripted:short.yaml")
    assert done.exit_code == 1
    assert "not written said/led.yaml: the conversation did not reach its end" in done.stderr
    assert before.read_text("utf-8") == REAL
    assert [each.name for each in before.parent.iterdir()] == ["led.yaml"]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            CASE.replace("model: said/led.yaml", "replies: {who: [Who?]}"),
            "led.case.yaml:4 led: two visitors: its replies",
        ),
        (CASE.replace("    model: said/led.yaml\n", ""), "no case names a file to record to"),
        (CASE.replace("said/led.yaml", "led.yaml"), "led.yaml holds something else than replies"),
        (CASE.replace("said/led.yaml", "led.case.yaml"), "led.case.yaml holds something else than replies"),
        (CASE, "there is no folder said"),
        (
            CASE + CASE[CASE.index("  - name") :],
            "led.case.yaml:4 and led.case.yaml:12 name the same file, said/led.yaml",
        ),
    ],
)
def test_unrecordable_case_is_refused_before_a_model_call(
    cuebook: RunCommand, write: WriteFile, tmp_path: Path, case, words
) -> None:
    write("led.case.yaml", case)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = cuebook("test", "--record")
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_conversation_played_in_the_terminal_can_be_recorded(cuebook: RunCommand, tmp_path: Path) -> None:
    given = ["--inputs", "-", "--model", "scripted:real.yaml"]
    first = cuebook("play", "led.yaml", *given, "--record", "played.yaml", input="a\nyes\nb\nno\n")
    assert (first.exit_code, "wrote played.yaml: 4 replies to 1 action" in first.stderr) == (0, True)
    given[-1] = "scripted:played.yaml"
    assert cuebook("play", "led.yaml", *given, input="a\nyes\nb\nno\n").stdout == first.stdout
    refused = cuebook("play", "led.yaml", *given, "--record", "led.case.yaml", input="")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert (tmp_path / "led.case.yaml").read_text("utf-8") == CASE

"""`cuebook convert` as its users meet it."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from api.cli.main import main
from scripts.parse.folder import read_path
from scripts.versions.rename_map import paths_of

FINE = (
    "session: {session_id: talk, phases: [{phase_id: p, topics: [{topic_id: t, actions: "
    "[{action_type: ai_say, action_id: a, content: Hi.}]}]}]}"
)
LOSSY = FINE.replace("content: Hi.", "content: Hi., say_goal: ease")
OLDER = FINE.replace("content:", "content_template:")
NATIVE = """\
# Converted from talk.yaml, which is in the session format.
cuebook: 1
script: talk
default_scope: session

phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ai_say: Hi.
            id: a
            acknowledge: true
"""


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command in a folder where `talk.yaml` holds a text."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *flags: str) -> Result:
        Path("talk.yaml").write_text(text, "utf-8")
        return CliRunner().invoke(main, ["convert", "talk.yaml", *flags])

    return run


def test_the_native_form_goes_to_standard_output(convert) -> None:
    done = convert(FINE)
    assert (done.exit_code, done.stdout, done.stderr) == (0, NATIVE, "")


def test_it_goes_to_a_file_whole(convert, tmp_path: Path) -> None:
    done = convert(FINE, "-o", "new.yaml")
    assert (done.exit_code, done.stdout) == (0, "")
    assert (tmp_path / "new.yaml").read_bytes() == NATIVE.encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.yaml", "talk.yaml"]


def test_what_could_not_be_carried_over_is_reported(convert) -> None:
    done = convert(LOSSY)
    assert done.exit_code == 1
    assert "# Not carried over: say_goal: ease\n" in done.stdout
    assert "not converted" in done.stderr
    assert "talk.yaml:1:" in done.stderr


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [("script: [", (), "SYNTAX_ERROR"), ("a: b", (), "UNRECOGNISED_SCRIPT"), (OLDER, ("--strict",), "DEPRECATED_KEY")],
)
def test_broken_input_is_not_converted(convert, tmp_path: Path, text, flags, expected) -> None:
    done = convert(text, "-o", "new.yaml", *flags)
    assert (done.exit_code, done.stdout) == (2, "")
    assert expected in done.stderr
    assert not (tmp_path / "new.yaml").exists()


def test_older_keys_are_carried_over(convert) -> None:
    assert convert(OLDER).stdout == NATIVE


def test_no_file_is_overwritten_without_the_flag(convert, tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text("kept", "utf-8")
    done = convert(FINE, "-o", "new.yaml")
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert (tmp_path / "new.yaml").read_text("utf-8") == "kept"
    assert convert(FINE, "-o", "new.yaml", "--force").exit_code == 0
    assert (tmp_path / "new.yaml").read_text("utf-8") == NATIVE


def test_a_folder_that_is_not_there(convert) -> None:
    done = convert(FINE, "-o", "nowhere/new.yaml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nowhere" in done.stderr


STAGE = """\
sessions:
- session: 第一次 会谈
  stages:
  - stage: 开场
    steps:
    - goal: 测试——主诉问题拓展
      actions:
      - say: 你好，我是{助理名}
      - call: 问名字
      - say: "{来访者}好"
"""
SIDES = {
    "global.yaml": "global: [{var: 助理名, value: 喵喵}]\n",
    "skills.yaml": "skills: [{goal: 问名字, actions: [{ai_ask: 怎么称呼, output: [get: 来访者]}]}]\n",
    "forms.yaml": "forms:\n- form: 表\n  fields:\n  - text: 名称（必填！）\n  - combobox: 性别\n  - python: x\n",
}


@pytest.mark.parametrize("target", ["new.yaml", "../new.yaml", "../other/new.yaml", "below/new.yaml"])
def test_the_output_finds_its_side_files(tmp_path: Path, target) -> None:
    folder = tmp_path / "scripts"
    (tmp_path / "other").mkdir()
    (folder / "below").mkdir(parents=True)
    for name, text in {**SIDES, "talk.yaml": STAGE}.items():
        (folder / name).write_text(text, "utf-8")
    done = CliRunner().invoke(main, ["convert", str(folder / "talk.yaml"), "-o", str(folder / target)])
    assert done.exit_code == 0, done.output
    before, after = read_path(folder / "talk.yaml"), read_path(folder / target, "strict")
    assert before.script is not None
    assert after.script is not None, after.errors
    assert paths_of(after.script) == paths_of(before.script)
    assert after.script.id == before.script.id == "第一次 会谈"
    assert [each.var for each in after.script.globals] == ["助理名"]
    assert not any("forms.yaml" in name for name in after.script.use)


def test_a_copy_overwrites_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for name, text in {**SIDES, "talk.yaml": STAGE, "other/skills.yaml": "skills: []\n"}.items():
        (tmp_path / name).write_text(text, "utf-8")
    command = ["convert", str(tmp_path / "talk.yaml"), "-o", str(tmp_path / "other/new.yaml")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert "skills.yaml already exists and differs" in " ".join(done.stderr.split())
    assert not (tmp_path / "other/new.yaml").exists()
    assert CliRunner().invoke(main, [*command, "--force"]).exit_code == 0
    assert (tmp_path / "other/skills.yaml").read_text("utf-8") == SIDES["skills.yaml"]


def test_names_a_globals_file_cannot_have_are_reported(convert, tmp_path: Path) -> None:
    (tmp_path / "globals.yaml").write_text("globals: [{var: a b}]", "utf-8")
    done = convert(FINE.replace("session_id: talk", "session_id: talk, use: [globals.yaml]"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "VARIABLE_NAME_INVALID" in done.stderr

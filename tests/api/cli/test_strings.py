"""``cuebook strings``: a table for translators, updated, through a spreadsheet and back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixture_types import RunCommand, WriteFile

SCRIPT = """\
script: tea
locale: en
{use}phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {{say: "{hello}", id: hello}}
          - {{say: Bye., id: bye}}
"""
CASE = """\
script: tea.yaml
cases:
  - name: German
    locale: de-AT
    turns: [{expect: [Hallo., Bye.]}]
"""


@pytest.fixture
def script(write: WriteFile) -> Callable[..., Path]:
    """Write the script, that says this, and uses these files."""
    return lambda hello="Hello.", use="": write("tea.yaml", SCRIPT.format(hello=hello, use=use))


def translate(path: Path, **texts: str) -> None:
    text = path.read_text("utf-8")
    for source, translation in texts.items():
        text = text.replace(f'of: {source}.\n    text: ""', f"of: {source}.\n    text: {translation}")
    path.write_text(text, "utf-8")


def test_from_an_empty_table_to_a_conversation(
    cuebook: RunCommand, script: Any, write: WriteFile, tmp_path: Path
) -> None:
    first = cuebook("strings", script(), "--locale", "de")
    assert (first.exit_code, first.stdout) == (0, "")
    assert "tea.de.yaml: 0 translated, 2 missing, 0 stale" in first.stderr
    assert "use: [tea.de.yaml]" in first.stderr
    translate(tmp_path / "tea.de.yaml", Hello="Hallo.")
    used = script(use="use: [tea.de.yaml]\n")
    again = cuebook("strings", used, "--locale", "de")
    assert "1 translated, 1 missing, 0 stale" in again.stderr
    assert "use:" not in again.stderr
    played = cuebook("play", used, "--locale", "de-AT", "--json", "--inputs", "-", input="")
    said = [message["content"] for message in json.loads(played.stdout)["turns"][0]["messages"]]
    assert said == ["Hallo.", "Bye."]
    write("tea.case.yaml", CASE)
    assert cuebook("test", "tea.case.yaml").exit_code == 0


def test_tables_that_the_script_uses_already_can_be_written(cuebook: RunCommand, script: Any, tmp_path: Path) -> None:
    used = script(use="use: [tea.de.yaml, tea.fr.yaml]\n")
    for locale in ("de", "fr"):
        written = cuebook("strings", used, "--locale", locale)
        assert (written.exit_code, "2 missing" in written.stderr, "use:" in written.stderr) == (0, True, False)
    assert cuebook("check", used).exit_code == 0
    other = cuebook("strings", script(use="use: [words.yaml]\n"), "--locale", "de")
    assert (other.exit_code, "USE_NOT_FOUND" in other.stderr) == (2, True)


def test_a_table_with_errors_can_be_updated(cuebook: RunCommand, script: Any, write: WriteFile, tmp_path: Path) -> None:
    table = write("tea.de.yaml", 'strings: de\nlines: {p/t/hello.say: "Hallo, {{ nam }}."}\n')
    used = script(use="use: [tea.de.yaml]\n")
    assert cuebook("check", used).exit_code == 1
    assert cuebook("strings", used, "--locale", "DE").exit_code == 0
    assert "Hallo, {{ nam }}." in table.read_text("utf-8")
    assert "p/t/bye.say" in table.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{script}", "--locale", "german"], "language tag"),
        (["{script}"], "--locale"),
        (["missing.yaml", "--locale", "de"], "missing.yaml"),
        (["{script}", "--locale", "fr", "-o", "de.yaml"], "for de, not fr"),
        (["{script}", "--locale", "de", "-o", "tea.yaml"], "not a string table"),
        (["{script}", "--locale", "de", "-o", "broken.yaml"], "broken.yaml:3"),
        (["{script}", "--locale", "de", "-o", "no/such/folder.yaml"], "No such"),
        (["broken.yaml", "--locale", "de"], "SYNTAX_ERROR"),
    ],
)
def test_wrong_use_changes_nothing(
    cuebook: RunCommand, script: Any, write: WriteFile, arguments: list[str], said: str
) -> None:
    path = script()
    files = [write("de.yaml", "strings: de\n"), write("broken.yaml", "strings: de\nlines: [\n"), path]
    before = [file.read_text("utf-8") for file in files]
    result = cuebook("strings", *(each.format(script=path) for each in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr.replace("\n", "")
    assert [file.read_text("utf-8") for file in files] == before


def test_checking_a_table_checks_the_scripts_that_use_it(cuebook: RunCommand, script: Any, write: WriteFile) -> None:
    script(use="use: [texts/tea.de.yaml]\n")
    write("texts/tea.de.yaml", "strings: de\nlines: {p/t/hallo.say: Hallo.}\n")
    result = cuebook("check", "texts/tea.de.yaml")
    assert result.exit_code == 0
    assert "tea.yaml:9:19 warning STRING_MISSING" in result.stdout
    assert "tea.de.yaml:2:9 warning STRING_UNKNOWN" in result.stdout
    assert "texts/tea.de.yaml is an include file; checking tea.yaml" in result.stderr
    both = cuebook("check", "texts/tea.de.yaml", "tea.yaml", "--format", "json")
    assert json.loads(both.stdout)["files"] == ["tea.yaml"]


def test_a_side_file_that_nothing_uses_is_checked_by_itself(cuebook: RunCommand, script: Any, write: WriteFile) -> None:
    write("lonely.yaml", "globals: [city, {var: age, type: number}]\nforms: [{form: visit, fields: [city]}]\n")
    together = cuebook("check", script(), "lonely.yaml")
    assert together.exit_code == 0
    assert "no script in its folder lists it in `use`; it defines 2 globals, 1 form" in together.stderr
    assert "1 script and 1 include file: 0 errors" in together.stderr
    write("lonely.yaml", "globals:\n  - {var: age, type: numbr}\nskills: [{skill: s, actions: [{sai: x}]}]\n")
    alone = cuebook("check", "lonely.yaml")
    assert alone.exit_code == 1
    assert "lonely.yaml:2:22 error ENUM_VALUE_INVALID" in alone.stdout
    assert "lonely.yaml:3:32 error ACTION_TYPE_UNKNOWN" in alone.stdout

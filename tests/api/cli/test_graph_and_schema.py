"""``cuebook graph``, ``cuebook schema`` and ``cuebook check --format sarif``, as a person types them."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner, Result

from api.cli.main import main
from scripts.model.diagnostics import CODES
from tests.support.paths import LIBRARY

INTAKE = str(LIBRARY / "intake.yaml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cuebook(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


# -- graph ------------------------------------------------------------------------------------------------------------


def test_a_script_is_drawn_as_mermaid(folder) -> None:
    done = cuebook("graph", INTAKE)
    assert done.exit_code == 0
    assert done.stdout.startswith('flowchart TB\n  start(["start"])\n  subgraph p0["about_you"]\n')


@pytest.mark.parametrize(
    ("name", "begins"), [("talk.svg", "<svg "), ("talk.json", "{"), ("talk.mmd", "flowchart"), ("talk", "flowchart")]
)
def test_the_ending_of_the_file_says_what_to_draw(folder, name, begins) -> None:
    done = cuebook("graph", INTAKE, "-o", name)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"wrote {name}\n")
    assert (folder / name).read_text("utf-8").startswith(begins)


@pytest.mark.parametrize("name", ["talk.png", "talk.pdf", "talk.yaml"])
def test_another_ending_is_refused_unless_the_format_is_said(folder, name) -> None:
    done = cuebook("graph", INTAKE, "-o", name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{name}: the formats are .svg, .mmd (Mermaid) and .json" in done.stderr
    assert not (folder / name).exists()
    assert cuebook("graph", INTAKE, "-o", name, "--format", "mermaid").exit_code == 0


def test_json_is_the_graph_itself(folder) -> None:
    graph = json.loads(cuebook("graph", INTAKE, "--format", "json").stdout)
    assert (graph["script"], graph["nodes"][0]) == ("intake", {"kind": "start", "id": ":start"})
    welcome = next(node for node in graph["nodes"] if node["id"] == "about_you/welcome")
    assert (welcome["kind"], welcome["actions"][2]["onFail"]) == ("topic", "goto at_the_desk")
    assert {
        "source": "about_you/welcome",
        "target": "about_you/at_the_desk",
        "kind": "on_fail",
        "action": "ask_age",
        "when": [],
    } in graph["edges"]


def test_a_broken_script_is_not_drawn(folder) -> None:
    (folder / "talk.yaml").write_text("script: talk\nphases: [{phase: a}]\n", "utf-8")
    done = cuebook("graph", "talk.yaml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "talk.yaml:2:10 REQUIRED_FIELD_MISSING" in done.stderr


def test_a_file_that_cannot_be_written_is_named(folder) -> None:
    done = cuebook("graph", INTAKE, "-o", "nowhere/talk.svg")
    assert done.exit_code == 2
    assert "nowhere/talk.svg: No such file or directory" in done.stderr


# -- schema -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "key"), [("include", "globals"), ("strings", "lines"), ("cases", "cases")])
def test_other_kinds_of_files_have_schemas(kind, key) -> None:
    schema = json.loads(cuebook("schema", "--of", kind).stdout)
    assert key in schema["$defs"][schema["$ref"].rpartition("/")[2]]["properties"]


def test_the_schema_is_printed_or_written(folder) -> None:
    printed = cuebook("schema")
    assert json.loads(printed.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert cuebook("schema", "-o", "cuebook.schema.json").exit_code == 0
    assert (folder / "cuebook.schema.json").read_text("utf-8") == printed.stdout


# -- check as SARIF ---------------------------------------------------------------------------------------------------

TYPO = """
    script: talk
    use: [names.yaml]
    phases:
      - phase: a
        topics:
          - topic: b
            actions:
              - {say: "你好 {{ nam }}", id: x, tonne: warm}
              - say: No id.
"""


def test_findings_come_as_sarif(folder) -> None:
    inner = folder / "my scripts"
    inner.mkdir()
    (inner / "talk.yaml").write_text(dedent(TYPO), "utf-8")
    (inner / "names.yaml").write_text("globals: [{var: name, typ: text}]\n", "utf-8")
    done = cuebook("check", "my scripts", "--format", "sarif")
    assert done.exit_code == 1
    log = json.loads(done.stdout)
    run = log["runs"][0]
    assert (log["version"], run["columnKind"], run["tool"]["driver"]["name"]) == (
        "2.1.0",
        "unicodeCodePoints",
        "Cuebook",
    )
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert [
        (result["ruleId"], result["level"], place["artifactLocation"]["uri"], *place["region"].values())
        for result, place in zip(run["results"], places, strict=True)
    ] == [
        ("VARIABLE_NEVER_SET", "warning", "my%20scripts/talk.yaml", 9, 19),
        ("UNKNOWN_KEY", "error", "my%20scripts/talk.yaml", 9, 42),
        ("ID_DERIVED", "warning", "my%20scripts/talk.yaml", 10, 13),
        ("UNKNOWN_KEY", "error", "my%20scripts/names.yaml", 1, 23),
    ]
    assert run["results"][1]["message"]["text"] == "unknown key `tonne`. Did you mean `tone`?"


def test_every_finding_points_to_its_rule(folder) -> None:
    (folder / "talk.yaml").write_text(dedent(TYPO), "utf-8")
    run = json.loads(cuebook("check", "talk.yaml", "--format", "sarif").stdout)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(CODES)
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert rules[0] == {
        "id": "FILE_UNREADABLE",
        "shortDescription": {"text": CODES["FILE_UNREADABLE"].meaning},
        "help": {"text": CODES["FILE_UNREADABLE"].fix},
        "defaultConfiguration": {"level": "error"},
    }


def test_a_file_outside_the_working_folder_is_named_in_full(folder, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "talk.yaml"
    elsewhere.write_text("script: talk\n", "utf-8")
    run = json.loads(cuebook("check", str(elsewhere), "--format", "sarif").stdout)["runs"][0]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == elsewhere.as_uri()


def test_sound_scripts_have_no_findings(folder) -> None:
    done = cuebook("check", str(LIBRARY), "--format", "sarif")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["runs"][0]["results"] == []


@pytest.mark.parametrize("command", ["graph", "schema", "check"])
def test_help_shows_an_example(command) -> None:
    assert f"cuebook {command} " in cuebook(command, "--help").stdout.partition("Example")[2]

"""Forms in the terminal, in a file of replies, in cases and with random visitors."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixture_types import RunCommand, WriteFile

SHEET = """\
script: sheet
forms:
  - form: contact
    title: How to reach you
    fields:
      - {field: name, label: Your name, required: true, placeholder: as in your papers}
      - {field: age, type: number, max: 120, default: 30}
      - {field: day, choices: [monday, friday]}
      - {field: sweets, type: multichoice, choices: [cake, pie, tart]}
      - {field: pets, type: table, columns: [{field: kind, required: true}, {field: legs, type: number, default: 4}]}
      - {field: next_age, type: number, computed: age + 1}
phases: [{phase: p, topics: [{topic: t, actions: [{form: contact, id: fill}, {say: "Bye {{ name }}.", id: bye}]}]}]
"""


@pytest.fixture
def sheet(write: WriteFile) -> Path:
    return write("sheet.yaml", SHEET.replace("phases", "default_scope: session\nphases", 1))


def variables(result: Any) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout[result.stdout.index("{\n") :])["variables"]


def test_a_line_of_json_fills_in_a_form_and_so_do_plain_words(cuebook: RunCommand, sheet: Path) -> None:
    for line in ('{"form": {"name": "Ana", "age": 40}}', "Your name: Ana, age: 40"):
        assert variables(cuebook("play", sheet, "--inputs", "-", "--json", input=f"{line}\n")) == {
            "name": "Ana",
            "age": 40,
            "next_age": 41,
        }


def test_a_field_that_the_form_does_not_have_exits_2(cuebook: RunCommand, sheet: Path) -> None:
    result = cuebook("play", sheet, "--inputs", "-", input='{"form": {"nam": "Ana"}}\n')
    assert result.exit_code == 2
    assert "Did you mean `name`?" in result.stderr


def test_person_sees_the_fields_and_fills_them_in_words_or_json(cuebook: RunCommand, sheet: Path) -> None:
    pets = '{"form": {"pets": [{"kind": "cat"}], "sweets": ["pie"]}}'
    result = cuebook("play", sheet, "--json", input=f"age: 300\nYour name: Ana, age: 40\n{pets}\n")
    assert variables(result) == {"name": "Ana", "age": 40, "next_age": 41}
    result = cuebook("play", sheet, "--json", input=f'age: 40\n{pets[:10]}"name": "Ana", {pets[10:]}\n')
    assert variables(result) == {
        "name": "Ana",
        "age": 40,
        "sweets": ["pie"],
        "pets": [{"kind": "cat", "legs": 4}],
        "next_age": 41,
    }
    for part in (
        "  Your name (name)*: as in your papers",
        "  age [30]",
        "  age [40]",
        "  sweets: cake, pie, tart",
        "  pets: kind of each row, legs of each row",
        '{"form": {"name": …',
    ):
        assert part in result.stderr
    assert "next_age" not in result.stderr


def test_leaving_in_the_middle_of_a_form_leaves_it_waiting(cuebook: RunCommand, sheet: Path) -> None:
    result = cuebook("play", sheet, input="age: 40\n")
    assert (result.exit_code, "still waits for form" in result.stderr) == (0, True)


CASE = """\
script: sheet.yaml
cases:
  - name: filled in
    turns:
      - {wait: form, at: p/t/fill}
      - {form: {name: Ana, age: %s}, wait: null, expect: [Bye Ana.]}
    end: {variables: {next_age: 41}}
"""


def test_a_case_fills_in_a_form(cuebook: RunCommand, sheet: Path, write: WriteFile) -> None:
    assert cuebook("test", write("sheet.case.yaml", CASE % 40)).exit_code == 0
    result = cuebook("test", write("sheet.case.yaml", CASE % 300))
    assert result.exit_code == 1
    assert "turn 1 (form: name: Ana, age: 300)" in result.stdout


def test_a_turn_of_a_case_does_one_thing(cuebook: RunCommand, sheet: Path, write: WriteFile) -> None:
    result = cuebook("test", write("sheet.case.yaml", (CASE % 40).replace("{form:", "{say: a, form:")))
    assert result.exit_code == 2
    assert "Keep one of `say`, `choose`, `form` and `pass`." in result.output


def test_random_visitors_fill_in_forms_and_a_finding_is_a_case(cuebook: RunCommand, write: WriteFile) -> None:
    divide = "{set: {left: 100 / (age - 66)}, id: divide, when: age == 66}"
    text = SHEET.replace("max: 120", "min: 60, max: 70").replace('{say: "Bye {{ name }}.", id: bye}', divide)
    write("walked.yaml", text)
    result = cuebook("test", "walked.yaml", "--walk", 200, "--json")
    (finding,) = json.loads(result.stdout)["walks"][0]["findings"]
    assert finding["place"] == "p/t/divide"
    assert 'form: {"' in finding["case"] or 'say: "' in finding["case"]
    assert cuebook("test", write("found.case.yaml", finding["case"])).exit_code == 1


def test_the_graph_names_the_form_and_conversion_keeps_it(cuebook: RunCommand, sheet: Path) -> None:
    graph = json.loads(cuebook("graph", sheet, "--format", "json").stdout)
    topic = next(node for node in graph["nodes"] if node["kind"] == "topic")
    assert (topic["actions"][0]["type"], topic["actions"][0]["detail"]) == ("form", "contact")
    converted = cuebook("convert", sheet, "-o", "again.yaml")
    assert converted.exit_code == 0, converted.output
    line = '{"form": {"name": "Ana"}}\n'
    assert variables(cuebook("play", "again.yaml", "--inputs", "-", "--json", input=line)) == {
        "name": "Ana",
        "age": 30,
        "next_age": 31,
    }

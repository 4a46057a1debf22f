"""Forms in the language: where their problems are reported, what they read, and that conversion preserves them."""

import re

import pytest

from scripts.model.base import without_places
from scripts.model.script import FormField, as_output, kind_of
from scripts.parse.read_script import Source, read_script
from scripts.versions.rename_variables import with_names
from scripts.yaml.script_writer import native_yaml

HEAD = "script: s\nuse: [forms.yaml]\nphases: [{phase: p, topics: [{topic: t, actions: ["
TAIL = "]}]}]\n"
FORMS = """
forms:
  - form: contact
    title: "For {{ who }}"
    fields:
      - {field: name, label: Your name, required: true, validate: name != 'x'}
      - {field: days, type: table, columns: [day, {field: hours, type: number, validate: hours < limit}]}
      - {field: total, type: number, computed: hours * 2}
  - form: other
    fields: [a]
"""


def problems(actions: str, forms: str = FORMS) -> list[tuple[str, str, int]]:
    reading = read_script(Source(HEAD + actions + TAIL, "s.yaml", {"forms.yaml": forms}), "strict")
    return [(problem.code, problem.file, problem.line) for problem in reading.problems]


def test_form_of_an_include_file_is_reported_there_unless_unused() -> None:
    assert problems("{form: contact, id: f}") == [
        ("VARIABLE_NEVER_SET", "forms.yaml", 4),
        ("VARIABLE_NEVER_SET", "forms.yaml", 7),
        ("VARIABLE_NEVER_SET", "forms.yaml", 8),
    ]
    assert problems("{say: Hello., id: h}") == []
    broken = FORMS.replace("hours * 2", "hours *")
    assert problems("{say: Hello., id: h}", broken) == [("EXPRESSION_INVALID", "forms.yaml", 8)]


def test_what_a_form_reads_counts_where_it_is_shown() -> None:
    known = "{set: {who: 1, limit: 2, hours: 3}, id: set}, {form: contact, id: f}, {say: '{{ total }}', id: told}"
    assert problems(known) == []
    elsewhere = "{set: {who: 1, limit: 2, hours: 3}, id: set}]}, {topic: u, actions: [{form: contact, id: f}"
    assert {code for code, _, _ in problems(elsewhere)} == {"VARIABLE_UNDECLARED"}


@pytest.mark.parametrize(
    ("field", "kind", "taken"),
    [
        (FormField(name="a"), "text", "text"),
        (FormField(name="a", choice_list=("b",)), "choice", "choice"),
        (FormField(name="a", type="multichoice", choice_list=("b",)), "multichoice", "list"),
        (FormField(name="a", type="table", columns=(FormField(name="b"),)), "table", "list"),
        (FormField(name="a", type="file"), "file", "text"),
    ],
)
def test_a_field_is_a_value_that_is_taken(field, kind, taken) -> None:
    assert (kind_of(field), as_output(field).type) == (kind, taken)


LIMITED = """
cuebook: 1
script: limited
actions:
  - {ask: "How many?", into: {var: most, type: number}}
  - {form: order}
  - say: "{{ count }} {{ rows }} {{ size }}"
forms:
  - form: order
    text: Please order.
    fields:
      - {field: count, type: number, min: 1, max: =most, default: =most - 1}
      - {field: size, choices: "=['small', most ~ 'x']"}
      - {field: rows, type: table, columns: [{field: a, type: number, max: =most}], default: "=[{'a': most}]"}
"""


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        ("=most", []),
        ("=moost", [("VARIABLE_NEVER_SET", "nothing sets `moost`")]),
        ("=most +", [("EXPRESSION_INVALID", "something is missing at the end")]),
        ("=count", [("VARIABLE_MAYBE_UNSET", "`count` has no value here: no path to this place sets it")]),
        ("=a", [("VARIABLE_MAYBE_UNSET", "`a` has no value here: no path to this place sets it")]),
    ],
)
def test_expressions_of_fields_are_checked(limit: str, found: list[tuple[str, str]]) -> None:
    fields = LIMITED.replace("{field: a, type: number, max: =most}", f"a, {{field: b, type: number, max: {limit}}}")
    fields = fields.replace("{'a': most}", "{'b': most}")
    assert [(each.code, each.message) for each in read_script(Source(fields)).problems] == found


def test_expressions_of_fields_are_written_and_renamed() -> None:
    script = read_script(Source(LIMITED)).script
    assert script is not None
    again = read_script(Source(native_yaml(script))).script
    assert again is not None
    assert without_places(again) == without_places(script)
    assert native_yaml(with_names(script, {"most": "left"})) == re.sub(r"\bmost\b", "left", native_yaml(script))


def test_a_form_is_written_as_it_was_read() -> None:
    text = f"{HEAD}{{form: contact, id: f, max_rounds: 2}}, {{form: other, id: o}}{TAIL}{FORMS}".replace(
        "use: [forms.yaml]\n", ""
    )
    script = read_script(Source(text)).script
    assert script is not None
    again = read_script(Source(native_yaml(script))).script
    assert again is not None
    assert without_places(again) == without_places(script)

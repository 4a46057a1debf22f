"""Where texts name variables, phases, topics, actions and the like."""

import pytest

from scripts.editing.name_occurrences import Occurrence, occurrences_in, topics_in
from tests.support.marked_text import cursor
from tests.support.script_readers import library_readings

HEAD = """\
cuebook: 1
script: talk
declare: [{var: name, type: text}]
skills:
  - skill: breathe
    params: [{var: times, value: 1}]
    actions:
      - say: "{{ times }}"
        id: count
phases:
  - phase: opening
    topics:
      - topic: welcome
        actions:
          - {ask: Who are you?, id: ask_name, into: name}
      - topic: goodbye
        actions:
"""


def all_names(text: str) -> tuple[Occurrence, ...]:
    return occurrences_in(text, topics_in(text))


def names_at(line: str) -> set[tuple[str, str]]:
    """Return the kinds and ids of names at the mark in an action of the last topic."""
    at = cursor(HEAD + f"          - {line}\n")
    found = [each for each in all_names(at.text) if each.start <= at.offset <= each.end]
    return {(each.name.kind, "/".join(each.name.path)) for each in found}


@pytest.mark.parametrize(
    "line",
    [
        "say: Hello {{ n¦ame }}",
        'say: "Say \\"hi\\" to {{ \\"Dr \\" ~ n¦ame }}"',
        "say: 'It''s {{ n¦ame == ''Ana'' }}'",
        "say: 'It''s {{ ''Ana'' == n¦ame }}'",
        "say: 你好 😀 {{ n¦ame }}",
        "say: '{% if n¦ame %}Hello{% endif %}'",
        "set: {n¦ame: Ana}",
        "set: {greeting: =n¦ame}",
        "set: {greeting: {text: '=n¦ame ~ \"!\"'}}",
        "set: {greeting: '=vars[\"n¦ame\"]'}",
        "add: {n¦ame: 1}",
        "{say: Hello, when: n¦ame is defined}",
        "{foreach: n¦ame as letter, do: [{say: x}]}",
        "{ask: Who?, into: n¦ame}",
        "{ask: Who?, into: [name2, n¦ame]}",
        "{ask: Who?, into: {var: n¦ame, type: text}}",
        "{ask: Who?, into: [{set: n¦ame, value: x}]}",
        "{call: breathe, into: {n¦ame: times}}",
        "{repeat: n¦ame, do: [{say: x}]}",
    ],
)
def test_variable_is_found_wherever_it_is_written(line) -> None:
    assert names_at(line) == {("variable", "name")}


@pytest.mark.parametrize(
    "line",
    [
        "say: a n¦ame",
        "say: '{{ n¦ow }}'",
        "say: '{{ greeting.n¦ame }}'",
        "say: '{{ greeting | n¦ame }}'",
        "say: '{{ f(n¦ame=1) }}'",
        "say: '{{ \"n¦ame\" }}'",
        "say: '{% for n¦ame in names %}{{ name }}{% endfor %}'",
        "{call: breathe, with: {times: n¦ame}}",
        "{ask: Who?, into: {add_to: people, fields: [{var: n¦ame}]}}",
        "{choose: Who?, into: who, choices: [{n¦ame: A name}]}",
        "{say: Hello, id: x, ro¦le: x}",
    ],
)
def test_other_words_are_no_variables(line) -> None:
    assert names_at(line) == set()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("goto: wel¦come", ("topic", "opening/welcome")),
        ("goto: opening/wel¦come", ("topic", "opening/welcome")),
        ("goto: open¦ing/welcome", ("phase", "opening")),
        ("goto: open¦ing", ("phase", "opening")),
        ("{ask: Who?, into: name, on_fail: goto wel¦come}", ("topic", "opening/welcome")),
        ("{ask: Who?, into: name, on_fail: {then: goto wel¦come}}", ("topic", "opening/welcome")),
        ("say: '{{ visits(\"opening/wel¦come\") }}'", ("topic", "opening/welcome")),
        ("{wait: 1 day, on_message: wel¦come}", ("topic", "opening/welcome")),
        ("call: brea¦the", ("skill", "/breathe")),
        ("{call: breathe, with: {ti¦mes: 2}}", ("variable", "times")),
        ("{tool: loo¦kup}", ("tool", "lookup")),
        ("{ai_ask: Ask., into: name, tools: [loo¦kup]}", ("tool", "lookup")),
        ("{say: Hello, role: nur¦se}", ("role", "nurse")),
        ("{scene: {ai: nur¦se}}", ("role", "nurse")),
        ("{say: Hello, id: gre¦et}", ("action", "opening/goodbye/greet")),
        ("{if: name, then: [{say: Hello, id: gre¦et}]}", ("action", "opening/goodbye/greet")),
    ],
)
def test_ids_are_found_with_what_is_around_them(line, name) -> None:
    assert names_at(line) == {name}


def test_declarations_are_known() -> None:
    declared = [each.name.id for each in all_names(HEAD) if each.is_declaration]
    assert declared == ["name", "breathe", "times", "count", "opening", "welcome", "ask_name", "goodbye"]


def test_string_table_names_ids_and_variables() -> None:
    table = "strings: de\nlines:\n  opening/welcome/ask_name.output.name.invalid: {of: x, text: y}\n"
    found = [(each.name.kind, each.name.path) for each in occurrences_in(table, topics_in(HEAD))]
    assert found == [
        ("phase", ("opening",)),
        ("topic", ("opening", "welcome")),
        ("action", ("opening", "welcome", "ask_name")),
        ("variable", ("name",)),
    ]


def test_cases_name_places_and_variables() -> None:
    turns = "turns: [{at: opening/welcome/ask_name, variables: {name: Ana}}]"
    cases = f"script: talk.yaml\ncases:\n  - name: one\n    {turns}\n"
    found = [each.name.path for each in occurrences_in(cases, topics_in(HEAD))]
    assert found == [("opening",), ("opening", "welcome"), ("opening", "welcome", "ask_name"), ("name",)]


def test_text_before_an_error_has_names() -> None:
    assert len(all_names(HEAD + "          - say: [")) == len(all_names(HEAD))


def test_older_scripts_have_no_names() -> None:
    assert all_names(HEAD.removeprefix("cuebook: 1\n")) == ()


def test_every_declared_variable_of_the_library_is_found() -> None:
    for reading in library_readings():
        texts = (reading.source.text, *reading.source.side_files.values())
        topics = topics_in(reading.source.text)
        found = [(text, each) for text in texts for each in occurrences_in(text, topics)]
        assert all(text[each.start : each.end] == each.name.id for text, each in found)
        declared = {each.name.id for _, each in found if each.is_declaration and each.name.kind == "variable"}
        assert {each.var for each in reading.script.declare} <= declared

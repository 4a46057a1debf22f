"""Completion at a cursor, also in texts with errors; and the meaning of what is at it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.testing.cases.case_model import CaseFile
from scripts.editing.completion import Completion, KnownNames, complete
from scripts.editing.hover import key_meaning, name_meaning, problem_meaning
from scripts.editing.name_occurrences import Name, occurrences_in, topics_in
from scripts.editing.text_parts import parts_of
from scripts.model.diagnostics import CODES, Problem
from scripts.model.script import IncludeFile, StringTable
from scripts.parse.read_script import Source, read_script
from tests.support.marked_text import cursor
from tests.support.paths import LIBRARY

TEXT = (LIBRARY / "intake.yaml").read_text("utf-8")
KNOWN = KnownNames.of(occurrences_in(TEXT, topics_in(TEXT)), read_script(Source(TEXT)).draft)
HEAD = "cuebook: 1\nscript: talk\n"


def completions(marked: str) -> list[Completion]:
    at = cursor(marked)
    return complete(at.lines, at.line, at.column, KNOWN)


def labels(marked: str) -> set[str]:
    return {each.offer.label for each in completions(marked)}


def test_new_action_may_be_of_any_type() -> None:
    found = labels(HEAD + "actions:\n  - ¦")
    assert {"say", "ask", "choose", "goto"} <= found
    assert "into" not in found


def test_keys_of_an_action_are_those_of_its_type() -> None:
    found = labels(HEAD + "actions:\n  - ask: Who?\n    in¦")
    assert {"into", "rounds", "on_fail"} <= found
    assert not {"ask", "utterances"} & found


def test_key_is_inserted_with_its_colon_and_meaning() -> None:
    found = next(each for each in completions(HEAD + "tit¦") if each.offer.label == "title")
    assert (found.text, found.column) == ("title: ", 0)
    assert found.offer.detail


def test_keys_in_braces() -> None:
    assert {"type", "min"} <= labels(HEAD + "actions:\n  - {ask: How old?, into: {var: age, ¦")


def test_keys_in_a_text_with_errors() -> None:
    assert "rounds" in labels(HEAD + "actions:\n  - say: [\n  - ask: Who?\n    ¦\n  - say: }")


@pytest.mark.parametrize("value", ["type: ¦", "type: nu¦", "{var: age, type: ¦", "{var: age, type: ¦}"])
def test_fixed_values(value) -> None:
    assert {"text", "number", "date"} <= labels(HEAD + f"actions:\n  - ask: How old?\n    into:\n      - {value}")


def test_boolean_values() -> None:
    assert labels(HEAD + "actions:\n  - say: Hello\n    interruptible: ¦") == {"true", "false"}


@pytest.mark.parametrize(
    "line",
    ["say: Hello {{ na¦", "say: '{% if ¦", "set: {greeting: =na¦", "say: Hello\n    when: na¦", "set: {greeting: =¦}"],
)
def test_variables_in_expressions(line) -> None:
    assert {"name", "age", "today"} <= labels(HEAD + f"actions:\n  - {line}")


def test_members_are_not_completed_as_variables() -> None:
    assert labels(HEAD + "actions:\n  - say: '{{ name.¦") == set()


@pytest.mark.parametrize("line", ["ask: Who?\n    into: ¦", "set: {¦", "ask: Who?\n    into: {var: ¦"])
def test_variables_that_are_set(line) -> None:
    assert {"name", "age"} <= labels(HEAD + f"actions:\n  - {line}")


@pytest.mark.parametrize("line", ["goto: ¦", "ask: Who?\n    on_fail: goto ¦", "{goto: wr¦"])
def test_targets_are_topics_and_phases(line) -> None:
    assert {"at_the_desk", "about_you/at_the_desk", "wrap_up"} <= labels(HEAD + f"actions:\n  - {line}")


@pytest.mark.parametrize(
    ("kind", "marked", "label"),
    [
        (IncludeFile, "cuebook: 1\nglo¦", "globals"),
        (IncludeFile, "cuebook: 1\nglobals:\n  - var: name\n    ¦", "define"),
        (StringTable, "strings: de\nlines:\n  a/b/c.say:\n    ¦", "text"),
        (
            CaseFile,
            "script: talk.yaml\ncases:\n  - name: one\n    turns:\n      - expect: [Hello]\n        ¦",
            "skipped",
        ),
    ],
)
def test_keys_of_other_kinds_of_files(kind, marked, label) -> None:
    at = cursor(marked)
    assert label in {each.offer.label for each in complete(at.lines, at.line, at.column, KNOWN, kind)}


@given(st.sampled_from(sorted(LIBRARY.rglob("*.yaml"))), st.data())
def test_no_position_of_a_damaged_text_fails(path, data) -> None:
    whole = path.read_text("utf-8")
    start = data.draw(st.integers(0, len(whole)))
    text = whole[:start] + data.draw(st.text("{}[]:-'\"\n \t#😀x=", max_size=9)) + whole[start + 40 :]
    lines = text.split("\n")
    line = data.draw(st.integers(0, len(lines) - 1))
    column = data.draw(st.integers(0, len(lines[line])))
    assert all(each.column <= column for each in complete(lines, line, column, KNOWN))
    assert isinstance(key_meaning(lines, line, column), str)
    assert all(0 <= each.start <= each.end <= len(text) for each in parts_of(text))
    occurrences_in(text, topics_in(text))


# -- hover ------------------------------------------------------------------------------------------------------------


def test_key_has_a_meaning() -> None:
    at = cursor(HEAD + "actions:\n  - {ask: Who?, ro¦unds: 2}")
    assert key_meaning(at.lines, at.line, at.column).startswith("**rounds**: ")


def test_text_has_no_meaning_of_a_key() -> None:
    at = cursor(HEAD + "actions:\n  - ask: How many roun¦ds?")
    assert key_meaning(at.lines, at.line, at.column) == ""


def test_variable_has_its_declaration() -> None:
    assert name_meaning(Name("variable", ("age",)), KNOWN) == "variable `age`: number: age in years"
    assert name_meaning(Name("variable", ("part",)), KNOWN) == "variable `part`, not declared"


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_problem_is_explained(code) -> None:
    text = problem_meaning(Problem(code, "", "error", 1, 1))
    assert CODES[code].meaning in text
    assert text.count("```yaml") == 2

"""Renames of variables and ids, with the entries that running sessions need."""

from textwrap import dedent

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scripts.editing.name_occurrences import Name, name_of, occurrences_in, topics_in
from scripts.editing.rename import Edits, RenameRefused, apply_edits, rename
from scripts.model.script import Script
from scripts.model.variable_names import names_in
from scripts.parse.read_script import Source, read_script
from scripts.versions.rename_map import Renames, paths_of
from tests.support.script_readers import library_readings

TALK = dedent("""\
    cuebook: 1
    script: talk
    use: [shared.yaml]
    declare: [{var: name, type: text}]
    phases:
      - phase: opening
        topics:
          - topic: welcome
            actions:
              - ask: Who are you?
                into: name
              - {say: "Hello, {{ name }}. Your name is fine.", id: greet}
              - {set: {visits_before: =seen}, id: keep}
              - {say: "{{ visits_before }}", id: last}
              - {call: breathe, id: calm}
              - {goto: opening/welcome, when: name == "name", id: again}
    """)
SHARED = dedent("""\
    cuebook: 1
    globals: [{var: seen, type: number, value: 0}]
    skills:
      - skill: breathe
        actions:
          - {say: Breathe., id: in}
    """)
TALK_SOURCE = Source(TALK, "talk.yaml", {"shared.yaml": SHARED})


def renamed(source: Source, name: Name, new: str) -> Source:
    return with_edits(source, rename(source, {}, name, new))


def with_edits(source: Source, edits: Edits) -> Source:
    side_files = {file: apply_edits(text, edits.get(file, ())) for file, text in source.side_files.items()}
    return msgspec.structs.replace(source, text=apply_edits(source.text, edits.get("", ())), side_files=side_files)


def read(source: Source) -> Script:
    reading = read_script(source)
    assert reading.script is not None, reading.errors
    return reading.script


def test_variable_is_renamed_in_all_places_but_not_in_prose() -> None:
    text = renamed(TALK_SOURCE, name_of("variable", "name"), "full_name").text
    assert "declare: [{var: full_name, type: text}]" in text
    assert "into: full_name" in text
    assert '"Hello, {{ full_name }}. Your name is fine."' in text
    assert 'when: full_name == "name"' in text


def test_rename_of_a_variable_is_entered_with_derived_ids() -> None:
    text = renamed(TALK_SOURCE, name_of("variable", "name"), "full_name").text
    assert text.endswith(
        "\nmigrations:\n  variables:\n    name: full_name\n"
        "  actions:\n    opening/welcome/ask_name: opening/welcome/ask_full_name\n"
    )


@pytest.mark.parametrize(
    ("name", "new", "entry"),
    [
        (Name("phase", ("opening",)), "start", "  phases:\n    opening: start\n"),
        (Name("topic", ("opening", "welcome")), "hello", "  topics:\n    opening/welcome: opening/hello\n"),
        (
            Name("action", ("opening", "welcome", "greet")),
            "meet",
            "  actions:\n    opening/welcome/greet: opening/welcome/meet\n",
        ),
        (name_of("skill", "breathe"), "relax", "  skills:\n    breathe: relax\n"),
        (Name("action", ("", "breathe", "in")), "inhale", "  actions:\n    breathe/in: breathe/inhale\n"),
    ],
)
def test_ids_are_renamed_with_an_entry(name, new, entry) -> None:
    source = renamed(TALK_SOURCE, name, new)
    assert source.text.endswith(f"\nmigrations:\n{entry}")
    path = (*name.path[:-1], new)
    assert Renames(read(TALK_SOURCE), read(source)).path(name.path) == path
    assert path in paths_of(read(source))


def test_entries_are_appended_to_those_of_earlier_renames() -> None:
    first = renamed(TALK_SOURCE, Name("action", ("opening", "welcome", "greet")), "meet")
    second = renamed(first, Name("action", ("opening", "welcome", "keep")), "store")
    third = renamed(second, name_of("skill", "breathe"), "relax")
    assert third.text.endswith(
        "  actions:\n    opening/welcome/greet: opening/welcome/meet\n    opening/welcome/keep: opening/welcome/store\n"
        "  skills:\n    breathe: relax\n"
    )


def test_second_rename_of_the_same_variable_continues_the_first() -> None:
    source = renamed(renamed(TALK_SOURCE, name_of("variable", "name"), "b"), name_of("variable", "b"), "c")
    assert "    name: b\n    b: c\n" in source.text
    assert Renames(read(TALK_SOURCE), read(source)).variable("name") == "c"


def test_rename_that_reverts_an_earlier_one_removes_its_entry() -> None:
    greet = Name("action", ("opening", "welcome", "greet"))
    there = renamed(TALK_SOURCE, greet, "meet")
    assert "opening/welcome/meet" in there.text
    back = renamed(there, Name("action", ("opening", "welcome", "meet")), "greet")
    assert back.text.rstrip() == TALK.rstrip()
    assert paths_of(read(back)) == paths_of(read(TALK_SOURCE))


def test_reverted_renames_leave_the_entries_of_others() -> None:
    both = renamed(renamed(TALK_SOURCE, name_of("variable", "name"), "b"), name_of("skill", "breathe"), "relax")
    back = renamed(both, name_of("variable", "b"), "name")
    assert back.text.endswith("\nmigrations:\n  skills:\n    breathe: relax\n")


@pytest.mark.parametrize(
    "before", ["{skills: {}}", "\n  skills: {old: breathe}", "\n    skills:\n        old: breathe # note"]
)
def test_entries_are_added_in_the_style_of_those_before(before) -> None:
    source = Source(TALK + f"migrations: {before}\n", "talk.yaml", TALK_SOURCE.side_files)
    migrations = read(renamed(source, name_of("skill", "breathe"), "relax")).migrations
    assert migrations.skills["breathe"].id == "relax"


def test_file_with_other_line_ends_and_no_last_one() -> None:
    text = TALK.rstrip("\n").replace("\n", "\r\n")
    source = renamed(Source(text, "talk.yaml", TALK_SOURCE.side_files), name_of("skill", "breathe"), "relax")
    assert source.text.endswith("\r\n\r\nmigrations:\r\n  skills:\r\n    breathe: relax\r\n")
    assert "\n" not in source.text.replace("\r\n", "")


def test_string_tables_and_cases_follow() -> None:
    table = "strings: de\nlines:\n  opening/welcome/greet.say: {of: 'Hello {{ name }}', text: 'Hallo {{ name }}'}\n"
    cases = "script: talk.yaml\ncases: [{name: one, turns: [{at: opening/welcome/greet}]}]\n"
    edits = rename(TALK_SOURCE, {"de": table, "c": cases}, Name("topic", ("opening", "welcome")), "hello")
    assert "opening/hello/greet.say" in apply_edits(table, edits["de"])
    assert "at: opening/hello/greet" in apply_edits(cases, edits["c"])
    edits = rename(TALK_SOURCE, {"de": table}, name_of("variable", "name"), "who")
    assert apply_edits(table, edits["de"]) == table.replace("{{ name }}", "{{ who }}")


@pytest.mark.parametrize(
    ("name", "new", "message"),
    [
        (name_of("variable", "name"), "visits_before", "there is already a variable visits_before"),
        (name_of("variable", "name"), "now", "the runtime reserves the name now"),
        (name_of("variable", "name"), "full name", "'full name' is not a valid name: it begins with a letter"),
        (name_of("variable", "name"), "true", "'true' is not a valid name"),
        (name_of("variable", "seen"), "met", "seen is a global variable: values of users are stored under its name"),
        (Name("action", ("opening", "welcome", "greet")), "keep", "there is already a action keep"),
        (name_of("skill", "dance"), "sing", "no skill dance is declared"),
    ],
)
def test_names_that_are_invalid_or_used_are_refused(name, new, message) -> None:
    with pytest.raises(RenameRefused, match=message):
        rename(TALK_SOURCE, {}, name, new)


def test_rename_that_would_cause_a_problem_is_refused() -> None:
    older = SHARED.removeprefix("cuebook: 1\n")  # its names are not found
    with pytest.raises(RenameRefused, match="no skill breathe is declared"):
        rename(Source(TALK, "talk.yaml", {"shared.yaml": older}), {}, name_of("skill", "breathe"), "relax")
    reads = older + 'interrupts: [{interrupt: help, on: {keywords: [help]}, do: [{say: "{{ name }}", id: x}]}]\n'
    with pytest.raises(RenameRefused, match=r"the renamed script would have a problem: .*name"):
        rename(Source(TALK, "talk.yaml", {"shared.yaml": reads}), {}, name_of("variable", "name"), "full_name")


def test_script_that_cannot_be_read_is_not_renamed() -> None:
    with pytest.raises(RenameRefused, match=r"the script cannot be read: .*SYNTAX_ERROR"):
        rename(Source(TALK + "  [", "talk.yaml"), {}, name_of("variable", "name"), "full_name")


@pytest.mark.slow
@given(st.deferred(lambda: st.sampled_from(library_readings())), st.data())
def test_renamed_library_scripts_have_no_new_problems(reading, data) -> None:
    source, before = reading.source, reading.script
    texts = (source.text, *source.side_files.values())
    found = [each.name for text in texts for each in occurrences_in(text, topics_in(source.text))]
    name = data.draw(st.sampled_from(list(dict.fromkeys(found))))
    new = data.draw(st.from_regex(r"[a-zß-ü][a-z0-9_]{0,5}x9", fullmatch=True))
    try:
        after_source = renamed(source, name, new)
    except RenameRefused as refused:
        assume("stored under its name" not in str(refused))
        raise
    after = read(after_source)
    assert [each.code for each in read_script(after_source).problems] == [each.code for each in reading.problems]
    if name.kind == "variable":
        assert names_in(after) - {new} == names_in(before) - {name.id}
    mapped = {Renames(before, after).path(path) for path in paths_of(before)}
    if name.kind in {"phase", "topic", "action", "skill", "variable"} and not name.path[0].startswith(":"):
        assert mapped == paths_of(after)

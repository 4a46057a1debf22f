"""Differences between two versions of a script are reported part by part."""

import pytest

from scripts.parse.read_script import Source, read_script
from scripts.versions.diff import ScriptDifference, differences

OLD = """\
script: visit
title: A visit
declare: [{var: mood}]
phases:
  - phase: hello
    topics:
      - topic: who
        declare: [{var: nickname}]
        actions:
          - {ask: "Your name?", id: ask_name, output: [{get: nickname}]}
          - if: nickname
            id: known
            then:
              - {say: "Hello, {{ nickname }}", id: greet}
  - phase: bye
    topics:
      - topic: end
        actions:
          - {say: "Bye, {{ mood }}.", id: farewell}
"""


def read(text):
    reading = read_script(Source(text, "visit.yaml", {}), "strict")
    assert reading.script is not None, reading.errors
    return reading.script


def changed(*replacements):
    text = OLD
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return [(each.how, each.what, each.path, each.was) for each in differences(read(OLD), read(text))]


def test_the_same_script_written_otherwise_has_no_differences() -> None:
    assert changed(("script: visit", "# a remark\n\nscript: visit"), ("title: A visit", "title: 'A visit'")) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("title: A visit", "title: Visits", [("changed", "script", "", "")]),
        ("Hello, {{", "Hi, {{", [("changed", "action", "hello/who/greet", "")]),
        ("if: nickname", "if: not nickname", [("changed", "action", "hello/who/known", "")]),
        ("- topic: end\n", "- topic: end\n        goal: An end\n", [("changed", "topic", "bye/end", "")]),
        ("[{var: mood}]", "[{var: mood, type: text}]", [("changed", "variable", "mood", "")]),
        ("[{var: mood}]", "[{var: mood}, {var: age}]", [("added", "variable", "age", "")]),
        (
            '          - {say: "Bye, {{ mood }}.", id: farewell}\n',
            '          - {say: "Bye, {{ mood }}.", id: farewell}\n          - {say: Really., id: really}\n',
            [("changed", "topic", "bye/end", ""), ("added", "action", "bye/end/really", "")],
        ),
        (
            "            id: known\n            then:\n",
            "            id: known\n            then:\n              - {say: Ah., id: ah}\n",
            [("changed", "action", "hello/who/known", ""), ("added", "action", "hello/who/ah", "")],
        ),
    ],
)
def test_each_part_is_reported_separately(old, new, expected) -> None:
    assert changed((old, new)) == expected


def test_a_removed_part_is_reported_with_all_its_contents() -> None:
    assert changed((OLD[OLD.index("  - phase: bye") :], "")) == [
        ("removed", "phase", "bye", ""),
        ("removed", "topic", "bye/end", ""),
        ("removed", "action", "bye/end/farewell", ""),
        ("changed", "script", "", ""),
    ]


def test_a_renamed_part_is_reported_with_both_names() -> None:
    new = OLD.replace("topic: who", "topic: whom").replace("nickname", "name")
    new += "migrations: {topics: {hello/who: hello/whom}, variables: {nickname: name}}\n"
    found = set(differences(read(OLD), read(new)))
    assert ScriptDifference("topic", "changed", "hello/whom", "hello/who") in found
    assert ScriptDifference("variable", "changed", "hello/whom/name", "hello/who/nickname") in found
    assert not {each for each in found if each.how != "changed"}

"""The outline of scripts and their files, and the parts of texts."""

from scripts.editing.outline import OutlineItem, outline
from scripts.editing.text_parts import parts_of
from scripts.parse.read_script import Source, read_file, read_script
from tests.support.paths import LIBRARY

TALK = """\
cuebook: 1
script: talk
declare:
  - {var: name}
phases:
  - phase: opening
    title: Hello
    topics:
      - topic: welcome
        actions:
          - say: Hello
            id: greet
          - say: |
              Two
              lines
            id: long
  # the end
  - phase: closing
    topics: [{topic: bye, actions: [{say: Bye, id: bye}]}]
"""


def names(items: tuple[OutlineItem, ...]) -> list[object]:
    return [(each.kind, each.name, names(each.inner)) for each in items]


def test_outline_is_in_the_order_of_the_file() -> None:
    items = outline(read_script(Source(TALK, "talk.yaml")).draft, "talk.yaml", 19)
    welcome = [("action", "greet", []), ("action", "long", [])]
    assert names(items) == [
        ("variable", "name", []),
        ("phase", "opening", [("topic", "welcome", welcome)]),
        ("phase", "closing", [("topic", "bye", [("action", "bye", [])])]),
    ]
    assert [(each.line, each.end_line) for each in items] == [(4, 5), (6, 17), (18, 19)]


def test_outline_of_an_include_file_has_its_own_parts() -> None:
    reading = read_script(read_file(LIBRARY / "moving_abroad" / "moving_abroad.yaml"))
    skills = outline(reading.draft, "skills.yaml", 82)
    assert [(each.kind, each.name) for each in skills] == [("skill", each.id) for each in reading.script.skills]


def test_outline_of_an_older_format() -> None:
    text = "session:\n  session_id: talk\n  phases:\n    - phase_id: one\n      topics:\n        - topic_id: two\n"
    text += "          actions: [{action_type: ai_say, action_id: hello, config: {content_template: Hello}}]\n"
    items = outline(read_script(Source(text, "talk.yaml")).draft, "talk.yaml", 7)
    assert names(items) == [("phase", "one", [("topic", "two", [("action", "hello", [])])])]


def test_parts_end_with_their_last_text() -> None:
    parts = {each.path: TALK[each.start : each.end] for each in parts_of(TALK) if each.kind != "key"}
    assert parts["declare", 0] == "{var: name}"
    assert parts["phases", 0, "topics", 0, "actions", 1, "say"].endswith("lines")
    assert parts["phases", 0].endswith("id: long")


def test_parts_of_a_text_with_an_error_are_those_before_it() -> None:
    parts = [each.path for each in parts_of(TALK + "declare: [") if each.kind == "scalar"]
    assert parts == [each.path for each in parts_of(TALK) if each.kind == "scalar"]


def test_text_that_is_too_long_has_no_parts() -> None:
    assert parts_of("a" * 1_000_001) == ()

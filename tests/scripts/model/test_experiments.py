"""Experiments as scripts have them: in include files too, in pictures, versions and written out."""

from typing import Any

import pytest

from scripts.graph.graph import build_graph
from scripts.model.script import Script
from scripts.parse.read_script import Source, read_script
from scripts.translations.localisation import localise
from scripts.versions.breaking_changes import changes
from scripts.versions.diff import differences
from scripts.yaml.script_writer import native_yaml, noted_places

SCRIPT = """\
script: hello
use: [trials.yaml]
experiments:
  - {experiment: pace, arms: [slow, {arm: fast, weight: 2, define: in a hurry}], by: session}
phases:
  - phase: p
    topics:
      - topic: first
        actions:
          - {experiment: pace, id: draw_pace}
          - experiment: greeting
            id: greet
            arms:
              plain: [{goto: second, id: on}]
              warm: [{say: Hello!, id: say_hello}, {end: done, id: finish}]
      - topic: second
        actions: [{say: "{{ pace }}", id: tell}]
"""
TRIALS = """\
experiments:
  - {experiment: greeting, arms: [plain, warm]}
  - {experiment: for_other_scripts, arms: [a, b]}
"""


@pytest.fixture
def read() -> Any:
    """Read the script above, with an include file; it must have no problems."""

    def read(text: str = SCRIPT, trials: str = TRIALS) -> Script:
        reading = read_script(Source(text, "hello.yaml", {"trials.yaml": trials}), "strict")
        assert reading.problems == ()
        assert reading.script is not None
        return reading.script

    return read


def test_a_side_file_brings_experiments_for_several_scripts(read) -> None:
    script = read()
    assert [plan.id for plan in script.experiments] == ["pace", "greeting", "for_other_scripts"]
    assert [each.var for each in script.global_variables] == ["greeting", "for_other_scripts"]
    assert [(each.var, each.kind, each.choices) for each in script.session_variables] == [
        ("pace", "choice", ("slow", "fast"))
    ]


def test_written_experiment_is_as_short_as_an_authors(read) -> None:
    script = read()
    written = native_yaml(script)
    assert "arms: [slow, {arm: fast, weight: 2, define: in a hurry}]" in written
    assert "greeting, arms" not in written  # it stands in the include file
    assert read(written).experiments[1:] == script.experiments[1:]
    assert {15, 16} <= {at.line for at in noted_places(script)}  # comments stay above what stands in an arm


def test_a_picture_shows_which_arm_leads_where(read) -> None:
    graph = build_graph(read())
    assert [(edge.source, edge.target, edge.label) for edge in graph.edges] == [
        (":start", "p/first", ""),
        ("p/second", ":end", ""),
        ("p/first", "p/second", "goto when greeting is plain"),
        ("p/first", ":end", "end when greeting is warm"),
    ]
    first = graph.topics[0].actions
    assert [(each.id, each.detail, each.arm, each.depth) for each in first[1:3]] == [
        ("greet", "greeting", "", 0),
        ("on", "second", "plain", 1),
    ]


def test_a_new_version_tells_of_an_arm_that_is_gone(read) -> None:
    old = read()
    new = read(SCRIPT.replace("[slow, {arm: fast, weight: 2, define: in a hurry}]", "[slow, steady]"))
    assert [(each.kind, each.name, each.message) for each in changes(old, new)] == [
        ("variable", "pace", "`pace` is declared without the choice fast")
    ]


def test_other_changes_within_an_arm_do_not_change_the_block(read) -> None:
    found = differences(read(), read(SCRIPT.replace("say: Hello!", "say: Good day!")))
    assert [(each.what, each.how, each.path) for each in found] == [("action", "changed", "p/first/say_hello")]


def test_a_translated_script_says_its_arms_in_the_other_language(read) -> None:
    table = "strings: de\nlines:\n  p/first/say_hello.say: {of: Hello!, text: Guten Tag!}\n"
    table += "  p/second/tell.say: {of: '{{ pace }}', text: '{{ pace }}'}\n"
    files = {"trials.yaml": TRIALS, "de.yaml": table}
    text = SCRIPT.replace("use: [trials.yaml]", "use: [trials.yaml, de.yaml]\nlocale: en")
    reading = read_script(Source(text, "hello.yaml", files))
    assert (reading.problems, reading.script is not None) == ((), True)
    block = localise(reading.script, reading.script.strings[0]).phases[0].topics[0].actions[1]
    assert block.arms["warm"][0].texts[0].source == "Guten Tag!"

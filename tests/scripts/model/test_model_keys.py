"""What a script says of language models: which one, what becomes of a cut-off call, of stray replies, of no budget."""

import pytest

from scripts.graph.graph import END, Edge, build_graph
from scripts.model.actions import Onward, Policy, policies
from scripts.model.base import Template, without_places
from scripts.model.script import ON_BUDGET, Script
from scripts.parse.read_script import Source, read_script
from scripts.translations.localisation import lines_of
from scripts.versions.breaking_changes import changes
from scripts.yaml.script_writer import native_yaml

WHOLE = """
script: whole
model: careful
on_interrupted: fail
on_budget:
  - {say: Tomorrow., id: sorry}
  - {if: "name == 'Ana'", then: [{set: {seen: true}, id: note}], id: whether}
declare: [{var: name, value: Ana}]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ai_ask: Sleep?
            id: slept
            output: [{get: hours}]
            model: quick
            on_interrupted: retry
            on_blocked: {say: As you like., then: goto rest}
            on_off_topic: {say: "Back to it, {{ name }}.", after: 2}
          - {chat: Talk., id: talk, on_blocked: skip, on_off_topic: {then: end, after: 3}}
          - {say: "{{ hours }} {{ seen }}", id: told}
      - topic: rest
        actions: [{say: Rest., id: resting}]
"""


def read(text: str) -> Script:
    reading = read_script(Source(text, "test.yaml"), "strict")
    assert reading.script is not None, [str(problem) for problem in reading.errors]
    return reading.script


def problems(text: str) -> list[str]:
    return [problem.code for problem in read_script(Source(text, "test.yaml"), "strict").problems]


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ("continue", Policy()),
        ("skip", Policy(then=Onward(policy="skip"))),
        ("end", Policy(then=Onward(policy="end"))),
        ("goto rest", Policy(then=Onward(policy="goto", target="rest"))),
        ("{goto: p/rest}", Policy(then=Onward(policy="goto", target="p/rest"))),
        ("{say: Hm.}", Policy(say=Template("Hm."))),
        ("{then: {goto: rest}, after: 2}", Policy(then=Onward(policy="goto", target="rest"), after=2)),
    ],
)
def test_a_policy_is_a_word_a_jump_or_a_mapping(written, policy) -> None:
    text = WHOLE.replace("{say: As you like., then: goto rest}", written)
    (found, *_) = read(text).phases[0].topics[0].actions
    read_policy = without_places(policies(found)["on_blocked"])
    said = Template(read_policy.say.source) if read_policy.say is not None else None
    assert (said, read_policy.then, read_policy.after) == (policy.say, without_places(policy.then), policy.after)


def test_all_of_it_is_sound_and_comes_back_as_it_was_written() -> None:
    assert problems(WHOLE) == []
    script = read(WHOLE)
    assert without_places(read(native_yaml(script))) == without_places(script)
    assert [each.id for each in script.watchers] == [ON_BUDGET]


def test_a_script_that_never_uses_a_model_may_name_one() -> None:
    plain = "script: x\nmodel: careful\nphases: [{phase: p, topics: [{topic: t, actions: [{say: Hi., id: hi}]}]}]\n"
    assert problems(plain) == []
    assert problems(plain.replace("{say: Hi., id: hi}", "{say: Hi., id: hi, model: x}")) == ["UNKNOWN_KEY"]


def test_no_running_session_misses_anything_of_it() -> None:
    old = read(WHOLE)
    new = WHOLE.replace("careful", "other").replace("model: quick", "model: slow").replace("id: sorry", "id: later")
    assert list(changes(old, read(new))) == []


def test_where_policies_lead_is_in_the_graph() -> None:
    graph = build_graph(read(WHOLE))
    ways = [edge for edge in graph.edges if edge.kind in {"on_blocked", "on_off_topic"}]
    assert ways == [Edge("p/t", "p/rest", "on_blocked", "slept"), Edge("p/t", END, "on_off_topic", "talk")]
    items = {item.id: item for topic in graph.topics for item in topic.actions}
    assert (items["slept"].on_blocked, items["slept"].on_off_topic) == ("goto rest", "")
    assert [topic.topic for topic in graph.topics] == ["t", "rest", "on_budget"]


def test_what_users_read_of_it_can_be_translated() -> None:
    assert {line.id: line.text for line in lines_of(read(WHOLE)) if "on_" in line.id} == {
        "p/t/slept.on_blocked": "As you like.",
        "p/t/slept.on_off_topic": "Back to it, {{ name }}.",
        "on_budget/sorry.say": "Tomorrow.",
    }


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("{say: As you like., then: skip}", ["VARIABLE_MAYBE_UNSET"]),
        ("{say: As you like., then: end}", []),
        ('{say: "{{ nobody }}"}', ["VARIABLE_NEVER_SET"]),
    ],
)
def test_what_a_policy_leaves_open_is_reported(written, found) -> None:
    assert problems(WHOLE.replace("{say: As you like., then: goto rest}", written)) == found


def test_what_on_budget_reads_must_be_in_its_sight() -> None:
    assert problems(WHOLE.replace("name == 'Ana'", "hours == 'Ana'")) == ["VARIABLE_UNDECLARED"]

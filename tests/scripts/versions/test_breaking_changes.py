"""What changed between two versions, by ids, as far as a session of the earlier one could miss it."""

import pytest

from scripts.model.diagnostics import Problems
from scripts.versions.breaking_changes import changes, report
from tests.support.script_readers import ReadValid

OLD = """\
script: talk
declare: [{var: name}, {var: age, type: number}]
phases:
  - phase: main
    declare: [{var: mood, choices: [low, ok]}]
    topics:
      - topic: first
        actions:
          - {ask: Age?, id: ask_age, output: [{get: age, type: number}]}
          - {choose: mood, id: ask_mood, choices: [low, ok]}
          - {if: age > 3, id: older, then: [{say: Hm., id: hm}]}
      - topic: second
        actions: [{ask: Name?, id: ask_name, output: [{get: name}]}]
  - phase: last
    topics:
      - topic: third
        actions: [{call: breathe, id: calm}]
skills:
  - skill: breathe
    declare: [{var: level, type: number}]
    actions: [{ask: How tense?, id: ask_level, output: [{get: level}]}]
"""
ASK_NAME = "{ask: Name?, id: ask_name, output: [{get: name}]}"


def found(script, *swaps: tuple[str, str], more: str = "") -> list[tuple[str, str, str]]:
    text = OLD
    for old, new in swaps:
        assert old in text, old
        text = text.replace(old, new)
    return [(each.kind, "/".join(each.path), each.message) for each in changes(script(OLD), script(text + more))]


def test_what_is_only_added_or_said_otherwise_is_no_change(script: ReadValid) -> None:
    added = ("actions: [{ask: Name?", "declare: [{var: new}]\n        actions: [{say: New., id: new}, {ask: Nome?")
    assert found(script, added, ("choices: [low, ok]}\n", "choices: [low, ok, good]}\n")) == []


@pytest.mark.parametrize(
    ("old", "new", "kind", "path"),
    [
        ("topic: second", "topic: other", "removed", "main/second"),
        ("phase: last", "phase: end", "removed", "last"),
        ("id: ask_name", "id: name", "removed", "main/second/ask_name"),
        (ASK_NAME, "{set: {name: age}, id: ask_name}", "type", "main/second/ask_name"),
        ("then: [{say: Hm., id: hm}]}", "then: [], else: [{say: Hm., id: hm}]}", "moved", "main/first/hm"),
        ("id: ask_mood, choices: [low, ok]", "id: ask_mood, choices: [ok]", "choice", "main/first/ask_mood"),
        ("{get: age, type: number}", "{get: age, type: text}", "variable", "main/first/ask_age"),
        ("{var: age, type: number}", "{var: age, type: date}", "variable", ""),
        ("{var: mood, choices: [low, ok]}", "{var: mood, choices: [low, good]}", "variable", "main"),
        ("{var: level, type: number}", "{var: level, type: text}", "variable", "/breathe"),
        ("id: ask_level", "id: level", "removed", "/breathe/ask_level"),
    ],
)  # fmt: skip
def test_one_change_is_reported_once(script: ReadValid, old, new, kind, path) -> None:
    assert [each[:2] for each in found(script, (old, new))] == [(kind, path)]


def test_renames_are_no_changes(script: ReadValid) -> None:
    swaps = [("topic: second", "topic: other"), ("id: ask_name", "id: name"), ("var: age", "var: years")]
    swaps += [("get: age", "get: years"), ("age > 3", "years > 3"), ("breathe", "calm")]
    more = "migrations:\n  topics: {main/second: main/other}\n  actions: {main/other/ask_name: main/other/name}\n"
    assert found(script, *swaps, more=more + "  variables: {age: years}\n  skills: {breathe: calm}\n") == []


def test_action_moved_to_another_topic_is_reported_as_renamed(script: ReadValid) -> None:
    text = OLD.replace("{say: Hm., id: hm}", "{say: Ah., id: ah}").replace(
        "[{ask: Name?", "[{say: Hm., id: hm}, {ask: Name?"
    )
    (change,) = changes(script(OLD), script(text))
    assert (change.kind, change.fix) == ("moved", "Add `migrations: {actions: {main/first/hm: main/second/hm}}`.")


def test_a_variable_that_another_scope_declares_is_reported(script: ReadValid) -> None:
    swapped = found(
        script, (", {var: age, type: number}]", "]"), ("declare: [{var: mood", "declare: [{var: age}, {var: mood")
    )
    assert [each[2] for each in swapped] == ["`age` was declared in the script, and is now declared in main"]


def test_action_that_takes_an_id_leaves_its_owner_without_one(script: ReadValid) -> None:
    text = OLD.replace("{ask: Age?, id: ask_age", "{ask: Age?, id: ask_mood").replace(
        "{choose: mood, id: ask_mood", "{choose: mood, id: pick"
    )
    new = text + "migrations: {actions: {main/first/ask_age: main/first/ask_mood}}\n"
    assert [("/".join(each.path), each.kind) for each in changes(script(OLD), script(new))] == [
        ("main/first/ask_mood", "removed")
    ]


def test_the_report_is_located_and_counts_sessions(script: ReadValid) -> None:
    new = OLD.replace("id: ask_mood, choices: [low, ok]", "id: ask_mood, choices: [ok]").replace(
        "topic: second", "topic: other"
    )
    gone, choice = changes(script(OLD), script(new))
    problems = Problems("talk.yaml")
    report((gone, choice), problems, {choice: 1})
    assert [(each.code, each.severity, each.line, each.message) for each in problems.sorted()] == [
        ("ID_REMOVED", "warning", 4, "the topic main/second was removed; no running sessions are there"),
        ("ID_REMOVED", "warning", 10, "main/first/ask_mood no longer offers low; 1 running session is there"),
    ]


BESIDE = """\
interrupts:
  - {interrupt: sad, on: [sad], do: [{say: Oh., id: oh}]}
detectors:
  - {detector: crisis, rules: [{words: [die]}], do: [{emit: {event: crisis}, id: call}]}
forms:
  - form: body
    fields: [{field: height, type: number}, {field: hue, choices: [red, blue]}]
"""
ASKED = OLD.replace(
    "{call: breathe, id: calm}", "{form: body, id: fill}, {ask: Pets?, id: pets, output: [PETS]}"
).replace("PETS", "{tolist: pets, fields: [{get: kind}, {get: age, type: number}]}")


@pytest.mark.parametrize(
    ("old", "new", "kind", "path"),
    [
        ("interrupt: sad", "interrupt: low", "removed", ":interrupts/sad"),
        ("id: oh", "id: ah", "removed", ":interrupts/sad/oh"),
        ("detector: crisis", "detector: danger", "removed", ":detectors/crisis"),
        ("id: call", "id: tell", "removed", ":detectors/crisis/call"),
        ("{emit: {event: crisis}, id: call}", "{say: Well., id: call}", "type", ":detectors/crisis/call"),
        ("height, type: number", "height, type: date", "variable", "last/third/fill"),
        ("choices: [red, blue]", "choices: [red]", "variable", "last/third/fill"),
        ("{field: height, type: number}, ", "", "variable", "last/third/fill"),
        ("{get: age, type: number}]}]", "{get: age, type: text}]}]", "variable", "last/third/pets"),
    ],
)
def test_interrupts_detectors_forms_and_records_are_compared(script: ReadValid, old, new, kind, path) -> None:
    before = ASKED + BESIDE
    assert old in before
    found = changes(script(before), script(before.replace(old, new)))
    assert [(each.kind, "/".join(each.path)) for each in found] == [(kind, path)]


def test_interrupts_and_detectors_may_be_renamed(script: ReadValid) -> None:
    before = ASKED + BESIDE
    renamed = before.replace("interrupt: sad", "interrupt: low").replace("detector: crisis", "detector: danger")
    renames = "migrations: {interrupts: {sad: low}, detectors: {crisis: danger}}\n"
    assert changes(script(before), script(renamed + renames)) == ()


def test_action_whose_number_changed_is_reported_with_its_old_id(script: ReadValid) -> None:
    head = "cuebook: 1\nscript: talk\nactions:\n"
    old = script(head + "  - say: Hello.\n  - {ask: Age?, into: age}\n  - {say: Bye., id: bye}\n")
    new = script(head + "  - say: New.\n  - say: Hello.\n  - {ask: Age?, into: age}\n  - {say: Bye., id: bye}\n")
    (change,) = changes(old, new)
    assert (change.kind, change.path, change.fix) == ("renumbered", ("main", "main", "say_1"), "Add `id: say_1`.")
    named = script(head + "  - say: New.\n  - {say: Hello., id: say_1}\n  - {ask: Age?, into: age}\n")
    assert [each.kind for each in changes(old, named)] == ["removed"]  # the last action


@pytest.mark.parametrize(("old", "beside"), [("id: oh", "interrupts"), ("id: call", "detectors")])
def test_an_action_beside_the_phases_has_to_keep_its_id(script: ReadValid, old, beside) -> None:
    text = OLD + BESIDE
    (change,) = changes(script(text), script(text.replace(old, "id: new")))
    assert change.fix == f"Keep its id: actions of {beside} cannot be renamed."

"""Case files: what they may hold, what is wrong with them and where, and what a case that fails says."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixture_types import RunCommand, WriteFile

SCRIPT = """\
script: tea
declare:
  - {var: cups, type: number}
  - {var: sweet, type: boolean}
use: [globals.yaml]
phases:
  - phase: order
    declare: [{var: size}]
    topics:
      - topic: tea
        actions:
          - say: "[1] Tea?"
            id: greet
          - ask: How many cups?
            id: ask_cups
            output: [{get: cups, type: number, min: 1, max: 9}]
          - choose: size
            id: choose_size
            question: Which size?
            choices: [{S: small}, {L: large}]
          - set: {sweet: "true"}
            id: sweeten
          - say: "{{ cups }} × {{ size }}, {{ nothing }}"
            id: confirm
          - end: served
            id: served
"""
GLOBALS = "globals:\n  - {var: visits, type: number, value: 2}\n"

PASSING = """\
script: tea.yaml
cases:
  - name: two small ones
    seed: 3
    now: 2026-01-31T10:00:00Z
    locale: zh
    variables: {visits: 3}
    turns:
      - expect: ["[1] Tea?", "How many*"]
        wait: text
        at: order/tea/ask_cups
      - say: many
        expect: 抱歉*
      - say: 2
        wait: choice
      - choose: S
        expect: ["2 × S, "]
    end:
      status: completed
      reason: served
      variables: {cups: 2, sweet: true}
      scopes: {global: {visits: 3}, session: {cups: 2}, phase: {size: null}, topic: {cups: null}}
    warnings: [undefined_variable]
"""


@pytest.fixture
def test(cuebook: RunCommand, write: WriteFile) -> Callable[..., Any]:
    """Run ``cuebook test`` on a case file for the script above, and gives its result with the document."""
    write("tea.yaml", SCRIPT)
    write("globals.yaml", GLOBALS)

    def run(text: str, exit_code: int) -> Any:
        write("tea.case.yaml", text)
        result = cuebook("test", "tea.case.yaml", "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    return run


def test_a_case_that_holds_passes(test: Callable[..., Any]) -> None:
    document = test(PASSING, 0)
    assert (document["cases"], document["passed"], document["failed"]) == (1, 1, 0)
    (result,) = document["results"]
    assert (result["name"], result["script"], result["line"], result["turns"]) == ("two small ones", "tea.yaml", 3, 4)
    assert document["diagnostics"] == []
    assert "coverage" not in document


@pytest.mark.parametrize(
    ("old", "new", "failure"),
    [
        ('"How many*"', '"How few*"', ("message 2", "How few*", "How many cups?", 9, 0)),
        ('"[1] Tea?", "How many*"', '"[1] Tea?"', ("message 2", None, "How many cups?", 9, 0)),
        ("expect: 抱歉*", 'expect: ["抱歉*", more]', ("message 2", "more", None, 13, 1)),
        ("wait: choice", "wait: text", ("wait", "text", "choice", 15, 2)),
        ("at: order/tea/ask_cups", "at: order/tea/greet", ("at", "order/tea/greet", "order/tea/ask_cups", 11, 0)),
        ("status: completed", "status: paused", ("status", "paused", "completed", 19, None)),
        ("reason: served", "reason: drunk", ("reason", "drunk", "served", 20, None)),
        ("sweet: true", "sweet: 1", ("variable sweet", 1, True, 21, None)),
        ("global: {visits: 3}", "global: {visits: 2}", ("global variable visits", 2, 3, 22, None)),
        ("phase: {size: null}", "phase: {size: S}", ("phase variable size", "S", None, 22, None)),
    ],
)
def test_failure_names_both_sides_and_the_expectations_line(
    test: Callable[..., Any], old: str, new: str, failure: tuple[Any, ...]
) -> None:
    assert PASSING.count(old) == 1
    (found,) = test(PASSING.replace(old, new), 1)["results"][0]["failures"]
    assert tuple(found[key] for key in ("what", "expected", "got", "line", "turn")) == failure
    assert found["file"] == "tea.case.yaml"


def test_a_pattern_that_a_comma_cut_off_is_explained(cuebook: RunCommand, write: WriteFile) -> None:
    write("tea.yaml", "cuebook: 1\nscript: tea\nactions: [{say: 'Tea, please.'}]\n")
    write("tea.case.yaml", "script: tea.yaml\ncases:\n  - {name: a, turns: [{expect: [Tea, please.]}]}\n")
    failed = cuebook("test", "tea.case.yaml")
    hint = "In [ ] a comma ends a text: put quotes around a text with a comma."
    assert (failed.exit_code, failed.stdout.count(hint)) == (1, 1)


def test_unexpected_warnings_are_listed_with_their_place(test: Callable[..., Any]) -> None:
    (found,) = test(PASSING.replace("[undefined_variable]", "[]"), 1)["results"][0]["failures"]
    assert found["got"] == ["undefined_variable in turn 3 at confirm: `nothing` has no value"]
    assert test(PASSING.replace("[undefined_variable]", "null"), 0)["passed"] == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("choose: S", "choose: M", "there is no choice 'M'; there are S, L"),
        ("say: many", "choose: S", "the session waits for text, not for a choice"),
    ],
)
def test_a_reply_the_session_does_not_take_is_a_failure(
    test: Callable[..., Any], old: str, new: str, words: str
) -> None:
    (found,) = test(PASSING.replace(old, new), 1)["results"][0]["failures"]
    assert found["got"] == words


def test_replies_after_the_end_are_a_failure(test: Callable[..., Any]) -> None:
    text = PASSING.replace("    end:\n", "      - say: more\n    end:\n")
    (found,) = test(text, 1)["results"][0]["failures"]
    assert (found["turn"], found["got"]) == (4, "the session is completed and waits for no input")


CASE = "script: tea.yaml\ncases:\n  - name: a\n"


@pytest.mark.parametrize(
    ("text", "place", "code", "words"),
    [
        ("script: tea.yaml\ncase: []\n", (2, 1), "UNKNOWN_KEY", "cases"),
        (CASE + "    turn: []\n", (4, 5), "UNKNOWN_KEY", "turns"),
        (CASE + "    turns: [{}, {sai: x}]\n", (4, 18), "UNKNOWN_KEY", "say"),
        (CASE + "    turns: {}\n", (4, 12), "TYPE_MISMATCH", "a list"),
        (CASE + "    turns: [{wait: tea}]\n", (4, 20), "ENUM_VALUE_INVALID", "'tea'"),
        (CASE + "    turns: [{}]\n    seed: x\n", (5, 11), "TYPE_MISMATCH", "a whole number"),
        (CASE + "    turns: [{}]\n    now: noon\n", (5, 10), "TYPE_MISMATCH", "noon"),
        (CASE + "    turns: [{}]\n    locale: french\n", (5, 13), "LOCALE_INVALID", "'french'"),
        (CASE + "    turns: [{}]\n    end: {scopes: {sesion: {}}}\n", (5, 20), "UNKNOWN_KEY", "session"),
        (CASE + "    turns: []\n", (4, 12), "REQUIRED_FIELD_MISSING", "at least one turn"),
        (CASE + "    turns: [{say: hi}]\n", (4, 13), "KEY_CONFLICT", "beginning"),
        (CASE + "    turns: [{}, {}]\n", (4, 17), "REQUIRED_FIELD_MISSING", "`say`, `choose`"),
        (CASE + "    turns: [{}, {say: a, choose: b}]\n", (4, 17), "KEY_CONFLICT", "either"),
        (CASE + "    name: b\n", (4, 5), "DUPLICATE_KEY", "`name`"),
        (CASE + "    turns: [{}]\n    replies: {a: [{exitt: 1}]}\n", (5, 20), "UNKNOWN_KEY", "`exit`"),
        (CASE + "    turns: [{}]\n    replies: {a: [3]}\n", (5, 19), "TYPE_MISMATCH", "a text or a mapping"),
        (CASE + "    turns: [{}]\n    model: none.yaml\n", (5, 12), "USE_NOT_FOUND", "none.yaml"),
        (CASE + "    turns: [{}]\n    replies: {a: [b]}\n    model: m\n", (6, 12), "KEY_CONFLICT", "model"),
        (CASE + "    turns: [{}]\n    after: b\n", (5, 12), "ENUM_VALUE_INVALID", "no case above has the name 'b'"),
        (CASE + "    turns: [{}]\n    memories: [{txt: a}]\n", (5, 17), "UNKNOWN_KEY", "text"),
        (CASE + "    turns: [{}]\n    memories: [{text: a, time: now}]\n", (5, 32), "TYPE_MISMATCH", "now"),
        ("script: no.yaml\ncases: []\n", (1, 9), "USE_NOT_FOUND", "no.yaml"),
        ("script: globals.yaml\ncases: []\n", (1, 9), "USE_NOT_FOUND", "cannot be run"),
        ("cases: [\n", (2, 1), "SYNTAX_ERROR", ""),
        ("", (1, 1), "UNRECOGNISED_SCRIPT", "empty"),
    ],
)
def test_what_is_wrong_with_a_case_file_has_its_place(
    test: Callable[..., Any], text: str, place: tuple[int, int], code: str, words: str
) -> None:
    document = test(text, 2)
    assert document["cases"] == 0
    problem = next(each for each in document["diagnostics"] if each["code"] == code)
    assert (problem["line"], problem["column"]) == place
    assert words in problem["message"] + problem["fix"]
    assert problem["file"] == "tea.case.yaml"


def test_a_broken_file_does_not_keep_the_others_from_running(
    test: Callable[..., Any], cuebook: RunCommand, write: WriteFile
) -> None:
    test(PASSING, 0)
    write("broken.case.yaml", "cases: 3\n")
    result = cuebook("test")
    assert result.exit_code == 2
    assert "broken.case.yaml:1:8 TYPE_MISMATCH" in result.stdout
    assert "1 case: 1 passed, 0 failed" in result.stdout


LED = """\
script: led
phases: [{phase: p, topics: [{topic: t, actions: [
  {ai_ask: Find out the name., id: who, output: [{get: name}]}, {say: 'Hi {{ name }}', id: hi}]}]}]
"""
REPLIES = '{who: ["And you are?", {exit: true, values: {name: Ana}}]}'


@pytest.mark.parametrize("model", [f"replies: {REPLIES}", "model: said.yaml"])
def test_a_case_may_say_what_the_model_says(cuebook: RunCommand, write: WriteFile, model: str) -> None:
    write("led.yaml", LED)
    write("cases/said.yaml", f"replies: {REPLIES}")
    turns = "[{expect: [And you are?]}, {say: me, expect: [Hi Ana]}]"
    write("cases/led.case.yaml", f"script: ../led.yaml\ncases:\n  - name: led\n    turns: {turns}\n    {model}\n")
    assert cuebook("test").exit_code == 0


def test_a_turn_that_fails_is_logged_with_its_place(cuebook: RunCommand, write: WriteFile) -> None:
    write("led.yaml", LED)
    path = "script: led.yaml\ncases:\n  - name: led\n    model: said.yaml\n    turns:\n      - expect: [x]\n"
    write("led.case.yaml", path)
    write("said.yaml", "replies: {whom: [hm]}")
    result = cuebook("test")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "FAIL  led: led",
        "  led.case.yaml:6 turn 0 (the beginning): the turn",
        '    expected "a turn without failure"',
        '    got      "p/t/who: no reply is written for who; the nearest is whom"',
        "1 case: 0 passed, 1 failed",
    ]


SHOWING = """\
script: showing
phases:
  - phase: p
    topics:
      - topic: never
        when: 1 > 2
        actions: [{say: No., id: no}]
      - topic: t
        actions:
          - {say: Welcome., id: hi}
          - {show: {image: "cat.png", caption: A cat}, id: cat}
          - {emit: {event: begun, data: {n: 1 + 1, list: "[true]"}}, id: tell}
          - {say: Not this., id: hidden, when: "false"}
          - choose: drink
            id: drink
            choices: [{tea: Tea please}, {milk: Milk}]
          - {user_say: Go on., id: go_on}
"""
CAT = {"image": "cat.png", "caption": "A cat"}
BEGUN = {"event": "begun", "data": {"n": 2, "list": [True]}}
SHOWN = """\
script: showing.yaml
cases:
  - name: all that a turn can show
    turns:
      - expect: [Welcome., A cat]
        not_said: ["Not*", "*dog*"]
        show: [{image: "*.png", caption: A cat}]
        emit: [{event: begun, data: {n: 2, list: [true]}}]
        skipped: [never, hidden]
        wait: choice
        choices: [tea, {milk: M*}]
        at: p/t/drink
      - choose: milk
        emit: []
        skipped: []
        show: []
        wait: suggestion
        suggestion: Go*
        variables: {drink: milk}
    end: {status: waiting_input}
"""


def test_all_that_a_turn_shows_can_be_expected(cuebook: RunCommand, write: WriteFile) -> None:
    write("showing.yaml", SHOWING)
    write("showing.case.yaml", SHOWN)
    assert cuebook("test").exit_code == 0
    write("showing.case.yaml", SHOWN.replace(", data: {n: 2, list: [true]}", ""))
    assert cuebook("test").exit_code == 0  # data that is not given is not compared


@pytest.mark.parametrize(
    ("old", "new", "failure"),
    [
        ('"*dog*"', '"*cat"', ("not_said", "no message like *cat", "A cat", 6)),
        ('image: "*.png"', "image: dog*", ("show 1", {"image": "dog*", "caption": "A cat"}, CAT, 7)),
        ("show: []", "show: [{}]", ("show 1", {}, None, 16)),
        ("n: 2,", "n: 3,", ("emit 1", {"event": "begun", "data": {"n": 3, "list": [True]}}, BEGUN, 8)),
        ("n: 2,", "", ("emit 1", {"event": "begun", "data": {"list": [True]}}, BEGUN, 8)),
        ("list: [true]", "list: [1]", ("emit 1", {"event": "begun", "data": {"n": 2, "list": [1]}}, BEGUN, 8)),
        ("emit: []", "emit: [{event: x}]", ("emit 1", {"event": "x"}, None, 14)),
        ("skipped: []", "skipped: [no]", ("skipped", ["no"], [], 15)),
        ("skipped: [never, hidden]", "skipped: [hidden]", ("skipped", ["hidden"], ["never", "hidden"], 9)),
        ("{milk: M*}", "{milk: T*}", ("choice 2", {"milk": "T*"}, {"milk": "Milk"}, 11)),
        ("choices: [tea, {milk: M*}]", "choices: [tea]", ("choice 2", None, {"milk": "Milk"}, 11)),
        ("suggestion: Go*", "suggestion: Stop", ("suggestion", "Stop", "Go on.", 18)),
        ("drink: milk", "drink: tea", ("variable drink", "tea", "milk", 19)),
    ],
)
def test_what_a_turn_shows_otherwise_is_a_failure(
    cuebook: RunCommand, write: WriteFile, old: str, new: str, failure: tuple[Any, ...]
) -> None:
    assert SHOWN.count(old) == 1
    write("showing.yaml", SHOWING)
    write("showing.case.yaml", SHOWN.replace(old, new))
    result = cuebook("test", "--json")
    assert result.exit_code == 1, result.stderr
    (found,) = json.loads(result.stdout)["results"][0]["failures"]
    assert tuple(found[key] for key in ("what", "expected", "got", "line")) == failure


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("at: p/t/drink", "at: p/t/drunk", (12, 13), "Did you mean `p/t/drink`?"),
        ("skipped: [never, hidden]", "skipped: [never, hiden]", (9, 26), "Did you mean `hidden`?"),
        ("variables: {drink:", "variables: {drnk:", (19, 21), "Did you mean `drink`?"),
        ("{status: waiting_input}", "{scopes: {topic: {drnk: null}}}", (20, 28), "Did you mean `drink`?"),
        ("    turns:", "    replies: {drnk: [hm]}\n    turns:", (4, 15), "Did you mean `drink`?"),
    ],
)
def test_name_that_the_script_lacks_is_reported_with_its_place(
    cuebook: RunCommand, write: WriteFile, old: str, new: str, place: tuple[int, int], words: str
) -> None:
    assert SHOWN.count(old) == 1
    write("showing.yaml", SHOWING)
    write("showing.case.yaml", SHOWN.replace(old, new))
    (problem,) = json.loads(cuebook("test", "--json").stdout)["diagnostics"]
    assert (problem["line"], problem["column"]) == place
    assert words in problem["fix"]


def test_a_folder_without_cases_says_how_to_write_the_first(
    cuebook: RunCommand, write: WriteFile, tmp_path: Path
) -> None:
    write("talks/globals.yaml", GLOBALS)
    write("talks/tea.yaml", SCRIPT)
    result = cuebook("test", "talks")
    assert (result.exit_code, result.stdout) == (2, "")
    head, _, case = result.stderr.partition("\n\n")
    assert head.endswith("Save the first as talks/tea.case.yaml:")
    write("talks/tea.case.yaml", textwrap.dedent(case).replace('["*"]', '["*", "*"]', 1))
    assert cuebook("test", "talks").exit_code == 0


REMEMBERING = """\
script: tea
phases:
  - phase: only
    topics:
      - topic: tea
        actions:
          - recall: tea
            id: known
            into: known
            filters: {metadata.about: tea}
          - say: "{% for each in known %}{{ each.time[:10] }} {{ each.source }}: {{ each.text }}{% endfor %}"
            id: told
          - ask: Which tea?
            id: ask_tea
            output: [{get: tea}]
          - {remember: "The tea: {{ tea }}", id: note, about: tea}
"""


def test_case_may_begin_with_values_or_after_another_case(cuebook: RunCommand, write: WriteFile) -> None:
    write("tea.yaml", REMEMBERING)
    write(
        "tea.case.yaml",
        """
        script: tea.yaml
        cases:
          - name: first
            turns: [{expect: [Which tea?]}, {say: green}]
          - name: next
            after: first
            turns: [{expect: ["2026-01-31 script: The tea: green", Which tea?]}, {say: black}]
          - name: the one after
            after: next
            now: 2026-02-01T12:00:00Z
            turns: [{expect: ["2026-01-31 script: The tea: black", Which tea?]}]
            end: {status: waiting_input}
          - name: known
            memories:
              - "of tea, but about nothing"
              - {text: the tea is white, source: nurse, about: tea, time: 2025-12-24T10:00:00}
            turns: [{expect: ["2025-12-24 nurse: the tea is white", Which tea?]}]
            end: {status: waiting_input}
        """,
    )
    result = cuebook("test", "tea.case.yaml")
    assert result.exit_code == 0, result.output


def test_a_filter_that_is_none_fails_the_turn_that_asks_by_it(cuebook: RunCommand, write: WriteFile) -> None:
    write("tea.yaml", REMEMBERING.replace("metadata.about", "abouts"))
    write("tea.case.yaml", "script: tea.yaml\ncases: [{name: a, turns: [{}]}]\n")
    result = cuebook("test", "tea.case.yaml", "--json")
    (failure,) = json.loads(result.stdout)["results"][0]["failures"]
    assert "only/tea/known" in failure["got"]
    assert "no field 'abouts'" in failure["got"]


ASLEEP = """\
cuebook: 1
script: asleep
detectors: [{detector: worry, define: the user is worried, do: [emit: worry]}]
interrupts: [{interrupt: stop, on: the user wants to stop, do: [{say: "We stop."}], then: skip}]
phases:
- phase: days
  topics:
  - {topic: night, actions: [{wait: 1 day, on_message: talk/aside}, {ask: Well?, id: well, into: how}]}
- phase: talk
  topics:
  - {topic: aside, when: "false", actions: [{ask: What is it?, id: what, into: it}]}
"""
AWOKEN = """\
script: asleep.yaml
cases:
- name: a message in the night
  replies:
    worry.detect: [{}, {score: 1}, {}]
    well.route: [{intent: stop}]
    context.memo: [{values: {name: Ana}}]
  turns:
  - {}
  - {say: Are you there?, expect: [What is it?], at: days/night/what}
  - {say: A worry., emit: [{event: worry}]}
  - {pass: 1 day, expect: [Well?], at: days/night/well}
  - {say: It is enough., expect: [We stop.]}
  warnings: [value_missing]
"""


def test_a_case_expects_what_answers_in_a_wait_and_all_verdicts(cuebook: RunCommand, write: WriteFile) -> None:
    write("asleep.yaml", ASLEEP)
    done = cuebook("test", write("asleep.case.yaml", AWOKEN), "--coverage")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "ok    asleep: a message in the night")
    assert done.stdout.splitlines()[-1] == "asleep.yaml\t2/2\t2/2\t5/5\t2/2\t2/2"

"""Scripts with anything at all changed in them: always read to the end, every problem inside its file."""

import subprocess
import sys
from copy import deepcopy

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.parse.folder import script_files
from scripts.parse.read_script import Source, read_script
from tests.support.effort import repeats
from tests.support.paths import LIBRARY, ROOT
from tests.support.script_readers import library_readings

NATIVE = """\
script: sleep
title: How do you sleep?
declare: [{var: hours, type: number, value: 8}, {var: mood, type: choice, choices: [low, ok]}]
phases:
  - phase: opening
    when: not returning
    topics:
      - topic: welcome
        declare: [name]
        actions:
          - {say: ["Hello.", "Good morning."], id: hello}
          - ask: What shall I call you?
            id: ask_name
            output: [{get: name, pattern: "\\\\w+", default: you, fallback: raw}]
            max_rounds: 2
            on_fail: {goto: nights}
          - {ai_say: "Explain the talk to {{ name }}.", id: explain, require_acknowledgment: true}
      - topic: nights
        actions:
          - ai_ask: Find out how long the visitor sleeps.
            id: ask_hours
            output: [{get: hours, type: number, min: 0, max: 24}, {set: short, value: hours < 6}]
            exit_when: hours > 0
            exit_criteria: {min_rounds: 1, custom_conditions: [{variable: hours, operator: ">", value: 0}]}
          - if: short
            id: branch
            then: [{say: "Only {{ hours }}?", id: only}, {choose: mood, id: pick, choices: [{low: Low}, {ok: Fine}]}]
            else: [{set: {rested: true, mood: "'ok'"}, id: note}]
          - {foreach: range(3) as n, id: count, do: [{say: "{{ n }}", id: number}]}
          - {repeat: {until: hours > 5, max: 3}, id: again, do: [{user_say: I see., id: see}]}
          - {show: {image: moon.png, caption: "Good night, {{ user.id }}"}, id: picture}
          - {ai_think: Sum up., id: think, output: [summary]}
          - {goto: opening/welcome, when: false, id: jump}
          - {end: done, id: finish}
"""
SESSION = """\
metadata: {name: Sleep, version: "1.0"}
session:
  session_id: sleep
  phases:
    - phase_id: opening
      entry_condition: "!{returning} && {age} >= 18"
      topics:
        - topic_id: welcome
          declare: [{var: age, value: 20}, {var: returning, value: false}]
          actions:
            - {action_type: ai_say, action_id: hello, config: {content: "Hello {name}", max_rounds: 2, tone: warm}}
            - action_type: ai_ask
              action_id: ask
              config:
                question_template: "How long do you sleep, ${name}?"
                target_variable: hours
                extraction_prompt: hours of sleep
                required: true
                exit: an answer was given
            - {type: ai_think, id: think, think_goal: sum up, output_variables: [summary]}
            - {action_type: show_pic, action_id: moon, config: {image: moon.png}}
"""
OURS = [NATIVE, SESSION, *(path.read_text("utf-8") for path in script_files(LIBRARY))]
PIECES = [
    "{{",
    "}}",
    "{% set %}",
    ": ",
    "- ",
    "\n",
    "\t",
    "'",
    '"',
    "|",
    "&a ",
    "*a",
    "!!x ",
    "---\n",
    "<<: ",
    "[",
    "]",
    "{",
    "}",
]
PIECES += ["\x00", "\ud800", "\ufeff", "\u2028", "\x85", "9" * 400, "~", "#", "%", "用户", "😀"]
ODD_VALUES = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        15,
        10**30,
        1.5,
        "",
        " ",
        "{{",
        "a b",
        "now",
        "x" * 300,
        "用户",
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"a": {"b": 1}},
    ]
)
SHORT = settings(max_examples=repeats(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def holds(text: str) -> None:
    lines = text.count("\n") + sum(map(text.count, "\r\x85\u2028\u2029")) + 1
    for mode in ("strict", "compat"):
        reading = read_script(Source(text, "talk.yaml"), mode)
        assert (reading.script is None) == bool(reading.errors)
        assert all(1 <= problem.line <= lines + 1 for problem in reading.problems), reading.problems
        assert all(1 <= problem.column <= len(text) + 1 for problem in reading.problems), reading.problems
        assert all(problem.message and problem.fix for problem in reading.problems)


def test_our_own_scripts_are_sound() -> None:
    for reading in (read_script(Source(NATIVE)), read_script(Source(SESSION)), *library_readings()):
        assert reading.errors == (), [str(problem) for problem in reading.errors]


@SHORT
@given(st.data())
def test_a_text_with_anything_cut_or_put_in_is_read_to_the_end(data) -> None:
    text = data.draw(st.sampled_from(OURS))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        text = text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[start + cut :]
    holds(text)


@pytest.mark.gate
@SHORT
@given(st.data())
def test_a_tree_with_anything_replaced_is_read_to_the_end(data) -> None:
    document = yaml.load(data.draw(st.sampled_from(OURS)), Loader=yaml.CSafeLoader)
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(document, data)
    holds(yaml.safe_dump(document, allow_unicode=True, sort_keys=False))


@pytest.mark.slow
def test_changed_scripts_of_every_form_are_read_to_the_end() -> None:
    command = [sys.executable, str(ROOT / "tests/slow/mutate_scripts.py"), "--count", "2000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-4000:]
    assert int(done.stdout.split("read, ")[1].split(" ")[0].replace(",", "")) > 50  # some of them stayed sound


def mutate(part, data) -> None:
    """Go down at random and there drops, renames, doubles or replaces something."""
    keys = list(part) if isinstance(part, dict) else list(range(len(part)))
    if not keys:
        return
    key = data.draw(st.sampled_from(keys))
    if isinstance(part[key], dict | list) and data.draw(st.integers(0, 3)):
        mutate(part[key], data)
    else:
        change(part, key, data)


def change(part, key, data) -> None:
    match data.draw(st.sampled_from(["drop", "rename", "double", "replace"])):
        case "drop":
            del part[key]
        case "rename" if isinstance(part, dict):
            part[data.draw(st.sampled_from(["say", "id", "config", "when", "x", "", "declare", "phases"]))] = part.pop(
                key
            )
        case "double" if isinstance(part, list):
            part.append(part[key])
        case _:
            part[key] = deepcopy(data.draw(ODD_VALUES))

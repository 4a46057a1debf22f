"""Where a variable that is read gets its value from, and what the checker says when it gets none."""

import pytest

from scripts.model.variable_names import names_in
from tests.support.script_readers import ReadScript

HEAD = """
script: talk
{top}
phases:
  - phase: one
    {phase}
    topics:
      - topic: first
        {topic}
        actions:
          {first}
      - topic: second
        actions:
          {second}
  - phase: two
    {other}
    topics:
      - topic: last
        actions:
          {last}
"""
NAMES = ("top", "phase", "topic", "first", "second", "other", "last")
NEVER, ELSEWHERE, CROSS = ("VARIABLE_NEVER_SET", "VARIABLE_UNDECLARED", "CROSS_TOPIC_READ")
SAY_X = '- {say: "{{ x }}", id: read}'
SET_X = "- {set: {x: 1}, id: write}"
DECLARE_X = "declare: [{var: x}]"
GIVEN_X = "declare: [{var: x, value: 1}]"
HELP_X = "interrupts: [{interrupt: help, on: [help], do: [{say: '{{ x }}', id: told}]}]"
QUIET = "- {say: Hello., id: hello}"


def flow(read, **parts):
    filled = dict.fromkeys(NAMES, "") | {"first": QUIET, "second": QUIET, "last": QUIET} | parts
    text = HEAD
    for name, part in filled.items():
        text = text.replace("{" + name + "}", part)
    reading = read(text, shared_yaml="globals: [{var: x}]")
    assert reading.script is not None, reading.problems
    return [problem.code for problem in reading.problems if problem.code in {NEVER, ELSEWHERE, CROSS}]


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({"first": SAY_X}, [NEVER]),
        ({"top": DECLARE_X, "first": SAY_X, "last": SAY_X}, []),
        ({"top": "use: [shared.yaml]", "first": SAY_X, "last": SAY_X}, []),
        ({"phase": DECLARE_X, "first": SAY_X, "second": SAY_X}, []),
        ({"phase": DECLARE_X, "last": SAY_X}, [NEVER]),
        ({"phase": GIVEN_X, "last": SAY_X}, [ELSEWHERE]),
        ({"topic": GIVEN_X, "second": SAY_X}, [ELSEWHERE]),
        ({"topic": GIVEN_X, "top": HELP_X}, [ELSEWHERE]),
        ({"topic": GIVEN_X, "top": "default_scope: session", "second": SAY_X}, [ELSEWHERE]),
        ({"topic": DECLARE_X, "top": "default_scope: session", "first": SET_X, "second": SAY_X}, [ELSEWHERE]),
        ({"phase": DECLARE_X, "top": "default_scope: session", "first": SET_X, "last": SAY_X}, [ELSEWHERE]),
        ({"phase": DECLARE_X, "top": HELP_X}, []),
        ({"topic": DECLARE_X, "top": HELP_X}, [NEVER]),
        ({"topic": DECLARE_X, "first": SAY_X}, []),
        ({"topic": DECLARE_X, "second": SAY_X}, [NEVER]),
        ({"phase": DECLARE_X + "\n    when: x"}, []),
        ({"topic": DECLARE_X + "\n        when: x"}, [NEVER]),
        ({"first": SET_X, "second": SAY_X}, [ELSEWHERE]),
        ({"first": SET_X, "last": SAY_X}, [ELSEWHERE]),
        ({"first": SET_X, "other": "when: x"}, [ELSEWHERE]),
        ({"top": "default_scope: session", "first": SET_X, "last": SAY_X}, [CROSS]),
        ({"top": "default_scope: session", "last": SAY_X}, [NEVER]),
        ({"top": DECLARE_X, "first": SET_X, "last": SAY_X}, []),
    ],
)
def test_a_variable_is_followed_across_scopes(read: ReadScript, parts, found) -> None:
    assert flow(read, **parts) == found


@pytest.mark.parametrize(
    "written",
    [
        SET_X,
        "- {ask: What?, id: write, output: [x]}",
        "- {ai_ask: What?, id: write, output: [{get: y}, {set: x, value: 1}]}",
        "- {ai_think: Sum up., id: write, output: [x]}",
        "- {choose: x, id: write, choices: [a, b]}",
        "- {if: true, id: write, then: [{set: {x: 1}, id: inner}]}",
        "- {repeat: {max: 2}, id: write, do: [{set: {x: 1}, id: inner}]}",
        "- {choose: y, id: write, choices: [{A: a, actions: [{set: {x: 1}, id: inner}]}]}",
    ],
)
def test_whatever_writes_a_variable_counts(read: ReadScript, written) -> None:
    assert flow(read, first=f"{written}\n          {SAY_X}") == []


@pytest.mark.parametrize(
    "reading",
    [
        SAY_X,
        "- {say: Hello., id: read, when: x > 1}",
        "- {ai_say: 'About {{ x }}.', id: read}",
        "- {ask: '{{ x }}?', id: read}",
        "- {ask: 'Well?', id: read, invalid: '{{ x }}'}",
        "- {ask: 'Well?', id: read, output: [{get: y, validate: y > x}]}",
        "- {ask: 'Well?', id: read, output: [{set: y, value: x}]}",
        "- {ai_ask: Well?, id: read, exit_when: x}",
        "- {ai_ask: Well?, id: read, exit: 'said {{ x }}'}",
        "- {ai_ask: Well?, id: read, exit_criteria: {custom_conditions: [{variable: x, operator: '==', value: 1}]}}",
        "- {set: {y: x + 1}, id: read}",
        "- {user_say: '{{ x }}', id: read}",
        "- {show: {image: '{{ x }}.png'}, id: read}",
        "- {choose: y, id: read, choices: [{A: '{{ x }}'}]}",
        "- {if: x, id: read, then: []}",
        "- {foreach: x as each, id: read, do: []}",
        "- {repeat: {until: x}, id: read, do: []}",
        "- {say: \"{{ vars['x'] }}\", id: read}",
    ],
)
def test_wherever_a_variable_is_read_it_must_come_from_somewhere(read: ReadScript, reading) -> None:
    assert flow(read, first=reading) == [NEVER]


@pytest.mark.parametrize(
    "reading",
    [
        "- {foreach: range(3) as x, id: loop, do: [{say: '{{ x }}', id: read}]}",
        '- {say: "{% for x in [1] %}{{ x }}{% endfor %}", id: read}',
        "- {ask: 'Well?', id: read, output: [{get: x, validate: x > 1}]}",
        '- {say: "{{ now }} {{ today }} {{ round }} {{ user.id }} {{ role }} {{ history(2)|length }}", id: read}',
    ],
)
def test_a_name_that_is_at_hand_needs_no_declaration(read: ReadScript, reading) -> None:
    assert flow(read, first=reading) == []


def test_a_loop_s_name_ends_with_the_loop(read: ReadScript) -> None:
    loop = "- {foreach: range(3) as x, id: loop, do: [{say: a, id: b}]}"
    assert flow(read, first=f"{loop}\n          {SAY_X}") == [NEVER]


def test_a_misspelled_name_is_reported_with_the_likely_one(read: ReadScript) -> None:
    reading = read(
        HEAD.format_map(
            dict.fromkeys(NAMES, "")
            | {
                "top": "declare: [{var: nickname}]",
                "first": '- {say: "{{ nicknam }}", id: a}',
                "second": QUIET,
                "last": QUIET,
            }
        )
    )
    problem = next(problem for problem in reading.problems if problem.code == NEVER)
    assert (problem.fix, problem.path) == ("Did you mean `nickname`?", "one/first")


def test_value_declared_in_another_topic_is_named_with_its_topic(read: ReadScript) -> None:
    filled = dict.fromkeys(NAMES, "") | {"topic": GIVEN_X, "first": QUIET, "second": SAY_X, "last": QUIET}
    text = HEAD
    for name, part in filled.items():
        text = text.replace("{" + name + "}", part)
    problem = next(each for each in read(text).problems if each.code == ELSEWHERE)
    assert (problem.message, problem.fix) == (
        "`x` is declared in one/first",
        "Declare it at the top of the script: `declare: [{var: x}]`.",
    )


@pytest.mark.parametrize(
    ("reader", "where"),
    [("second", "in the phase one, or at the top of the script"), ("last", "at the top of the script")],
)
def test_the_fix_says_where_to_declare_a_value_of_another_topic(read: ReadScript, reader: str, where: str) -> None:
    text = HEAD
    filled = (
        dict.fromkeys(NAMES, "") | {"first": QUIET, "second": QUIET, "last": QUIET} | {"first": SET_X, reader: SAY_X}
    )
    for name, part in filled.items():
        text = text.replace("{" + name + "}", part)
    problem = next(each for each in read(text).problems if each.code == ELSEWHERE)
    assert problem.fix == f"Declare it {where}: `declare: [{{var: x}}]`."


@pytest.mark.parametrize(
    ("setters", "named"), [((2, 4), "p2/t"), ((1, 2, 4), "p2/t"), ((4,), "p4/t"), ((4, 5), "p4/t"), ((10, 2), "p2/t")]
)
def test_the_setter_that_comes_before_the_read_is_named(read: ReadScript, setters, named) -> None:
    bodies = dict.fromkeys(setters, SET_X) | {3: SAY_X}
    phases = "\n".join(
        f"- phase: p{number}\n  topics: [{{topic: t, actions: [{body.removeprefix('- ')}]}}]"
        for number, body in sorted({n: bodies.get(n, QUIET) for n in range(1, 11)}.items())
    )
    problems = read(f"script: talk\ndefault_scope: session\nphases:\n{phases}\n").problems
    assert [each.message for each in problems if each.code == CROSS] == [f"`x` is set in {named}"]


RATED = """
script: talk
skills:
- skill: rate
  params: [{var: name}]
  returns: [strength, since]
  actions:
  - {ask: How strong?, id: how, output: [{get: strength, type: number}, {get: since}]}
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {ask: What is it?, id: what, output: [{tolist: all, fields: [name]}]}
    - {call: rate, id: each, foreach: all as complaint, input: {name: complaint.name}, output: {force: strength}}
    - {foreach: all as complaint, id: sum, do: [{say: "{{ complaint.name }}: {{ complaint.force }}", id: s}]}
"""


def test_outputs_of_a_call_for_each_record_are_its_fields(read: ReadScript) -> None:
    assert [str(each) for each in read(RATED).problems if each.code == "VARIABLE_NEVER_READ"] == []
    once = RATED.replace("foreach: all as complaint, input: {name: complaint.name}, ", "input: {name: '1'}, ")
    reported = [each.message for each in read(once).problems if each.code == "VARIABLE_NEVER_READ"]
    assert reported == ["nothing reads `force` before its scope ends"]


@pytest.mark.parametrize(
    "action",
    [
        '- wait: {until: =next, at: "9:00"}',
        "- {ask: How are you?, into: mood, expire: {until: =next}}",
        "- {ask: How are you?, into: mood, remind: [{until: =next, say: Still there?}]}",
    ],
)
def test_the_date_of_a_moment_reads_its_variables(read: ReadScript, action) -> None:
    head = "cuebook: 1\nscript: talk\nlocale: en\ntimezone: Europe/Berlin\nactions:\n"
    reading = read(f"{head}- set: {{next: =today + days(1)}}\n{action}\n")
    assert reading.problems == ()
    assert "next" in names_in(reading.script)


TEXT = """
cuebook: 1
script: talk
actions:
- say: |
    You managed it. What is your age?
    {{ manager }} {{
      age }}
- if: "no_age
    or age > 3"
  then: [{say: Well.}]
"""


def test_a_read_is_reported_in_the_line_of_its_placeholder(read) -> None:
    assert {(each.message, each.line) for each in read(TEXT).problems if each.code == NEVER} == {
        ("nothing sets `manager`", 7),
        ("nothing sets `age`", 8),
        ("nothing sets `no_age`", 9),
        ("nothing sets `age`", 9),
    }

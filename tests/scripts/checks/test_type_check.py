"""Answers that a script counts with, and their types."""

import pytest

from scripts.parse.conversion import convert
from tests.support.script_readers import ReadScript

HEAD = "script: talk\n{top}\nphases:\n- phase: p\n  topics:\n"
TOPIC = "  - topic: {0}\n    actions:\n"
ASK = "    - {ask: How old?, id: ask_age, output: [OUTPUT]}\n"


def found(read, text: str) -> list[tuple[str, int]]:
    codes = {"TYPE_MISSING", "TYPE_CLASH"}
    return [(problem.code, problem.line) for problem in read(text).problems if problem.code in codes]


def topic(*actions: str, output: str = "{get: age}", top: str = "") -> str:
    head = HEAD.format(top=top) + TOPIC.format("t") + ASK.replace("OUTPUT", output)
    return head + "".join(f"    - {{{action}, id: a{number}}}\n" for number, action in enumerate(actions))


@pytest.mark.parametrize(
    "use", ["age + 1", "1 + age", "age * 2", "age - born", "-age", "age % 2", "age | round", "2 ** age"]
)
def test_an_untyped_answer_that_is_counted_with_is_reported(read: ReadScript, use) -> None:
    assert found(read, topic(f"set: {{it: {use}}}")) == [("TYPE_MISSING", 8)]
    assert found(read, topic(f"say: '{{{{ {use} }}}}'")) == [("TYPE_MISSING", 8)]


@pytest.mark.parametrize(
    "use", ["age ~ '!'", "age + '!'", "age + other", "age > limit", "age > 'b'", "age | int + 1", "[age] | length + 1"]
)
def test_an_answer_that_is_not_counted_with_is_not(read: ReadScript, use) -> None:
    assert found(read, topic(f'set: {{it: "{use}"}}')) == []


@pytest.mark.parametrize(
    ("use", "output", "expected"),
    [
        ("age > 18", "{get: age}", [("TYPE_MISSING", "note")]),
        ("18 <= age < 65", "{get: age}", [("TYPE_MISSING", "note")]),
        ("age + 1 > 18 or age > 18", "{get: age}", [("TYPE_MISSING", "warning")]),
        ("age == 18", "{get: age}", []),
        ("age > 18", "{get: age, type: number}", []),
        ("age > 18", "{get: age, pattern: '[0-9]+'}", []),
    ],
)
def test_untyped_answer_compared_with_a_number_is_a_note(
    read: ReadScript, use: str, output: str, expected: list[tuple[str, str]]
) -> None:
    problems = read(topic("say: Hi, when: " + use, output=output)).problems
    assert [(each.code, each.severity) for each in problems if each.code == "TYPE_MISSING"] == expected


def test_the_type_that_is_given_or_declared_counts(read: ReadScript) -> None:
    assert found(read, topic("set: {it: age + 1}", output="{get: age, type: number}")) == []
    assert found(read, topic("set: {it: age + 1}", top="declare: [{var: age, type: number}]")) == []
    assert found(read, topic("set: {it: age + 1}", top="declare: [{var: age}]")) == [("TYPE_MISSING", 8)]
    assert found(read, topic("set: {it: age + 1}", output="{get: age, type: text}")) == [("TYPE_CLASH", 8)]
    assert found(read, topic("set: {it: age + 1}", output="{get: age, choices: [a, b]}")) == [("TYPE_CLASH", 8)]


def test_only_where_the_variable_is_in_sight(read: ReadScript) -> None:
    text = topic() + TOPIC.format("u") + "    - {set: {age: 1}, id: b}\n    - {set: {it: age + 1}, id: c}\n"
    assert found(read, text) == []
    retained = text.replace("script: talk\n", "script: talk\ndefault_scope: session\n")
    assert found(read, retained) == [("TYPE_MISSING", 9)]


def test_a_missing_part_may_set_what_is_not_declared(read: ReadScript) -> None:
    text = topic("ask: And today?, intoo: age", "say: Hi, when: age == 'old'", output="{get: age, type: number}")
    assert found(read, text) == []


def test_an_error_that_leaves_all_variables_hides_no_type(read: ReadScript) -> None:
    text = topic("say: '{{ (age }}'", "say: Hi, when: age == 'old'", output="{get: age, type: number}")
    assert found(read, text) == [("TYPE_CLASH", 10)]


@pytest.mark.parametrize(
    ("declared", "output", "reported"),
    [
        ("{var: fit, value: false}", "{get: fit, type: boolean}", 1),
        ("{var: fit}", "{get: fit, type: boolean}", 1),
        ("{var: fit, value: 3}", "{get: fit, type: number}", 1),
        ("{var: fit, value: unknown}", "{get: fit, type: boolean}", 0),  # a text and yes or no
        ("{var: fit, value: false}", "{get: fit}", 0),
        ("{var: fit, value: false, auto: true, define: fit}", "{get: fit, type: boolean}", 0),
    ],
)
def test_answers_give_a_declared_variable_its_type(read: ReadScript, declared: str, output: str, reported: int) -> None:
    text = topic("say: Hi, when: fit == '否'", output=output, top=f"declare: [{declared}]")
    assert len([code for code, _ in found(read, text) if code == "TYPE_CLASH"]) == reported


def test_any_other_value_takes_the_type_away(read: ReadScript) -> None:
    text = topic(
        "set: {fit: \"'否'\"}",
        "say: Hi, when: fit == '否'",
        output="{get: fit, type: boolean}",
        top="declare: [{var: fit}]",
    )
    assert found(read, text) == []


@pytest.mark.parametrize("top", ["", "declare: [{var: mood}]", "declare: [{var: mood, value: ''}]"])
def test_the_text_of_a_choice_has_its_key_as_the_fix(read: ReadScript, top: str) -> None:
    head = HEAD.format(top=top) + TOPIC.format("t")
    choose = "    - {choose: mood, question: How?, choices: [{a: Good}, {b: Bad}], id: c}\n"
    (problem,) = read(f"{head}{choose}    - {{say: Hi, when: mood == 'Bad', id: s}}\n").problems
    assert (problem.code, problem.fix) == ("TYPE_CLASH", "Write 'b', the key of this choice.")


def test_text_of_a_choice_is_no_clash_if_something_else_sets_it(read: ReadScript) -> None:
    head = HEAD.format(top="declare: [{var: mood}]") + TOPIC.format("t")
    choose = "    - {choose: mood, question: How?, choices: [{a: Good}, {b: Bad}], id: c}\n"
    asked = "    - {ask: How?, output: [mood], id: d}\n"
    assert found(read, f"{head}{choose}{asked}    - {{say: Hi, when: mood == 'Bad', id: s}}\n") == []


@pytest.mark.parametrize(
    ("condition", "reported"),
    [
        ("in 12-18", 1),
        ("in 12", 1),
        ("not in 12", 1),
        ("in true", 1),
        ("in [12, 18]", 0),
        ("in '12'", 0),
        ("in other", 0),
    ],
)
def test_a_list_or_a_text_is_to_the_right_of_in(read: ReadScript, condition: str, reported: int) -> None:
    assert found(read, topic(f'say: Hi, when: "age {condition}"')) == [("TYPE_CLASH", 9)] * reported


def test_answer_of_another_type_is_an_error_in_new_files(read: ReadScript) -> None:
    older = topic(output="{get: age, type: text}", top="declare: [{var: age, type: number}]")
    reading = read(older)
    assert [(each.code, each.severity) for each in reading.problems if each.code != "VARIABLE_NEVER_READ"] == [
        ("ANSWER_TYPE_MISMATCH", "warning")
    ]
    converted = convert(reading.script, reading).text
    errors = read(converted).errors
    assert [(each.code, each.severity) for each in errors] == [("ANSWER_TYPE_MISMATCH", "error")]


@pytest.mark.parametrize("kind", ["number", "date", "time", "datetime", "timezone"])
def test_a_text_variable_stores_answers_of_other_types(read: ReadScript, kind: str) -> None:
    text = topic(output=f"{{get: age, type: {kind}}}", top="declare: [{var: age, type: text}]")
    assert "ANSWER_TYPE_MISMATCH" not in {each.code for each in read(text).problems}


@pytest.mark.parametrize(("value", "reported"), [("=detected.severity", 1), ("=detected.score", 1), ("high", 0)])
@pytest.mark.parametrize("declared", ["", "declare: [risk]\n"])
def test_a_share_that_a_detector_stores_is_a_number(read: ReadScript, value, reported, declared) -> None:
    text = f"cuebook: 1\nscript: talk\nuse: risk.yaml\n{declared}actions: [{{say: Oh., when: risk == 'high'}}]\n"
    risk = f"cuebook: 1\ndetectors:\n- detector: d\n  rules: [{{words: [sad]}}]\n  do: [{{set: {{risk: {value}}}}}]\n"
    problems = [each.code for each in read(text, risk_yaml=risk).problems]
    assert problems.count("TYPE_CLASH") == reported, problems


DIGITS = "[{0: Never}, {1: Always}]"


@pytest.mark.parametrize(
    ("asked", "is_reported"),
    [
        (f"- {{choose: A?, into: a, choices: {DIGITS}}}\n- {{choose: B?, into: b, choices: {DIGITS}}}", True),
        (
            f"- {{ask: A?, into: {{var: a, choices: {DIGITS}}}}}\n- {{ask: B?, into: {{var: b, choices: {DIGITS}}}}}",
            True,
        ),
        ("- {choose: A?, into: a, choices: [x, y]}\n- {choose: B?, into: b, choices: [x, y]}", False),
        (f"- {{choose: A?, into: a, choices: {DIGITS}}}\n- {{choose: B?, into: b, choices: [x, y]}}", False),
    ],
)
def test_choices_of_digits_that_are_added_are_no_numbers(read: ReadScript, asked, is_reported) -> None:
    reading = read(f"cuebook: 1\nscript: s\nactions:\n{asked}\n- say: '{{{{ a + b }}}}'\n")
    assert ("TYPE_CLASH" in {each.code for each in reading.problems}) is is_reported


def test_the_condition_of_a_phase_is_checked_too(read: ReadScript) -> None:
    text = topic(output="{get: adult, type: boolean}", top="default_scope: session")
    text += "- phase: q\n  when: adult == 'yes'\n  topics: [{topic: u, actions: [{say: Hi, id: hi}]}]\n"
    assert found(read, text) == [("TYPE_CLASH", 10)]


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("{get: age, fallback: raw}", []),
        ("{get: age, type: text, fallback: raw}", []),
        ("{get: age, type: choice, fallback: raw}", []),
        ("{get: age, choices: [young, old], fallback: raw}", [8]),
        ("{get: age, type: number, fallback: raw}", [8]),
        ("{get: age, type: date, fallback: raw}", [8]),
    ],
)
def test_fallback_of_a_value_that_is_no_text_is_reported(read: ReadScript, output: str, lines: list[int]) -> None:
    problems = read(topic("say: Hi", output=output)).problems
    assert [each.line for each in problems if each.code == "KEY_IGNORED"] == lines


@pytest.mark.parametrize("use", ["hours(3)", "-hours(3)", "days(1) + hours(2)", "days(1) - hours(2)"])
def test_a_duration_alone_is_an_error(read: ReadScript, use: str) -> None:
    actions = (
        f"set: {{later: ={use}}}",
        f"say: '{{{{ {use} }}}}'",
        f"add: {{all: ={use}}}",
        f"if: {use}, then: [{{stop: true}}]",
    )
    for action in actions:
        problems = read(f"cuebook: 1\nscript: talk\nactions:\n- {{{action}}}\n").problems
        assert [(each.line, each.severity) for each in problems if each.code == "TYPE_CLASH"] == [(4, "error")]


@pytest.mark.parametrize("use", ["now + hours(3)", "hours(3) + now", "today - days(1)", "(hours(1) + now).year"])
def test_a_duration_beside_a_date_is_none(read: ReadScript, use: str) -> None:
    assert found(read, f"cuebook: 1\nscript: talk\nactions:\n- {{set: {{later: '={use}'}}}}\n") == []

"""What the analyses say of sound scripts: nothing. (What they say of broken ones: `tests/data/broken`.)"""

from textwrap import indent

import pytest

from tests.support.script_readers import ReadScript

ASK_AGE = "- {ask: Age?, id: ask_age, output: [{get: age, type: number}]}"
ASK_YES = "- {ask: Well?, id: ask_yes, output: [{get: yes, type: boolean}]}"
ASK_DAY = "- {ask: When?, id: ask_day, output: [{get: day, type: date}]}"
ASK_WAY = "- {choose: way, id: ask_way, question: How?, choices: [phone, {mail: By mail}]}"
HELLO = "- {say: Hello., id: hello}"


def problems(read, *actions: str, top: str = "", tail: str = "", **side_files: str) -> list[str]:
    head = f"script: talk\n{top}\nphases:\n- phase: p\n  topics:\n  - topic: t\n    actions:\n"
    text = head + indent("\n".join(actions), "    ") + "\n" + tail
    return [f"{problem.code} {problem.line}: {problem.message}" for problem in read(text, **side_files).problems]


@pytest.mark.parametrize(
    ("asking", "condition"),
    [
        (ASK_AGE, "age > 18"),
        (ASK_AGE, "age == '18'"),
        (ASK_AGE, "age in [1, 2]"),
        (ASK_AGE, "age != none"),
        (ASK_YES, "yes == true"),
        (ASK_YES, "not yes"),
        (ASK_DAY, "day > '2026-01-31'"),
        (ASK_DAY, "day < today"),
        (ASK_WAY, "way == 'mail'"),
        (ASK_WAY, "way in ['mail', 'phone']"),
        (ASK_WAY, "way != ''"),
        (ASK_WAY, "way == 'mail' or way == 'phone'"),
        (ASK_WAY, "'ma' in way"),
        (ASK_WAY + "\n- {set: {way: way ~ '!'}, id: set}", "way == 'mail!'"),
    ],
)
def test_a_comparison_that_may_hold_is_not_reported(read: ReadScript, asking, condition) -> None:
    assert problems(read, asking, f'- {{say: Well., id: say, when: "{condition}"}}') == []


@pytest.mark.parametrize(
    ("asking", "condition", "fix"),
    [
        (ASK_AGE, "age > 'old'", "without quotes"),
        (ASK_YES, "yes == 'yes'", "the name alone"),
        (ASK_DAY, "day > 'yesterday'", "2026-01-31"),
        (ASK_WAY, "way == 'mial'", "Did you mean `mail`?"),
        (ASK_WAY, "way in ['phone', 'post']", "`phone`"),
        (ASK_WAY, "'fone' == way", "Did you mean `phone`?"),
    ],
)
def test_a_comparison_that_never_holds_is_reported_with_its_fix(read: ReadScript, asking, condition, fix) -> None:
    text = f'- {{say: Well., id: say, when: "{condition}"}}'
    head = "script: talk\nphases:\n- phase: p\n  topics:\n  - topic: t\n    actions:\n"
    found = read(head + indent(f"{asking}\n{text}\n", "    ")).problems
    assert [problem.code for problem in found] == ["TYPE_CLASH"]
    assert fix in found[0].fix


@pytest.mark.parametrize(
    "actions",
    [
        "- {goto: u, id: jump, when: now.hour > 3}\n" + HELLO,
        "- {if: now.hour > 3, id: if, then: [{goto: u, id: jump}]}\n" + HELLO,
        "- {ask: Well?, id: ask, output: [x], on_fail: goto u}\n" + HELLO,
        "- {choose: x, id: ask, question: A?, choices: [{a: A, actions: [{end: a, id: end}]}, b]}\n" + HELLO,
        "- {foreach: '[1] as x', id: loop, do: [{end: a, id: end}]}\n" + HELLO,
    ],
)
def test_what_may_be_reached_is_not_reported(read: ReadScript, actions) -> None:
    tail = "  - topic: u\n    actions: [{say: Bye., id: bye}]\n"
    assert [each for each in problems(read, actions, tail=tail) if "UNREACHABLE" in each] == []


def test_a_topic_for_jumps_alone_is_reached(read: ReadScript) -> None:
    tail = "  - topic: u\n    when: false\n    actions: [{say: Bye., id: bye}]\n"
    assert problems(read, "- {ask: Well?, id: ask, output: [x], on_fail: goto u}", tail=tail) == []


def test_a_topic_that_an_interrupt_leads_to_is_reached(read: ReadScript) -> None:
    tail = "  - topic: u\n    when: false\n    actions: [{say: Bye., id: bye}]\n"
    interrupts = "interrupts: [{interrupt: stop, on: [stop], then: goto p/u}]\n"
    assert problems(read, HELLO, tail=tail + interrupts) == []


@pytest.mark.parametrize(
    "actions",
    [
        "- {user_say: Again., id: wait}\n- {goto: t, id: back}",
        "- {set: {tries: tries + 1}, id: count}\n- {goto: t, id: back, when: tries < 3}",
        "- {ai_say: Rest., id: rest, max_rounds: 2}\n- {goto: t, id: back, when: not tries}",
        "- {goto: t, id: back, when: now.hour < 3}",
        "- {repeat: {max: 3}, id: loop, do: [{say: Breathe., id: breathe}]}",
        "- {repeat: {until: tries > 3, max: 5}, id: loop, do: [{set: {tries: tries + 1}, id: count}]}",
        "- {repeat: {until: tries, max: 5}, id: loop, do: [{ask: More?, id: more}]}",
    ],
)
def test_a_loop_that_waits_or_changes_something_is_not_reported(read: ReadScript, actions) -> None:
    found = problems(read, actions, top="declare: [{var: tries, value: 0}]")
    assert [each for each in found if "ENDLESS" in each] == []


@pytest.mark.parametrize(
    "output",
    [
        "{get: x, choices: [S, M], pattern: '[A-Z]'}",
        "{get: x, choices: [S, XL], min: 2}",
        "{get: x, type: date, pattern: '2026-.*'}",
        "{get: x, type: boolean, max: 1}",
        "{get: x, max: 1}",
        "{get: x, type: number, max: 0}",
        "{get: x, validate: round > 1}",
    ],
)
def test_a_question_that_has_an_answer_is_not_reported(read: ReadScript, output) -> None:
    assert problems(read, f"- {{ask: Well?, id: ask, output: [{output}]}}") == []


@pytest.mark.parametrize(
    ("actions", "top"),
    [
        ("- {set: {x: 1}, id: set}", "declare: [{var: x}]"),
        ("- {set: {x: 1}, id: set}", "default_scope: session"),
        ("- {ask: Well?, id: ask, output: [x]}", ""),
        ("- {choose: x, id: ask, question: A?, choices: [a, b]}", ""),
        ("- {set: {x: 1}, id: set}\n- {say: \"{{ vars['x'] }}\", id: say}", ""),
        ("- {set: {x: 1}, id: set}\n- {say: '{% for name in vars %}{{ vars[name] }}{% endfor %}', id: say}", ""),
        ("- {set: {x: 1}, id: set}\n- {say: Well., id: say, when: x}", ""),
    ],
)
def test_a_variable_that_may_be_read_is_not_reported(read: ReadScript, actions, top) -> None:
    assert problems(read, actions, top=top) == []


@pytest.mark.parametrize(
    "actions",
    [
        HELLO + "\n- {choose: x, id: ask, choices: [a, b]}",
        "- {if: now.hour > 3, id: if, then: [{say: Well?, id: say}]}\n- {choose: x, id: ask, choices: [a, b]}",
        HELLO + "\n- {if: now.hour > 3, id: if, then: [{choose: x, id: ask, choices: [a, b]}]}",
    ],
)
def test_a_choice_after_a_text_needs_no_question(read: ReadScript, actions) -> None:
    assert problems(read, actions) == []

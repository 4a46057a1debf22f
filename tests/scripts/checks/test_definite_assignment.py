"""Where a read may find nothing: along which paths, and when it is not reported."""

from textwrap import indent

import pytest

from tests.support.script_readers import ReadScript

CODE = "VARIABLE_MAYBE_UNSET"
READ = '- {say: "{{ x }}", id: read}'
SET = "{set: {x: 1}, id: write}"
ASK = "ask: Well?, id: write, output: [{get: x}]"


def whole(actions: str, top: str = "", topics: str = "") -> str:
    head = f"script: talk\n{top}\nphases:\n- phase: p\n  topics:\n  - topic: t\n    actions:\n"
    return head + indent(actions, "    ") + "\n" + topics


def found(read, text: str, **side_files: str) -> list[str]:
    """Return the messages, without the name they begin with."""
    reading = read(text, **side_files)
    assert reading.script is not None, reading.problems
    return [problem.message for problem in reading.problems if problem.code == CODE]


def of(*actions: str) -> str:
    return "\n".join(actions)


@pytest.mark.parametrize(
    ("writing", "doubt"),
    [
        ("- {set: {x: 1}, id: write, when: y > 3}", "`y > 3` is false"),
        (f"- {{if: y > 3, id: if, then: [{SET}]}}", "`y > 3` is false"),
        (f"- {{if: y > 3, id: if, then: [], else: [{SET}]}}", "`y > 3` holds"),
        (f"- {{foreach: y as each, id: loop, do: [{SET}]}}", "the list is empty"),
        (f"- {{choose: y, id: ask, question: Which?, choices: [{{a: A, actions: [{SET}]}}, b]}}", "choice is not `a`"),
        ("- {ask: Well?, id: write, output: [{get: x, required: false}]}", "`required: false`"),
        ("- {ask: Well?, id: write, output: [x], on_fail: skip}", "`on_fail: skip`"),
        ("- {choose: x, id: write, question: Which?, choices: [a, b], on_fail: skip}", "`on_fail: skip`"),
        (
            f"- {{ask: Well?, id: ask, output: [z], on_fail: {{do: [{SET}]}}}}",
            "there is a valid answer",
        ),
        (
            "- {ask: Well?, id: ask, output: [x], on_fail: {do: [{say: Hm., id: hm}], then: skip}}",
            "there is no valid answer",
        ),
        ("- {ai_ask: Well?, id: write, output: [{get: z}, {set: x, value: z, when: z == 'a'}]}", "`z == 'a'` is false"),
        (
            "- {ask: Well?, id: ask, output: [{get: z, required: false}]}\n- {set: {x: z}, id: write}",
            "does not contain it",
        ),
        (f"- {{repeat: {{max: 2}}, id: loop, do: [{{if: y, id: if, then: [{SET}]}}]}}", "`y` is false"),
    ],
)
def test_name_set_on_some_paths_is_reported_with_the_condition(read: ReadScript, writing, doubt) -> None:
    messages = found(read, whole(of(writing, READ), "declare: [{var: y}]"))
    assert messages
    assert all(doubt in message for message in messages), messages


@pytest.mark.parametrize("value", ["x", "z + x"])
def test_a_value_computed_from_an_answer_is_a_read(read: ReadScript, value: str) -> None:
    asking = f"- {{ask: Well?, id: write, output: [{{get: z}}, {{set: x, value: {value}}}]}}"
    messages = found(read, whole(asking, "declare: [{var: x}]"))
    assert messages == ["`x` has no value here: no path to this place sets it"]


@pytest.mark.parametrize(
    "writing",
    [
        f"- {SET}",
        f"- {{{ASK}}}",
        "- {ask: Well?, id: write, output: [{get: x, required: false, default: 1}]}",
        "- {ai_think: Think., id: write, output: [x]}",
        "- {choose: x, id: write, question: Which?, choices: [a, b]}",
        f"- {{if: y, id: if, then: [{SET}], else: [{{ask: Well, id: other, output: [x]}}]}}",
        f"- {{if: y, id: if, then: [{SET}], else: [{{end: over, id: over}}]}}",
        f"- {{if: true, id: if, then: [{SET}]}}",
        f"- {{repeat: {{until: x}}, id: loop, do: [{SET}]}}",
        f"- {{foreach: '[1, 2] as each', id: loop, do: [{SET}]}}",
        f"- {{choose: y, id: ask, choices: [{{a: A, actions: [{SET}]}}, {{b: B, actions: [{{goto: t, id: again}}]}}]}}",
        "- {ask: Well?, id: write, output: [x], on_fail: goto t}",
        f"- {{ask: Well?, id: ask, output: [x], on_fail: {{do: [{SET}], then: skip}}}}",
        "- {ask: Well?, id: ask, output: [x], on_fail: {do: [{say: Hm., id: hm}], then: goto t}}",
        "- {ask: Well?, id: ask, output: [x], on_fail: {do: [{end: over, id: over}], then: skip}}",
        "- {ask: Well?, id: ask, output: [{get: z, required: false}]}\n- {set: {x: z or 1}, id: write}",
        "- {ask: Well?, id: ask, output: [{get: z, required: false}]}\n- {set: {x: z if z else 1}, id: write}",
    ],
)
def test_a_name_that_every_path_sets_is_sound(read: ReadScript, writing) -> None:
    assert found(read, whole(of(writing, READ), "declare: [{var: y}]")) == []


@pytest.mark.parametrize(
    "reading",
    [
        '- {say: "{{ x }}", id: read, when: y > 3}',
        '- {say: "{{ x }}", id: read, when: "y>3 and y < 9"}',
        '- {say: "{{ x }}", id: read, when: x}',
        '- {say: "{{ x }}", id: read, when: x == 1}',
        """- {say: "{{ x }}", id: read, when: '(x|default("") ~ "") != ""'}""",
        """- {say: "{{ x }}", id: read, when: 'not (x|default("") ~ "") == ""'}""",
        '- {say: "{{ x }}", id: read, when: "(x|default([]))|length != 0"}',
        '- {if: x is defined, id: if, then: [{say: "{{ x }}", id: read}]}',
        '- {if: x is not defined, id: if, then: [], else: [{say: "{{ x }}", id: read}]}',
        '- {if: not x, id: if, then: [{end: over, id: over}]}\n- {say: "{{ x }}", id: read}',
        '- {if: not x, id: if, then: [{set: {x: 2}, id: set}]}\n- {say: "{{ x }}", id: read}',
        '- {say: "{% if x %}{{ x }}{% endif %}", id: read}',
        '- {say: "{% if y > 3 %}{{ x }}{% endif %}", id: read}',
        '- {say: "{% if not x %}none{% else %}{{ x }}{% endif %}", id: read}',
        "- {say: \"{{ x or 'none' }}\", id: read}",
        "- {say: \"{{ x | default('none') }}\", id: read}",
        "- {say: \"{{ x.name | default('none') }}\", id: read}",
        '- {say: "{{ x ~ 1 if x is defined else 2 }}", id: read}',
        "- {set: {z: x and x + 1}, id: read}",
        '- {say: Hello, id: read, when: "x == 2"}',
        '- {say: Hello, id: read, when: "x + 1 > 2"}',
        "- {repeat: {until: x, max: 3}, id: loop, do: [{ask: Well?, id: read, output: [z]}]}",
    ],
)
def test_a_read_that_is_guarded_is_not_reported(read: ReadScript, reading) -> None:
    writing = "- {set: {x: 1}, id: write, when: y > 3}"
    assert found(read, whole(of(writing, reading), "declare: [{var: y}]")) == []


def test_the_same_condition_guards_through_blocks_and_choices(read: ReadScript) -> None:
    nested = "{if: y, id: ID, then: [{if: z > 1, id: ID2, then: [ACTION]}]}"
    outer = nested.replace("ID", "one").replace("ACTION", SET)
    inner = nested.replace("ID", "two").replace("ACTION", READ[2:])
    assert found(read, whole(of("- " + outer, "- " + inner), "declare: [y, z]")) == []
    choice = f"- {{choose: y, id: ask, choices: [{{a: A, actions: [{SET}]}}, b]}}"
    assert found(read, whole(of(choice, '- {say: "{{ x }}", id: read, when: y == "a"}'))) == []
    rest = '- {set: {x: 2}, id: other, when: y != "a"}'
    assert found(read, whole(of(choice, rest, READ))) == []


def test_condition_guards_only_until_what_it_reads_has_changed(read: ReadScript) -> None:
    text = of(
        "- {set: {x: 1}, id: write, when: y > 3}",
        "- {set: {y: 5}, id: change}",
        '- {say: "{{ x }}", id: read, when: y > 3}',
    )
    assert len(found(read, whole(text, "declare: [{var: y, value: 1}]"))) == 1


def test_a_name_is_reported_once_in_a_topic(read: ReadScript) -> None:
    assert (
        len(
            found(
                read,
                whole(of("- {set: {x: 1}, id: write, when: y}", READ, READ.replace("read", "again")), "declare: [y]"),
            )
        )
        == 1
    )


def test_what_is_read_before_it_is_set_is_reported(read: ReadScript) -> None:
    assert found(read, whole(of(READ, f"- {SET}"))) == ["`x` has no value here: no path to this place sets it"]
    assert found(read, whole(of("- {say: Hello, id: read, when: x == 1}", f"- {SET}"))) != []
    assert found(read, whole(of("- {say: Hello, id: read, when: x is defined}", f"- {SET}"))) == []


SECOND = '  - topic: second\n    actions: [{say: "{{ x }}", id: read}]\n'


def test_a_topic_that_may_be_skipped_sets_nothing_for_sure(read: ReadScript) -> None:
    text = whole("- " + SET, "declare: [{var: x}, {var: y}]", SECOND).replace("topic: t\n", "topic: t\n    when: y\n")
    assert found(read, text) == ["`x` may be unset here, when topic `t` is skipped"]
    assert found(read, text.replace("topic: second\n", "topic: second\n    when: y\n")) == []


def test_a_topic_may_be_entered_from_several_places(read: ReadScript) -> None:
    jump = "- {goto: second, id: jump, when: y}"
    text = whole(of(jump, "- " + SET), "declare: [{var: x}, {var: y}]", SECOND)
    assert len(found(read, text)) == 1
    assert found(read, whole(of("- " + SET, jump), "declare: [{var: x}, {var: y}]", SECOND)) == []
    failing = "- {ask: Well?, id: write, output: [x], on_fail: goto second}"
    assert found(read, whole(failing, "declare: [{var: x}]", SECOND)) == [
        "`x` may be unset here, when there is no valid answer"
    ]


def test_variables_end_with_their_scope(read: ReadScript) -> None:
    text = whole(of("- {set: {x: 1}, id: write}", "- {goto: t, id: again, when: y}"), "declare: [y]")
    start = text.replace("    - {set", '    - {say: "{{ x }}", id: first}\n    - {set')
    assert len(found(read, start)) == 1
    assert found(read, start.replace("phase: p\n", "phase: p\n  declare: [{var: x, value: 1}]\n")) == []
    assert len(found(read, start.replace("phase: p\n", "phase: p\n  declare: [{var: x}]\n"))) == 1


def test_what_nobody_writes_is_handed_in(read: ReadScript) -> None:
    assert found(read, whole(READ, "declare: [{var: x}]")) == []
    assert found(read, whole(READ, "use: [shared.yaml]"), shared_yaml="globals: [{var: x}]") == []
    text = whole(of(READ, "- " + SET), "use: [shared.yaml]")
    assert found(read, text, shared_yaml="globals: [{var: x}]") == [
        "`x` may be unset here, when no session has set it yet"
    ]
    assert found(read, text, shared_yaml="globals: [{var: x, value: 3}]") == []


SKILL = """
skills:
- skill: helper
  params: [{var: given}, {var: maybe, required: false}]
  returns: [sure, open]
  actions:
  - {set: {sure: given}, id: a}
  - {set: {open: 1}, id: b, when: given > 1}
"""


def test_a_skill_hands_back_what_it_has(read: ReadScript) -> None:
    call = "- {call: helper, id: call, input: {given: 1}, output: {x: %s}}"
    assert found(read, whole(of(call % "sure", READ)) + SKILL) == []
    assert found(read, whole(of(call % "open", READ)) + SKILL) == [
        "`x` may be unset here, when the skill `helper` returns nothing for it: `given > 1` is false"
    ]


def test_a_skill_sees_its_parameters_and_global_variables(read: ReadScript) -> None:
    skill = SKILL + '  - {say: "{{ given }} {{ maybe }} {{ g }}", id: c}\n'
    call = "- {call: helper, id: call, input: {given: 1}}"
    shared = "globals: [{var: g}]"
    text = whole(of("- {set: {g: 1}, id: write}", call), "use: [shared.yaml]") + skill
    assert found(read, text, shared_yaml=shared) == ["`maybe` may be unset here, when the call does not pass it"]
    text = whole(of("- {set: {g: 1}, id: write, when: now.hour > 3}", call), "use: [shared.yaml]") + skill
    assert len(found(read, text, shared_yaml=shared)) == 2


def test_a_skill_that_calls_itself_comes_to_rest(read: ReadScript) -> None:
    skill = SKILL + "  - {call: helper, id: c, input: {given: 1}, output: {open: open}}\n"
    call = "- {call: helper, id: call, input: {given: 1}, output: {x: open}}"
    assert len(found(read, whole(of(call, READ)) + skill)) <= 1


FORM = """
forms:
- form: body
  fields:
  - {field: height, type: number, required: FILLED}
  - {field: area, type: number, computed: height * height}
"""


@pytest.mark.parametrize(("filled", "doubts"), [("true", []), ("false", ["`area` may be unset here, when"])])
def test_computed_field_is_unset_where_what_it_reads_may_be(read: ReadScript, filled, doubts) -> None:
    text = whole(of("- {form: body, id: fill}", '- {say: "{{ area }}", id: tell}'), FORM.replace("FILLED", filled))
    reported = [message for message in found(read, text) if "area" in message]
    assert len(reported) == len(doubts)
    assert all(message.startswith(doubt) for message, doubt in zip(reported, doubts, strict=True))


def test_a_computed_field_reads_what_some_path_leaves_unset(read: ReadScript) -> None:
    text = whole(
        of("- {set: {factor: 2}, id: some, when: height > 3}", "- {form: body, id: fill}"),
        "declare: [{var: height}]" + FORM.replace("FILLED", "true").replace("height * height", "height * factor"),
    )
    assert [message for message in found(read, text) if "`factor`" in message]


@pytest.mark.parametrize("asking", ["ask: Well?", "ai_ask: Ask them.", "choose: Well?, choices: [a, b]"])
def test_a_text_that_confirms_reads_known_values(read: ReadScript, asking) -> None:
    confirms = "if_known: {confirm: 'Still {{ READ }}?'}"
    script = f"cuebook: 1\nscript: talk\nactions: [{{{asking}, into: x, {confirms}}}, {{set: {{y: 1}}}}]\n"
    assert found(read, script.replace("READ", "x")) == []
    assert found(read, script.replace("READ", "y")) != []


EXPIRE = "expire: {after: 1 day, then: skip}"


@pytest.mark.parametrize("holder", ["script", "phase", "topic"])
def test_a_shared_expiry_leaves_an_answer_open(read: ReadScript, holder: str) -> None:
    places = {
        "script": ("phases:", EXPIRE),
        "phase": ("  topics:", "  " + EXPIRE),
        "topic": ("    actions:", "    " + EXPIRE),
    }
    before, line = places[holder]
    plain = whole(of("- {" + ASK + "}", READ))
    assert found(read, plain) == []
    (message,) = found(read, plain.replace(f"{before}\n", f"{line}\n{before}\n", 1))
    assert "there is no answer in time (`expire`)" in message


@pytest.mark.parametrize(
    "question",
    [
        "{ask: Well?, into: {var: x, default: none}, expire: {after: 1 day}}",
        "{ask: Well?, into: x, expire: {after: 1 day, do: [{set: {x: none}}]}}",
        "{choose: Well?, into: x, choices: [a, b], expire: {after: 1 day, do: [{set: {x: none}}]}}",
    ],
)
def test_an_expiry_that_gives_a_value_leaves_nothing_open(read: ReadScript, question: str) -> None:
    text = f"cuebook: 1\nscript: talk\nactions: [{question}, {{say: '{{{{ x }}}}'}}]\n"
    assert found(read, text) == []
    assert found(read, text.replace("default: none", "required: true").replace("x: none", "x: null")) != []


@pytest.mark.parametrize("then", ["end", "goto p/t"])
def test_a_shared_expiry_that_leaves_needs_no_answer(read: ReadScript, then: str) -> None:
    expire = f"expire: {{after: 1 day, then: {then}}}"
    assert found(read, whole(of("- {" + ASK + "}", READ), top=expire)) == []


PICK = "choose: Which?, into: x, choices: [{key: a, text: A}, {key: b, text: B}], id: write"
OTHER = "  - topic: other\n    actions:\n" + indent(READ, "    ") + "\n"


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "its own"])
def test_a_choice_that_expires_may_be_missing(read: ReadScript, shared: bool) -> None:
    plain = of("- {" + PICK + "}", READ)
    assert found(read, "cuebook: 1\n" + whole(plain)) == []
    expiring = whole(plain, top=EXPIRE) if shared else whole(plain.replace("id: write", f"id: write, {EXPIRE}"))
    (message,) = found(read, "cuebook: 1\n" + expiring)
    assert "there is no answer in time (`expire`)" in message


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "its own"])
def test_an_expiry_that_jumps_brings_no_answer_with_it(read: ReadScript, shared: bool) -> None:
    expire = "expire: {after: 1 day, then: goto p/other}"
    question = "- {" + ASK + (f", {expire}" if not shared else "") + "}"
    top = "declare: [{var: x}]\n"
    assert found(read, whole(of("- {" + ASK + "}", READ), top=top, topics=OTHER)) == []
    (message,) = found(read, whole(of(question, READ), top=top + (expire if shared else ""), topics=OTHER))
    assert "there is no answer in time (`expire`)" in message


def test_expiry_that_jumps_is_beside_actions_without_an_answer(read: ReadScript) -> None:
    question = "{ask: Well?, id: write, output: [{get: x}], expire: {after: 1 day, then: end}, ON}"
    failing = "on_fail: {do: [{say: Sorry., id: sorry}], then: skip}"
    plain = whole(of("- " + question.replace("ON", failing), READ))
    (message,) = found(read, plain)
    assert "there is no valid answer" in message
    assert found(read, plain.replace("then: end", "then: goto p/other") + OTHER)[0] == message


def test_the_expiry_of_a_question_replaces_a_shared_one(read: ReadScript) -> None:
    own = "- {" + ASK + ", expire: {after: 2 days, then: end}}"
    assert found(read, whole(of(own, READ), top=EXPIRE)) == []


def test_a_question_in_a_skill_has_the_expiry_of_the_script(read: ReadScript) -> None:
    skill = "skills:\n- {skill: s, actions: [{" + ASK + "}, {say: '{{ x }}', id: read}]}\n"
    called = whole("- {call: s, id: call}")
    assert found(read, called + skill) == []
    assert len(found(read, called.replace("phases:", EXPIRE + "\nphases:", 1) + skill)) == 1
    in_topic = called.replace("    actions:", "    " + EXPIRE + "\n    actions:", 1)
    assert found(read, in_topic + skill) == []


def test_a_text_about_a_refused_answer_reads_its_values(read: ReadScript) -> None:
    written = """
- ask: Well?
  id: write
  output: [{get: x, type: number, validate: [{unless: x < y, say: "{{ x }} of {{ y }}"}]}, {get: y, type: number}]
"""
    assert found(read, whole(written)) == []


WAITING = """
cuebook: 1
script: waiting
declare: [{var: x}, {var: y}]
phases:
- phase: p
  topics:
  - topic: before
    actions: [%s, {wait: 1 day, on_message: aside}, {set: {y: 1}}]
  - topic: aside
    when: 'false'
    actions: [{say: "{{ x }} {{ y }}"}]
  - topic: after
    actions: [{say: "{{ x }} {{ y }}"}]
"""


@pytest.mark.parametrize(
    ("before", "unset"),
    [
        ("{ask: Well?, into: x}", ["`y` has no value here: no path to this place sets it"]),
        (
            "{ask: Well?, into: x, on_fail: skip}",
            [
                "`x` may be unset here, when there is no valid answer (`on_fail: skip`)",
                "`x` may be unset here, when there is no valid answer (`on_fail: skip`)",
                "`y` has no value here: no path to this place sets it",
            ],
        ),
    ],
)
def test_a_topic_that_answers_in_a_wait_returns_to_it(read: ReadScript, before, unset) -> None:
    assert sorted(found(read, WAITING % before)) == unset


def test_a_topic_that_also_answers_in_a_wait_goes_on_by_itself(read: ReadScript) -> None:
    text = WAITING.replace("when: 'false'", "goal: talk").replace("{set: {y: 1}}", "{set: {y: 1}}, {set: {x: 1}}")
    assert found(read, text % "{say: Hello.}") == [
        "`x` may be unset here, when a wait leads here",
        "`y` may be unset here, when a wait leads here",
    ]

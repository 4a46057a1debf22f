"""The native form: what each spelling of an action is read as."""

import pytest

from scripts.model.actions import AiAsk, AiSay, Ask, Choose, Foreach, Goto, If, OnFail, Repeat, Say, Set, Show
from tests.support.script_readers import FirstAction, ReadScript, ReadValid

SCRIPT = """
    script: intake
    title: First assessment
    version: 1.0
    tags: [intake, short]
    declare:
      - {var: user_name, define: what to call the visitor, pii: true}
      - city
    phases:
      - phase: rapport
        goal: build trust
        condition: not returning
        declare: [{var: mood, type: choice, choices: [yes, no, 1]}]
        topics:
          - topic: 欢迎
            when: user_name
            actions:
              - say: Hello.
                id: hello
"""


def test_a_script_is_read_with_all_that_is_written(script: ReadValid) -> None:
    read = script(SCRIPT)
    phase = read.phases[0]
    assert (read.id, read.title, read.version, read.tags) == ("intake", "First assessment", "1.0", ("intake", "short"))
    assert [(each.var, each.pii) for each in read.declare] == [("user_name", True), ("city", False)]
    assert (phase.goal, phase.when.source, phase.declare[0].choices) == (
        "build trust",
        "not returning",
        ("yes", "no", "1"),
    )
    assert (phase.topics[0].id, phase.topics[0].when.source) == ("欢迎", "user_name")
    assert (read.default_scope, read.form) == ("topic", "native")
    assert (phase.at.line, phase.at.column, phase.mark("phase").column) == (10, 5, 12)


@pytest.mark.parametrize(
    ("written", "texts"),
    [
        ("- say: Hello.", ["Hello."]),
        ("- say: 5", ["5"]),
        ("- say: [Hello., Hi.]", ["Hello.", "Hi."]),
        ('- say: "{{ greeting }}"', ["{{ greeting }}"]),
        ("- say: |\n    One\n    two\n", ["One\ntwo"]),
        ("- say: >-\n    One\n    two", ["One two"]),
    ],
)
def test_what_is_said_is_one_text_or_several(action: FirstAction, written, texts) -> None:
    read = action(written)
    assert isinstance(read, Say)
    assert [text.source.rstrip("\n") for text in read.texts] == texts


@pytest.mark.parametrize(
    ("keys", "utterances", "waits"),
    [
        ("", 1, False),
        ("max_rounds: 1", 1, True),
        ("max_rounds: 0", 1, False),
        ("max_rounds: 3", 3, False),
        ("require_acknowledgment: true", 1, True),
        ("require_acknowledgment: false, max_rounds: 1", 1, False),
        ("require_acknowledgment: true, max_rounds: 3", 3, False),
    ],
)
def test_one_utterance_waits_where_it_is_asked_to(action: FirstAction, keys, utterances, waits) -> None:
    read = action(f"- {{ai_say: Explain., {keys}}}")
    assert isinstance(read, AiSay)
    assert (read.utterances, read.acknowledge is not None) == (utterances, waits)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("skip", ("skip", "")),
        ("end", ("end", "")),
        ("default", ("default", "")),
        ("goto main/first", ("goto", "main/first")),
        ("{goto: first}", ("goto", "first")),
    ],
)
def test_what_follows_when_no_answer_fits(action: FirstAction, written, expected) -> None:
    on_fail = action(f"- {{ask: How are you?, on_fail: {written}}}").on_fail
    assert (on_fail.then.policy, on_fail.then.target) == expected


def test_an_action_without_on_fail_takes_the_default(action: FirstAction) -> None:
    assert action("- ask: How are you?").on_fail == OnFail()


def test_outputs_are_taken_or_assigned(action: FirstAction) -> None:
    read = action("""
        - ai_ask: Find out the age.
          output:
            - age
            - {get: mood, choices: [low, ok], default: ok, required: true, fallback: raw}
            - {set: adult, value: age >= 18, when: age}
          exit_when: age > 0
          exit_criteria: {understanding_threshold: 80, custom_conditions: [{variable: age, operator: ">", value: 5}]}
    """)
    assert isinstance(read, AiAsk)
    age, mood, adult = read.outputs
    assert (age.get, mood.choices, mood.default, mood.required) == ("age", ("low", "ok"), "ok", True)
    assert (adult.set, adult.value.source, adult.when.source) == ("adult", "age >= 18", "age")
    condition, criteria = read.exits
    assert (read.max_rounds, condition.when.source) == (3, "age > 0")
    assert (criteria.understanding, criteria.when.source) == (80, "age is defined and age > 5")


@pytest.mark.parametrize(
    ("written", "source"),
    [
        ("5", "5"),
        ("true", "true"),
        ("null", "none"),
        ("age + 1", "age + 1"),
        ("'''low'''", "'low'"),
        ("[1, a]", '[1, "a"]'),
    ],
)
def test_what_is_assigned_is_an_expression_or_a_plain_value(action: FirstAction, written, source) -> None:
    read = action(f"- set: {{x: {written}, age: 5}}")
    assert isinstance(read, Set)
    assert read.assignments["x"].source == source


def test_choices_are_words_short_pairs_or_mappings(action: FirstAction) -> None:
    read = action("""
        - choose: colour
          choices:
            - red
            - A: blue as the sea
              value: 2
              actions: [{say: Blue., id: blue}]
            - {key: c, text: green}
    """)
    assert isinstance(read, Choose)
    assert [(choice.key, choice.text.source, choice.value) for choice in read.choices] == [
        ("red", "red", None),
        ("A", "blue as the sea", 2),
        ("c", "green", None),
    ]
    assert read.choices[1].actions[0].id == "blue"


def test_blocks_hold_actions(action: FirstAction) -> None:
    branch = action("- if: 1 < 2\n  then: [{say: a}]\n  else: [{say: b}, {say: c}]")
    loop = action("- foreach: range(3) as n\n  do: [{say: a}]")
    again = action("- repeat: {until: round > 2, max: 5}\n  do: [{say: a}]")
    briefly = action("- repeat: round > 2\n  do: [{say: a}]")
    assert isinstance(branch, If)
    assert isinstance(loop, Foreach)
    assert isinstance(again, Repeat)
    assert isinstance(briefly, Repeat)
    assert (len(branch.then), len(branch.otherwise)) == (1, 2)
    assert (loop.loop.items.source, loop.loop.name) == ("range(3)", "n")
    assert (again.until.until.source, again.until.max, briefly.until.max) == ("round > 2", 5, 100)


def test_media_may_be_written_as_its_address(action: FirstAction) -> None:
    briefly, fully = action("- show: sea.png"), action("- show: {url: 'https://example.org', caption: The sea}")
    assert isinstance(briefly, Show)
    assert briefly.media.image.source == "sea.png"
    assert (fully.media.url.source, fully.media.caption.source) == ("https://example.org", "The sea")


@pytest.mark.parametrize("target", ["main/first", "first", "main"])
def test_a_jump_names_a_topic_or_a_phase(action: FirstAction, target) -> None:
    assert isinstance(action(f"- {{goto: {target}, when: x > 1}}"), Goto)


@pytest.mark.parametrize("ending", ["- end: finished", "- end:", "- end: ~"])
def test_an_ending_needs_no_reason(action: FirstAction, ending) -> None:
    action(ending)


def test_a_question_lets_three_rounds_pass(action: FirstAction) -> None:
    read = action("- {ask: How old are you?, output: [age]}")
    assert isinstance(read, Ask)
    assert read.max_rounds == 3


def test_all_problems_of_a_file_come_at_once_in_its_order(read: ReadScript) -> None:
    problems = read("""
        script: many
        titel: wrong
        phases:
          - phase: one
            topics:
              - topic: first
                actions:
                  - {say: "{{", id: a}
                  - {sai: b}
                  - {ask: c, id: a, max_rounds: 99}
                  - {goto: nowhere, id: d, when: "1 +"}
    """).errors
    assert [(problem.code, problem.line) for problem in problems] == [
        ("UNKNOWN_KEY", 3),
        ("TEMPLATE_INVALID", 9),
        ("ACTION_TYPE_UNKNOWN", 10),
        ("DUPLICATE_ID", 11),
        ("CONSTRAINT_VIOLATION", 11),
        ("GOTO_UNKNOWN", 12),
        ("EXPRESSION_INVALID", 12),
    ]


def test_a_full_width_colon_after_an_action_is_named(read: ReadScript) -> None:
    text = "script: x\nphases: [{phase: p, topics: [{topic: t, actions: [{say： Hello.}]}]}]\n"
    (problem,) = [each for each in read(text).problems if each.code == "ACTION_TYPE_UNKNOWN"]
    assert "full-width" in problem.fix

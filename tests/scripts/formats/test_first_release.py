"""Files with `cuebook: 1`: the keys of the first release, read into the same model as the older ones."""

import json

import pytest
import yaml

from scripts.model.actions import walk
from scripts.model.base import without_places
from scripts.model.script import Script
from scripts.parse.read_script import Reading, Source, read_script
from scripts.yaml.script_writer import native_yaml, simplify

HEAD = "script: talk\nphases:\n  - phase: main\n    topics:\n      - topic: first\n        actions:\n"


def reading(action: str, *, first_release: bool = True) -> Reading:
    """Read a script with one action."""
    return read_script(Source(f"{'cuebook: 1' if first_release else ''}\n{HEAD}          - {action}\n"))


def script(action: str, *, first_release: bool = True) -> Script:
    found = reading(action, first_release=first_release)
    assert found.script is not None, [str(problem) for problem in found.errors]
    return without_places(simplify(found.script))


@pytest.mark.parametrize(
    ("written", "older"),
    [
        ("{ask: Who?, into: name}", "{ask: Who?, output: [{get: name}]}"),
        ("{ask: Who?, into: {var: age, type: number}, rounds: 2}",
         "{ask: Who?, output: [{get: age, type: number}], max_rounds: 2}"),
        ("{ai_ask: Who?, into: [a, {var: b, define: B}]}", "{ai_ask: Who?, output: [{get: a}, {get: b, define: B}]}"),
        ("{ai_think: Who?, into: {add_to: people, fields: [name]}}",
         "{ai_think: Who?, output: [{tolist: people, fields: [{get: name}]}]}"),
        ("{ai_think: Sum, into: [a, {set: b, value: =a}]}", "{ai_think: Sum, output: [{get: a}, {set: b, value: a}]}"),
        ("{choose: Tea?, into: plan, choices: [a, b]}", "{choose: plan, question: Tea?, choices: [a, b]}"),
        ("{choose: , into: plan, choices: [a, b]}", "{choose: plan, choices: [a, b]}"),
        ("{chat: Talk, rounds: 4}", "{chat: Talk, max_rounds: 4}"),
        ("{ai_ask: Who?, into: a, exit: a name}", "{ai_ask: Who?, output: [{get: a}], exit: a name}"),
        ("{chat: Talk, exit: {when: a > 1}}", "{chat: Talk, exit_when: a > 1}"),
        ("{chat: Talk, exit: [{when: a > 1}, enough]}", "{chat: Talk, exit_when: a > 1, exit: enough}"),
        ("{ai_say: Talk, utterances: 3, exit: {understanding: 80, no_questions: true, min_rounds: 2}}",
         "{ai_say: Talk, max_rounds: 3,"
         " exit_criteria: {understanding_threshold: 80, has_questions: false, min_rounds: 2}}"),
        ('{chat: Talk, exit: {when: a is defined and a >= 3 and b is defined and "x" in b}}',
         "{chat: Talk, exit_criteria: {custom_conditions: [{variable: a, operator: '>=', value: 3},"
         " {variable: b, operator: contains, value: x}]}}"),
        ("{ai_say: Hi}", "{ai_say: Hi}"),
        ("{ai_say: Hi, utterances: 1}", "{ai_say: Hi}"),
        ("{ai_say: Hi, utterances: 3}", "{ai_say: Hi, max_rounds: 3}"),
        ("{ai_say: Hi, acknowledge: true}", "{ai_say: Hi, max_rounds: 1}"),
        ("{set: {a: tea, b: 2, c: null}}", "{set: {a: \"'tea'\", b: 2, c: null}}"),
        ("{set: {a: ==, b: =now, c: [1, =now]}}", "{set: {a: \"'='\", b: now, c: '[1, (now)]'}}"),
        ("{set: {a: 'At {{ now }}!'}}", "{set: {a: '\"At \" ~ ( now ) ~ \"!\"'}}"),
        ("{emit: {event: e, data: {a: =now, b: text}}}", "{emit: {event: e, data: {a: now, b: \"'text'\"}}}"),
    ],
)  # fmt: skip
def test_it_reads_as_the_older_spelling(written, older) -> None:
    written, older = (f"{action[:-1]}, id: it}}" for action in (written, older))  # derived ids differ
    assert script(written) == script(older, first_release=False)


@pytest.mark.parametrize(
    ("action", "code", "fix"),
    [
        ("{ask: Who?, output: [{get: name}]}", "DEPRECATED_KEY", "Write `into` instead."),
        ("{ask: Who?, into: {get: name}}", "DEPRECATED_KEY", "Write `var` instead."),
        ("{ask: Who?, into: name, max_rounds: 2}", "DEPRECATED_KEY", "Write `rounds` instead."),
        ("{choose: plan, choices: [a, b]}", "REQUIRED_FIELD_MISSING", "Add `into:`."),
        ("{say: Hi, when: =x}", "TYPE_MISMATCH", "Remove the `=`."),
        ("{set: {a: =round(2, 1)}}", "TYPE_MISMATCH",
         "A comma ends a value in { }: put it in quotes, or write the mapping over several lines."),
        ("{ask: Who?, into: name, round: 2}", "UNKNOWN_KEY", "Did you mean `rounds`?"),
        ("{say: Hi, acknowledge: [a]}", "TYPE_MISMATCH", None),
        ("{ai_say: Hi, require_acknowledgment: true}", "DEPRECATED_KEY", "Write `acknowledge` instead."),
        ("{ai_say: Hi, max_rounds: 2}", "DEPRECATED_KEY", "Write `utterances` instead."),
        ("{say: Hi, milestone: two words}", "ID_INVALID", None),
        ("{say: Hi, milestone: ''}", "ID_INVALID", None),
        ("{end: {outcome: a b}}", "ID_INVALID", None),
        ("{chat: Talk, exit_when: a > 1}", "DEPRECATED_KEY", "Write `exit: {when: …}` instead."),
        ("{chat: Talk, exit_criteria: {min_rounds: 1}}", "DEPRECATED_KEY",
         "Write `exit: {said, when, understanding, no_questions, min_rounds}` instead."),
        ("{chat: Talk, exit: {min_rounds: 2}}", "REQUIRED_FIELD_MISSING",
         "Add `said`, `when`, `understanding` or `no_questions`."),
        ("{chat: Talk, exit: {when: =a}}", "TYPE_MISMATCH", "Remove the `=`."),
        ("{chat: Talk, exit: [done, {said: enough}]}", "KEY_CONFLICT",
         "Write both in one `said`: the model gives one judgement."),
        ("{choose: Tea?, into: a, choices: [{b: B, value: 2}]}", "UNKNOWN_KEY",
         "Write `key: b` and `text: B` beside `value`."),
        ("{choose: Tea?, into: a, choices: [{key: b, text: B, actions: []}]}", "DEPRECATED_KEY",
         "Write `do` instead."),
        ("{choose: Tea?, into: a, choices: [{each: slots, key: =s, text: T}]}", "TYPE_MISMATCH",
         "Write e.g. `foreach: symptoms as symptom`."),
        ("{ask: Who?, into: a, if_known: never}", "ENUM_VALUE_INVALID", None),
        ("{ask: Who?, into: a, on_fail: {then: nowhere}}", "ENUM_VALUE_INVALID", None),
        ("{chat: Talk, exit: {understanding: 101}}", "CONSTRAINT_VIOLATION", None),
    ],
)  # fmt: skip
def test_a_mistake_names_the_key_of_this_language(action, code, fix) -> None:
    problem = reading(action).errors[0]
    assert problem.code == code
    assert fix is None or problem.fix == fix


def test_user_say_is_an_older_spelling() -> None:
    found = reading("{user_say: Go on}")
    assert found.script is not None
    (note,) = [each for each in found.problems if each.code == "DEPRECATED_KEY"]
    assert (note.severity, note.fix) == ("note", "Write `acknowledge: TEXT` at the message before it.")


def test_choices_of_a_list_may_mark_the_list_as_an_expression() -> None:
    choices = "{choose: When?, into: a, choices: [{each: LIST, key: =s, text: '{{ s }}'}]}"
    assert script(choices.replace("LIST", "=slots as s")) == script(choices.replace("LIST", "slots as s"))


def test_a_key_of_the_first_release_is_unknown_in_an_older_file() -> None:
    assert "UNKNOWN_KEY" in [problem.code for problem in reading("{ask: Who?, into: a}", first_release=False).errors]


@pytest.mark.parametrize("version", ["2", "true", "'1'", "1.9.99", "later", "[1]", "null"])
def test_another_version_of_the_language_is_an_error(version: str) -> None:
    found = read_script(Source(f"cuebook: {version}\n{HEAD}          - say: Hi\n"))
    assert [problem.message for problem in found.errors] == ["this version of Cuebook reads `cuebook: 1`"]


def test_an_include_file_has_its_own_language() -> None:
    skill = "skills: [{skill: greet, params: [{var: who}], actions: [{set: {a: =who}, id: it}, {say: '{{ a }}'}]}]\n"
    text = f"cuebook: 1\nuse: [skills.yaml]\n{HEAD}          - {{call: greet, with: {{who: Ana}}}}\n"
    of_first = read_script(Source(text, "talk.yaml", {"skills.yaml": "cuebook: 1\n" + skill}))
    of_older = read_script(Source(text, "talk.yaml", {"skills.yaml": skill.replace("=who", "who")}))
    assert of_first.script is not None
    assert of_older.script is not None
    assert without_places(of_first.script) == without_places(of_older.script)


@pytest.mark.parametrize(
    "action",
    [
        "{choose: Tea?, into: plan, choices: [a, b], rounds: 2, when: plan is undefined}",
        "{chat: Talk, exit: enough}",
        "{end: bye}",
        "{end: {reason: bye, outcome: refused}}",
        "{end: {outcome: completed}, milestone: done}",
        "{ask: Who?, into: a, if_known: skip}",
        "{ai_ask: Who?, into: a, if_known: {confirm: 'Still {{ a }}?'}}",
        "{ask: Who?, into: a, on_fail: {say: Never mind., do: [{set: {a: x}}, {say: '{{ a }}'}], then: goto first}}",
        "{choose: Tea?, into: plan, choices: [{key: a, text: A, when: x > 1, once: true, do: [{say: Good.}]}, {b: B}]}",
        "{choose: '', into: p, choices: [{each: slots as s, key: =s.id, text: '{{ s.n }}', when: s.free}, {key: K}]}",
        "{say: Hi, acknowledge: true}",
        "{say: [Hi, Hello], acknowledge: Go on, remind: [{after: 1 day, say: Still there?}]}",
        "{show: cat.png, acknowledge: true}",
        "{ai_say: Hi, utterances: 2, acknowledge: 'Yes, {{ a }}'}",
        "{ai_ask: Who?, into: a, exit: {said: a name, when: a is defined, min_rounds: 1}}",
        "{chat: Talk, exit: [{when: a > 1}, {said: enough, understanding: 80, no_questions: false}]}",
    ],
)
def test_what_is_written_is_read_again(action: str) -> None:
    assert script(action) == without_places(read_script(Source(native_yaml(script(action)))).script)


ACTIONS = "actions:\n- {ask: Who?, into: name, id: who}\n- {say: 'Hello {{ name }}.', id: hello}\n"
TOPIC = ACTIONS.replace("\n- ", "\n    - ").replace(
    "actions", "phases:\n- phase: main\n  topics:\n  - topic: main\n    actions"
)


def test_actions_of_a_script_are_its_only_topic() -> None:
    short = read_script(Source(f"cuebook: 1\nscript: talk\n{ACTIONS}"))
    whole = read_script(Source(f"cuebook: 1\nscript: talk\n{TOPIC}"))
    assert short.script is not None
    assert whole.script is not None
    assert without_places(short.script) == without_places(whole.script)
    assert short.script.phases[0].topics[0].actions[0].at.line == 4
    assert native_yaml(whole.script) == native_yaml(short.script)
    assert "\nactions:\n" in native_yaml(whole.script)


@pytest.mark.parametrize("setting", ["title: First", "goal: Know the name", "interruptible: false"])
def test_a_topic_with_settings_is_written_with_its_phase(setting: str) -> None:
    whole = read_script(
        Source(f"cuebook: 1\nscript: talk\n{TOPIC.replace('topic: main', f'topic: main{chr(10)}    {setting}')}")
    )
    assert whole.script is not None
    written = native_yaml(whole.script)
    assert "phases:" in written
    again = read_script(Source(written))
    assert again.script is not None
    assert without_places(again.script) == without_places(whole.script)


def test_actions_beside_phases_are_an_error_with_the_cure() -> None:
    found = read_script(Source(f"cuebook: 1\nscript: talk\n{ACTIONS}phases: []\n"))
    assert found.script is None
    problem = next(each for each in found.errors if each.code == "UNKNOWN_KEY")
    assert "Write actions in a topic" in problem.fix


def test_first_release_file_without_its_key_has_one_error() -> None:
    found = read_script(Source(f"script: talk\n{ACTIONS}"))
    assert found.script is None
    assert [(each.line, each.fix[:18]) for each in found.errors] == [(1, "Write `cuebook: 1`")]


def test_errors_of_an_older_file_are_those_of_its_language() -> None:
    older = (
        "phases: [{phase: p, topics: [{topic: t, actions: [{ask: Who?, output: [name], maxrounds: 2, then: x}]}]}]\n"
    )
    errors = read_script(Source(f"script: talk\n{older}")).errors
    assert [each.message for each in errors] == ["unknown key `maxrounds`", "unknown key `then`"]


@pytest.mark.parametrize(
    ("action", "older"),
    [
        ("{ask: Who?, into: name}", "output"),
        ("{ask: Who?, output: [name], rounds: 2}", "max_rounds"),
        ("{ask: Who?, output: [{get: name, var: name}]}", "get"),
        ("{ai_say: Hi, acknowledge: true}", "require_acknowledgment"),
    ],
)
def test_a_new_key_in_an_older_file_is_an_error_with_both_cures(action: str, older: str) -> None:
    (problem,) = reading(action, first_release=False).errors
    assert problem.code == "UNKNOWN_KEY"
    assert problem.fix == f"Write `{older}`, or begin the file with `cuebook: 1`: `cuebook convert` rewrites it."


@pytest.mark.parametrize(
    "text",
    ["Hello {{ name }}", "{{ a }}{{ b }}", "==x {{ a | join(', ') }}!", '"{{ a }}"', "{{ a }}\\ {{ b }}"],
)
def test_a_text_with_placeholders_is_written_as_it_was(text: str) -> None:
    found = read_script(Source(f"cuebook: 1\nscript: talk\nactions:\n- set:\n    x: {json.dumps(text)}\n"))
    assert found.script is not None
    written = yaml.safe_load(native_yaml(found.script))
    assert written["actions"][0]["set"] == {"x": text}


def test_ambiguous_placeholder_is_written_as_an_expression() -> None:
    text = '{{ a ~ (b) ~ "c" }}'
    found = read_script(Source(f"cuebook: 1\nscript: talk\nactions:\n- set: {{x: {json.dumps(text)}}}\n"))
    assert found.script is not None
    again = read_script(Source(native_yaml(found.script)))
    assert again.script is not None
    assert without_places(again.script) == without_places(found.script)


def ids(text: str) -> list[str]:
    found = read_script(Source(f"cuebook: 1\nscript: talk\nactions:\n{text}"))
    assert found.script is not None, [str(problem) for problem in found.errors]
    assert [each.code for each in found.problems if each.code == "ID_DERIVED"] == []
    return [action.id for action in walk(found.script.phases[0].topics[0].actions)]


def test_action_without_an_id_is_named_after_its_first_variable() -> None:
    actions = """
- say: Hi.
- {ask: Who?, into: [{var: name}, {var: age}]}
- {ask: Who?, into: name}
- {ask: Who?, into: name_2}
- {say: Hello., id: ask_name_3}
- {ask: Who?, into: name}
- {choose: Tea?, into: drink, choices: [{key: tea, text: Tea, do: [{set: {cups: 1}}, {say: Fine.}]}, no]}
- {set: {a: 1, b: 2}}
- {add: {list: 1}}
- {recall: tea, into: found}
"""
    assert ids(actions) == [
        *("say_1", "ask_name", "ask_name_2", "ask_name_2_2", "ask_name_3", "ask_name_4"),
        *("choose_drink", "set_cups", "say_2", "set_a", "add_list", "recall_found"),
    ]


def test_an_include_file_names_its_actions_alike() -> None:
    skill = "cuebook: 1\nskills: [{skill: greet, actions: [{ask: Who?, into: name}]}]\n"
    text = "cuebook: 1\nscript: talk\nuse: [skills.yaml]\nactions: [{call: greet}]\n"
    found = read_script(Source(text, "talk.yaml", {"skills.yaml": skill}))
    assert found.script is not None
    assert found.script.skills[0].actions[0].id == "ask_name"


def test_what_is_written_has_its_ids() -> None:
    text = "cuebook: 1\nscript: talk\nactions: [{ask: Who?, into: name}]\n"
    read = read_script(Source(text)).script
    assert read is not None
    assert "id: ask_name" in native_yaml(read)

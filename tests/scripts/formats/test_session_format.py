"""The session form: what its keys, old and new, come to in the one model."""

import json
from textwrap import dedent, indent

import pytest

from scripts.model.actions import AiAsk, AiSay, AiThink, Show
from scripts.model.variables import Assignment, Output, OutputItem
from scripts.parse.conversion import convert
from scripts.parse.folder import read_path
from scripts.parse.read_script import Reading, Source, read_script
from tests.support.script_readers import FirstAction, ReadScript, ReadValid

SCRIPT = """
    metadata: {name: Named here, version: 1.2, author: Ann, description: A talk., audience: all}
    session:
      session_id: talk
      declare: [{var: city}]
      phases:
        - phase_id: opening
          phase_name: Opening
          phase_goal: trust
          entry_condition: "{age} >= 20 && !{married}"
          declare: [{var: age, value: 20}, {var: married, value: false}]
          topics:
            - topic_id: welcome
              topic_goal: to greet
              strategy: slowly
              declare: [{var: mood, value: ok}]
              actions:
                - action_type: ai_say
                  action_id: hello
                  condition: "{mood} == 'ok'"
                  config: {content: "Hello ${name}, {{mood}}.", tone: warm, ai_role: guide, say_goal: ease}
"""


def test_every_level_is_translated(script: ReadValid) -> None:
    read = script(SCRIPT)
    phase = read.phases[0]
    topic = phase.topics[0]
    action = topic.actions[0]
    assert (read.id, read.title, read.version, read.author) == ("talk", "Named here", "1.2", "Ann")
    assert (read.form, read.default_scope) == ("session", "session")
    assert (phase.id, phase.title, phase.goal, phase.when.source) == (
        "opening",
        "Opening",
        "trust",
        "age >= 20 and not married",
    )
    assert (topic.id, topic.goal, topic.strategy, topic.declare[0].var) == ("welcome", "to greet", "slowly", "mood")
    assert (action.id, action.when.source, action.tone, action.role) == ("hello", 'mood == "ok"', "warm", "guide")
    assert action.task.source == "Hello {{ name }}, {{ mood }}."


@pytest.mark.parametrize(
    ("keys", "utterances", "waits"),
    [
        ("", 1, True),
        ("max_rounds: 1", 1, True),
        ("max_rounds: 0", 1, True),
        ("require_acknowledgment: true", 1, True),
        ("require_acknowledgment: false", 1, False),
        ("require_acknowledgment: false, max_rounds: 1", 1, False),
        ("max_rounds: 3", 3, False),
        ("max_rounds: 3, require_acknowledgment: true", 3, False),
        ("max_rounds: 3, require_acknowledgment: false", 3, False),
    ],
)
def test_an_utterance_waits_once_unless_configured_otherwise(
    session_action: FirstAction, keys, utterances, waits
) -> None:
    read = session_action(f"- {{action_type: ai_say, action_id: a, config: {{content: Hello., {keys}}}}}")
    assert isinstance(read, AiSay)
    assert (read.utterances, read.acknowledge is not None) == (utterances, waits)


@pytest.mark.parametrize(
    ("written", "rounds"), [("max_rounds: 0", 3), ("", 3), ("max_rounds: 5", 5), ("max_rounds: ~", 3)]
)
def test_a_question_without_rounds_has_the_default(session_action: FirstAction, written, rounds) -> None:
    read = session_action(f"- {{action_type: ai_ask, action_id: a, config: {{content: Who?, {written}}}}}")
    assert isinstance(read, AiAsk)
    assert read.max_rounds == rounds


@pytest.mark.parametrize("key", ["content", "content_template", "question_template", "prompt_template"])
def test_the_text_may_stand_under_an_older_key(session_action: FirstAction, key) -> None:
    read = session_action(f'- {{action_type: ai_ask, action_id: a, config: {{{key}: "Who is {{{{name}}}}?"}}}}')
    assert read.task.source == "Who is {{ name }}?"


def test_of_two_texts_the_newer_key_s_is_used(session_action: FirstAction) -> None:
    read = session_action(
        "- {action_type: ai_say, action_id: a, config: {prompt_template: older, content: newer, content_template: old}}"
    )
    assert read.task.source == "newer"


@pytest.mark.parametrize(
    ("keys", "outputs"),
    [
        ("target_variable: age", [("age", "", None)]),
        ("target_variable: age, extraction_prompt: years, required: true", [("age", "years", True)]),
        ("target_variable: age, required: false", [("age", "", False)]),
        ("output: [{get: age, define: in years}], target_variable: age", [("age", "in years", None)]),
        ("output: [{get: age}], target_variable: name", [("age", "", None), ("name", "", None)]),
        ("output_variables: [a, b], output: [{get: b, define: two}]", [("b", "two", None), ("a", "", None)]),
    ],
)
def test_outputs_old_and_new_are_merged(session_action: FirstAction, keys, outputs) -> None:
    read = session_action(f"- {{action_type: ai_ask, action_id: a, config: {{content: Who?, {keys}}}}}")
    assert [(output.get, output.define, output.required) for output in read.outputs] == outputs


@pytest.mark.parametrize(("keys", "task"), [("think_goal: sum up", "sum up"), ("think_goal: x, content: y", "y\n\nx")])
def test_a_thought_may_be_written_as_its_goal(session_action: FirstAction, keys, task) -> None:
    read = session_action(
        f"- {{action_type: ai_think, action_id: a, config: {{{keys}, output_variables: [y], input_variables: [x]}}}}"
    )
    assert isinstance(read, AiThink)
    assert (read.task.source, read.outputs[0].get) == (task, "y")


@pytest.mark.parametrize("keys", ['image: "{name}.png", caption: Look', 'image_url: "{name}.png", alt: Look'])
def test_a_picture_is_a_media_message(session_action: FirstAction, keys) -> None:
    read = session_action(f"- {{action_type: show_pic, action_id: a, config: {{{keys}}}}}")
    assert isinstance(read, Show)
    assert (read.media.image.source, read.media.caption.source) == ("{{ name }}.png", "Look")


@pytest.mark.parametrize(
    "written",
    [
        "- {action_type: ai_ask, action_id: who, config: {content: Who?, max_rounds: 2}}",
        "- {type: ai_ask, id: who, content: Who?, max_rounds: 2}",
        "- {type: ai_ask, action_id: who, config: {content: Who?, max_rounds: 2}}",
        "- {ai_ask: Who?, action_id: who, max_rounds: 2}",
        "- {action_type: ai_ask, id: who, action_name: Named, description: Told., content: Who?, max_rounds: 2}",
    ],
)
def test_an_action_s_keys_may_stand_inline(session_action: FirstAction, written) -> None:
    read = session_action(written, "strict")
    assert isinstance(read, AiAsk)
    assert (read.id, read.task.source, read.max_rounds) == ("who", "Who?", 2)


@pytest.mark.parametrize(
    ("keys", "code", "fix"),
    [
        ("content_template: Hello.", "DEPRECATED_KEY", "`content`"),
        ("question_template: Hello.", "DEPRECATED_KEY", "`content`"),
        ("prompt_template: Hello.", "DEPRECATED_KEY", "`content`"),
        ("content: Hello., target_variable: x", "DEPRECATED_KEY", "`output: [{get: …}]`"),
        ("content: Hello., extraction_prompt: x", "DEPRECATED_KEY", "`define` inside `output`"),
        ("content: Hello., required: true", "DEPRECATED_KEY", "`required` inside `output`"),
        ("content: Hello., colour: x", "UNKNOWN_KEY", "`content`"),
        ("content: Hello., content_template: x", "KEY_CONFLICT", "Remove one"),
    ],
)
def test_compat_mode_converts_with_a_warning_what_strict_refuses(read: ReadScript, keys, code, fix) -> None:
    text = SCRIPT.replace("action_type: ai_say", "action_type: ai_ask")
    text = text.replace('content: "Hello ${name}, {{mood}}.", tone: warm, ai_role: guide, say_goal: ease', keys)
    strict, compat = read(text, "strict"), read(text, "compat")
    assert strict.script is None
    assert compat.script is not None
    for reading, severity in ((strict, "error"), (compat, "warning")):
        problem = next(problem for problem in reading.problems if problem.code == code)
        assert (problem.severity, fix in problem.fix) == (severity, True)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("session_id: talk", "session.session_id"),
        ("phase_id: opening", "session.phases[0].phase_id"),
        ("topic_id: welcome", "session.phases[0].topics[0].topic_id"),
        ("action_type: ai_say", "session.phases[0].topics[0].actions[0].action_type"),
        ("action_id: hello", "session.phases[0].topics[0].actions[0].action_id"),
        ('content: "Hello ${name}, {{mood}}.", ', "opening/welcome/hello"),
    ],
)
def test_a_missing_field_is_named_with_its_path(read: ReadScript, line, path) -> None:
    text = SCRIPT.replace(
        line, "" if line.startswith("content") else "description: x" if "action" in line else "locale: en"
    )
    missing = [problem for problem in read(text).errors if problem.code == "REQUIRED_FIELD_MISSING"]
    assert [problem.path for problem in missing] == [path]


def test_numbers_and_truths_in_quotes_are_what_they_spell(session_action: FirstAction) -> None:
    read = session_action('- {action_type: ai_say, action_id: a, config: {content: Hi., max_rounds: "2"}}')
    assert read.utterances == 2
    read = session_action('- {action_type: ai_say, action_id: a, config: {content: Hi., require_acknowledgment: "no"}}')
    assert read.acknowledge is None


@pytest.mark.parametrize(
    ("written", "percent"),
    [("0.8", 80), ("1.0", 100), ("1", 100), ("2", 2), ("'80%'", 80), ("'0.8'", 80), ("'1％'", 1)],
)
def test_understanding_may_be_written_as_a_part_of_one(session_action: FirstAction, written, percent) -> None:
    read = session_action(f"""
                - action_type: ai_ask
                  action_id: a
                  config: {{content: Who?, exit_criteria: {{understanding_threshold: {written}}}}}
    """)
    assert [each.understanding for each in read.exits] == [percent]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[{variable: n, operator: gte, value: 3}]", "n is defined and n >= 3"),
        ("{var: n, op: '>=', value: 3}", "n is defined and n >= 3"),
        ("{variable: n, operator: not_contains, value: x}", 'n is defined and "x" not in n'),
        ("{variable: n, operator: one_of, value: [x, 3]}", 'n is defined and n in ["x", 3]'),
        ("{variable: n, operator: not_in, value: [x]}", 'n is defined and n not in ["x"]'),
        ("{variable: n, operator: exists}", '(n|default("") ~ "") != ""'),
        ("{variable: n, operator: is_empty, value: ~}", '(n|default("") ~ "") == ""'),
        ("{variable: n, operator: '!=', value: ''}", '(n|default("") ~ "") != ""'),
    ],
)
def test_comparisons_of_exits_may_be_words(session_action: FirstAction, written, meant) -> None:
    read = session_action(
        """
                - action_type: ai_ask
                  action_id: a
                  config:
                    content: Who?
                    exit_criteria:
                      custom_conditions: {written}
    """.replace("{written}", written)
    )
    (found,) = read.exits
    assert found.when.source == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{mood} contains 'ca'", '"ca" in mood'),
        ("{mood} = 'calm' && {age} <> 3", 'mood == "calm" and age != 3'),
        ("{mood} 等于 ‘calm’", 'mood == "calm"'),
        ("{mood} == calm", 'mood == "calm"'),
        ("mood == calm", "mood == calm"),
        ("{phone} == ''", '(phone|default("") ~ "") == ""'),
        (["{age} > 3", "{mood} == calm or sad"], '(age > 3) and ((mood == "calm" or mood == "sad"))'),
        ({"variable": "age", "operator": "gte", "value": 18}, "age >= 18"),
        ({"any": ["{age} > 3", {"all": ["{mood} == calm", "{ok}"]}]}, '(age > 3) or ((mood == "calm") and (ok))'),
        ({"var": "{mood}", "op": "==", "value": "calm"}, 'mood == "calm"'),
        ({"variable": "age", "operator": "greater_than", "value": 18}, "age > 18"),
        ({"variable": "age", "operator": "lessThanOrEqual", "value": 18}, "age <= 18"),
        ({"variable": "mood", "operator": "exists"}, '(mood|default("") ~ "") != ""'),
        ({"not": {"variable": "mood", "operator": "is_empty"}}, 'not ((mood|default("") ~ "") == "")'),
        ({"variable": "mood", "operator": "not_in", "value": ["calm", "sad"]}, 'mood not in ["calm", "sad"]'),
        ({"variable": "mood", "operator": "not_contains", "value": "ca"}, '"ca" not in mood'),
        ({"variable": "age", "value": 18}, "age == 18"),
        ([{"variable": "mood", "operator": "!=", "value": ""}], '((mood|default("") ~ "") != "")'),
    ],
)
def test_conditions_are_those_of_the_other_older_formats(session_action: FirstAction, written, meant) -> None:
    condition = json.dumps(written, ensure_ascii=False)
    read = session_action(f"- {{action_type: ai_say, action_id: a, condition: {condition}, config: {{content: Hi}}}}")
    assert read.when.source == meant


@pytest.mark.parametrize("key", ["condition", "entry_condition"])
def test_phases_and_topics_may_call_their_condition_alike(script: ReadValid, key) -> None:
    text = SCRIPT.replace("entry_condition", key).replace("topic_goal: to greet", f'{key}: "{{mood}} != 1"')
    read = script(text)
    assert read.phases[0].when.source == "age >= 20 and not married"
    assert read.phases[0].topics[0].when.source == "mood != 1"


def whole(actions: str, use: str = "") -> str:
    """Return a script in this form with these actions."""
    head = f"session:\n  session_id: talk\n{use}  phases:\n    - phase_id: main\n      topics:\n"
    return head + "        - topic_id: first\n          actions:\n" + indent(dedent(actions), " " * 12)


def test_a_form_stands_in_the_action_that_shows_it(script: ReadValid) -> None:
    read = script(
        whole("""
        - action_type: show_form
          action_id: about
          config:
            form_id: person
            title: "About {name}"
            fields:
              - {name: age, label: Your age, type: int, required: "true"}
              - {key: city, type: select, options: [Rome, Oslo]}
              - {key: agreed, type: checkbox}
              - {field: next, type: number, computed: "{age} + 1"}
    """)
    )
    (sheet,) = read.forms
    assert read.phases[0].topics[0].actions[0].sheet == sheet.id == "person"
    assert sheet.title.source == "About {{ name }}"
    assert [(each.name, each.type, each.required) for each in sheet.fields] == [
        ("age", "number", True),
        ("city", "choice", False),
        ("agreed", "boolean", False),
        ("next", "number", False),
    ]
    assert sheet.fields[3].computed.source == "age + 1"


@pytest.mark.parametrize(
    "returned", ["output: [word]", "outputs: [{get: word}]", "returns: {word: word}", "tone: calm"]
)
def test_a_skill_may_be_called_in_the_words_of_other_versions(script: ReadValid, returned) -> None:
    skill = "skills: [{skill: calm, params: [{var: place}], returns: [word], actions: [{set: {word: place}, id: s}]}]"
    for given in ("{place: here}", "[{name: place, value: here}]", "[place]"):
        check_call(script, f"{{skill_id: calm, params: {given}, {returned}}}", skill)
        check_call(script, f"{{technique_id: calm, input_variables: {given}, {returned}}}", skill)


def check_call(script: ReadValid, config: str, skill: str) -> None:
    text = whole(f"- {{action_type: use_skill, action_id: a, config: {config}}}", "  use: [calm.yaml]\n")
    call = script(text, **{"calm.yaml": skill}).phases[0].topics[0].actions[0]
    assert (call.skill, list(call.input), dict(call.output)) == ("calm", ["place"], {"word": "word"})


@pytest.mark.parametrize("output", ["{mine: word}", "{word: mine}"])
def test_a_result_may_be_written_before_or_behind_its_variable(script: ReadValid, output) -> None:
    skill = "skills: [{skill: calm, returns: [word], actions: [{set: {word: 1}, id: s}]}]"
    config = f"{{skill: calm, output: {output}}}"
    text = whole(f"- {{action_type: use_skill, action_id: a, config: {config}}}", "  use: [calm.yaml]\n")
    call = script(text, **{"calm.yaml": skill}).phases[0].topics[0].actions[0]
    assert dict(call.output) == {"mine": "word"}


def test_a_second_topic_of_a_technique_is_an_error(read: ReadScript) -> None:
    topic = "{topic_id: t, actions: [{type: ai_say, id: a, content: Hi}]}"
    reading = read(f"technique_id: calm\ntopics:\n- {topic}\n- {topic}\n")
    (problem,) = reading.errors
    assert (problem.line, problem.message) == (4, "a technique has only one topic; this one would not run")


def test_placeholders_in_lists_of_parameters_are_replaced(script: ReadValid) -> None:
    skill = "skills: [{skill: calm, params: [{var: place}], actions: [{say: a, id: s}]}]"
    config = "{skill: calm, input: {place: ['{city}', {a: '{b}!'}]}}"
    text = whole(f"- {{action_type: use_skill, action_id: a, config: {config}}}", "  use: [calm.yaml]\n")
    call = script(text, **{"calm.yaml": skill}).phases[0].topics[0].actions[0]
    assert call.input["place"].source == '[city, {"a": b ~ "!"}]'


def test_technique_has_described_outputs_and_typed_parameters(script: ReadValid) -> None:
    read = script("""
        technique_id: calm
        input_parameters: [{name: depth, type: int, default: 2}, {name: kind, type: choice, required: false}]
        output_variables: [{name: word, description: how it was}]
        topic:
          topic_id: t
          actions: [{action_type: ai_ask, action_id: a, config: {content: "How {depth}?", output: [{get: word}]}}]
    """)
    assert [each.type for each in read.skills[0].params] == ["number", None]
    assert read.skills[0].returns == ("word",)
    assert [each.define for each in read.skills[0].actions[0].outputs] == ["how it was"]


def test_the_meaning_of_a_result_without_a_question_is_reported(read) -> None:
    reading = read(f"technique_id: calm\ninput_parameters: [thought]\noutputs: {{thought: it}}\nactions: {ASKS}")
    (problem,) = (each for each in reading.problems if each.code == "KEY_IGNORED")
    assert (problem.message, problem.line) == ("the meaning of the output `thought` has no effect", 3)


def test_an_optional_parameter_may_have_no_value(script: ReadValid) -> None:
    parameters = "[{name: a}, {name: b, required: false}, {name: c, required: false, default: 5}]"
    read = script(f"technique_id: calm\ninput_parameters: {parameters}\nactions: {ASKS}")
    given = read.phases[0].topics[0].actions[0].input
    assert {name: each.source for name, each in given.items()} == {"a": "a", "b": "b | default(none)", "c": "c"}


ONE = "session: {{session_id: s, phases: [{{phase_id: p, topics: [{{topic_id: t, actions: [{}]}}]}}]}}"


@pytest.mark.parametrize("mode", ["strict", "compat"])
@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("{action_type: aks, action_id: a, config: {content: b}}", "ENUM_VALUE_INVALID"),
        ("{type: aks, id: a, content: b}", "ENUM_VALUE_INVALID"),
        ("{action_type: ai_say, action_id: a, config: {contents: b}}", "UNKNOWN_KEY"),
        ("{action_type: ai_say, action_id: a, enabled: false, config: {content: b}}", "UNKNOWN_KEY"),
        ("{action_type: ai_say, action_id: a, config: {content: b, disabled: true}}", "UNKNOWN_KEY"),
        ("{action_type: ai_ask, action_id: a, config: {content: b, exti: c}}", "UNKNOWN_KEY"),
        ("{action_type: ai_say, action_id: a, config: {content: b, after: [{say: c}]}}", "UNKNOWN_KEY"),
        ("{action_type: ai_say, action_id: a, config: {content: b, output: [c]}}", "KEY_IGNORED"),
        ("{action_type: show_pic, action_id: a, config: {image: b.png, content: c}}", "KEY_IGNORED"),
    ],
)
def test_what_would_not_be_done_is_an_error(action, code, mode) -> None:
    reading = read_script(Source(ONE.format(action), "s.yaml"), mode)
    assert reading.script is None
    assert code in {problem.code for problem in reading.errors}


@pytest.mark.parametrize("required", ["true", "false"])
def test_required_beside_output_counts_for_each(required) -> None:
    config = f"{{content: b, required: {required}, output: [c, {{get: d, required: true}}]}}"
    reading = read_script(Source(ONE.format(f"{{action_type: ai_ask, action_id: a, config: {config}}}"), "s.yaml"))
    assert reading.script is not None
    asked = reading.script.phases[0].topics[0].actions[0]
    assert [each.required for each in asked.outputs] == [required == "true", True]


@pytest.mark.parametrize(
    "output",
    [
        "{get: age, define: in years, type: int}",
        "[{var: age, desc: in years, type: Integer}]",
        "[{name: age, description: in years, type: 数字}]",
    ],
)
def test_an_output_may_be_written_in_the_words_of_other_versions(session_action: FirstAction, output) -> None:
    read = session_action(f"- {{action_type: ai_ask, action_id: a, config: {{content: Age?, output: {output}}}}}")
    assert [(each.get, each.define, each.type) for each in read.outputs] == [("age", "in years", "number")]


@pytest.mark.parametrize(
    "keys",
    [
        "question: Well?, options: [good, bad], output: [{get: mood}]",
        "text: Well?, options: 'good, bad', output: mood",
        "message: Well?, choices: good/bad, target_variable: mood",
        "prompt: Well?, save_to: mood, options: 好、坏",
        "content: Well?, output: {get: mood, choices: good | bad}",
        "content: Well?, output: {get: mood, choices: [{label: good}, {label: bad}]}",
        "content: Well?, output: {get: mood, choices: {A: good, B: bad}}",
    ],
)
def test_a_question_may_have_its_choices_beside_it(session_action: FirstAction, keys) -> None:
    read = session_action(f"- {{action_type: ai_ask, action_id: a, config: {{{keys}}}}}")
    assert read.task.source == "Well?"
    assert [(each.get, each.choices) for each in read.outputs] in (
        [("mood", ("good", "bad"))],
        [("mood", ("好", "坏"))],
    )


@pytest.mark.parametrize("label", ["label", "text", "name"])
def test_a_choice_with_a_value_and_a_label_stores_the_value(session_action: FirstAction, label) -> None:
    choices = f"[{{value: 0, {label}: good}}, {{{label}: bad, value: 1}}, unsure]"
    keys = f"content: Well?, output: {{get: mood, choices: {choices}}}"
    read = session_action(f"- {{action_type: ai_ask, action_id: a, config: {{{keys}}}}}")
    (mood,) = read.outputs
    assert (mood.choices, mood.labels) == (("0", "1", "unsure"), {"0": "good", "1": "bad"})


@pytest.mark.parametrize(
    "keys",
    [
        "output_list: [{get: age, define: in years}, {get: city, define: home}]",
        "outputs: {age: in years, city: home}",
        "output: [{age: in years}, {city: {define: home}}]",
        "output_variables: [{name: age, description: in years}, {name: city, description: home}]",
    ],
)
def test_outputs_may_be_written_in_the_words_of_other_versions(session_action: FirstAction, keys) -> None:
    read = session_action(f"- {{action_type: ai_think, action_id: a, config: {{think_goal: b, {keys}}}}}")
    assert [(each.get, each.define) for each in read.outputs] == [("age", "in years"), ("city", "home")]


@pytest.mark.parametrize("output", ["[{gett: age}]", "{defin: in years}"])
def test_a_misspelt_key_of_an_output_is_no_variable(output) -> None:
    config = f"{{content: b, output: {output}}}"
    reading = read_script(Source(ONE.format(f"{{action_type: ai_ask, action_id: a, config: {config}}}"), "s.yaml"))
    assert reading.script is None


@pytest.mark.parametrize("text", ["~", "''", "' '"])
def test_an_action_without_a_text_is_an_error(text) -> None:
    written = f"{{action_type: ai_say, action_id: a, config: {{content: {text}}}}}"
    reading = read_script(Source(ONE.format(written), "s.yaml"))
    assert [each.code for each in reading.errors] == ["REQUIRED_FIELD_MISSING"]


def test_limits_and_choices_of_outputs_have_other_names(session_action: FirstAction) -> None:
    outputs = "[{get: n, type: number, range: [1, 10]}, {get: c, options: [x, y]}, {get: d, enum: x/y}]"
    read = session_action(f"- {{action_type: ai_ask, action_id: a, config: {{content: b, output: {outputs}}}}}")
    number, *texts = read.outputs
    assert number.limits == (1, 10)
    assert [each.choices for each in texts] == [("x", "y"), ("x", "y")]


def test_an_exit_that_compares_variables_is_a_condition(session_action: FirstAction) -> None:
    read = session_action("""
                - action_type: ai_ask
                  action_id: a
                  config: {content: Who?, output: [{get: n}], exit: "{n} > 3"}
    """)
    assert [(each.said, each.when.source) for each in read.exits] == [(None, "n > 3")]


@pytest.mark.parametrize(
    "keys", ["when: '{n} > 3', content: b", "if: '{n} > 3', content: b", "config: {content: b, condition: '{n} > 3'}"]
)
def test_condition_of_an_action_may_have_other_names_and_places(session_action: FirstAction, keys) -> None:
    assert session_action(f"- {{action_type: ai_say, action_id: a, {keys}}}").when.source == "n > 3"


PHASES = "phases: [{phase_id: p, topics: [{topic_id: t, actions: [{type: ai_say, id: a, content: '{n}'}]}]}]"
SHORT_PHASES = PHASES.replace("phase_id", "id").replace("topic_id", "id")


@pytest.mark.parametrize(
    "text",
    [
        f"session_id: talk\nsession_name: Talk\nvariables: [{{name: n, value: 1}}]\n{PHASES}",
        f"session: [{{session_id: talk, session_name: Talk, variables: [{{name: n, value: 1}}], {PHASES}}}]",
        f"sessions: [{{session_id: talk, session_name: Talk, variables: [{{name: n, value: 1}}], {PHASES}}}]",
        f"global: [{{var: n, value: 1}}]\nsession: {{session_id: talk, session_name: Talk}}\n{PHASES}",
        f"metadata: {{name: Talk}}\nvariables: [{{var: n, value: 1}}]\nsession: {{session_id: talk, {PHASES}}}",
        f"session: {{id: talk, name: Talk, variables: {{n: 1}}, {SHORT_PHASES}}}",
    ],
)
def test_keys_of_the_session_may_be_beside_it(script: ReadValid, text) -> None:
    read = script(text)
    assert (read.form, read.id, read.title) == ("session", "talk", "Talk")
    assert [(each.var, each.value) for each in read.declare] == [("n", 1)]
    assert read.phases[0].topics[0].actions[0].task.source == "{{ n }}"


def test_what_describes_a_session_may_be_beside_it(read: ReadScript) -> None:
    about = "version: '2'\nauthor: Ann\ndescription: A talk.\ntags: [calm]\n"
    reading = read(f"{about}session: {{session_id: talk, variables: {{n: 1}}, {PHASES}}}")
    script = reading.script
    assert (script.version, script.author, script.description, script.tags) == ("2", "Ann", "A talk.", ("calm",))
    assert reading.problems == ()


@pytest.mark.parametrize(
    "text",
    [
        f"global: [{{var: n, value: 1}}]\nsession: {{session_id: talk}}\n{PHASES}",
        f"session: {{session_id: talk, globals: [{{var: n, value: 1}}], {PHASES}}}",
        "global: [{var: n, value: 1}]\n"
        "sessions: [{session: talk, stages: [{stage: p, steps: [{goal: g, actions: [say: a]}]}]}]",
    ],
)
def test_global_variables_of_a_script_itself_are_reported(read: ReadScript, text: str) -> None:
    reading = read(text)
    assert reading.script is not None
    assert [each.var for each in reading.script.declare] == ["n"]
    (problem,) = [each for each in reading.problems if each.code == "UNKNOWN_KEY"]
    assert problem.severity == "warning"
    assert "in a script declares variables of the session, not of the user" in problem.message


@pytest.mark.parametrize("key", ["declare", "variables"])
def test_variables_may_be_declared_by_name(script: ReadValid, key) -> None:
    read = script(f"session_id: talk\n{key}: {{n: {{value: 1, type: int}}, city: where they live, age: 3}}\n{PHASES}")
    assert [(each.var, each.value, each.define) for each in read.declare] == [
        ("n", 1, ""),
        ("city", None, "where they live"),
        ("age", 3, ""),
    ]


def test_records_and_numbers_in_quotes_are_values_of_variables(read: ReadScript) -> None:
    declared = "variables: {home: {city: Rome, name: Sun}, code: '007', is_new: 'true', moods: [calm]}\n"
    reading = read(f"session_id: talk\n{declared}{PHASES}")
    assert [each.value for each in reading.script.declare] == [{"city": "Rome", "name": "Sun"}, "007", "true", ["calm"]]
    assert not {"UNKNOWN_KEY", "VALUE_AMBIGUOUS"} & {each.code for each in reading.problems}


def test_a_word_in_which_a_condition_looks_is_a_variable(script: ReadValid) -> None:
    phases = PHASES.replace("phase_id: ", "entry_condition: '{mood} in moods', phase_id: ", 1)
    assert script(f"session_id: talk\nvariables: {{moods: [calm]}}\n{phases}").phases[0].when.source == "mood in moods"


def test_an_empty_value_is_a_missing_one(session_action: FirstAction) -> None:
    keys = (
        "content: Well?, tone: , exit: , output: [{get: mood, define: , choices: }], content_template: , max_rounds: "
    )
    read = session_action(f"- {{action_type: AI_ASK, action_id: a, condition: , config: {{{keys}}}}}")
    assert (read.task.source, read.tone, read.when, read.exits) == ("Well?", "", None, ())
    assert [(each.get, each.define, each.choices) for each in read.outputs] == [("mood", "", ())]


@pytest.mark.parametrize("written", ["zh", "Chinese", "中文"])
def test_a_session_names_its_language(script: ReadValid, written) -> None:
    assert script(f"session_id: talk\nlanguage: {written}\n{PHASES}").locale == "zh"


@pytest.mark.parametrize("is_outer", [False, True])
def test_a_session_defines_the_roles_of_its_actions(read: ReadScript, is_outer) -> None:
    roles = "roles: [{role: boss, name: Mr Hill, tone: stern}]\n"
    says = "{action_type: ai_say, action_id: a, config: {content: Well?, ai_role: boss}}"
    phases = f"phases: [{{phase_id: p, topics: [{{topic_id: t, actions: [{says}]}}]}}]"
    text = f"session: {{session_id: talk, {phases}}}\n{roles}" if is_outer else f"session_id: talk\n{roles}{phases}\n"
    reading = read(text)
    assert [(each.id, each.name) for each in reading.script.roles] == [("boss", "Mr Hill")]
    assert reading.problems == ()


def test_an_output_has_other_words_for_its_keys(session_action: FirstAction) -> None:
    output = "{variable_name: n, data_type: number, extraction_prompt: a number, retry_message: 'A number, please.'}"
    read = session_action(f"- {{action_type: ai_ask, action_id: a, config: {{content: Which?, output: [{output}]}}}}")
    (found,) = read.outputs
    assert (found.get, found.kind, found.define, found.invalid.source) == (
        "n",
        "number",
        "a number",
        "A number, please.",
    )


def test_what_is_required_without_being_a_question_is_a_warning(read: ReadScript) -> None:
    topic = "{topic_id: t, required: true, actions: []}"
    declared = "variables: [{name: city, required: true}]"
    reading = read(f"session_id: talk\n{declared}\nphases: [{{phase_id: p, topics: [{topic}]}}]\n")
    assert [(each.message, each.severity) for each in reading.problems if each.code == "UNKNOWN_KEY"] == [
        ("unknown key `required`", "warning")
    ] * 2


def test_an_item_of_a_list_without_content_is_ignored(script: ReadValid) -> None:
    asks = "- action_type: ai_ask\n  action_id: a\n  config:\n    content: Who?\n    output:\n    - get: who\n    -\n"
    actions = indent(f"-\n{asks}-\n", "    ")
    read = script(
        f"session_id: talk\nphases:\n- phase_id: p\n  topics:\n  - topic_id: t\n    actions:\n{actions}  -\n-\n"
    )
    (phase,) = read.phases
    ((action,),) = [topic.actions for topic in phase.topics]
    assert [each.get for each in action.outputs] == ["who"]


def test_keys_beside_an_empty_configuration_are_its_keys(session_action: FirstAction) -> None:
    read = session_action("- action_type: ai_say\n  action_id: a\n  config:\n  content: Hello\n")
    assert read.task.source == "Hello"


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_truth_may_be_compared_in_an_older_condition(read: ReadScript, value) -> None:
    asks = "{type: ai_ask, id: a, content: Well?, output: [{get: b, type: boolean}]}"
    says = f"{{type: ai_say, id: c, content: Yes., condition: '{{b}} == {value}'}}"
    reading = read(f"session_id: talk\nphases: [{{phase_id: p, topics: [{{topic_id: t, actions: [{asks}, {says}]}}]}}]")
    assert [each.code for each in reading.problems] == []


@pytest.mark.parametrize("key", ["session", "sessions"])
def test_a_second_session_of_a_file_is_an_error(read: ReadScript, key) -> None:
    reading = read(f"{key}:\n- {{session_id: talk, {PHASES}}}\n- {{session_id: other, {PHASES}}}\n")
    (problem,) = reading.errors
    assert (problem.line, problem.message) == (3, "a script has only one session; this one would not run")


ANCHORS = """
{key}:
  quiet: &quiet {{require_acknowledgment: false}}
  hello: &hello {{action_type: ai_say, action_id: a, config: {{content: Hello}}}}
session:
  session_id: talk
  phases:
    - phase_id: p
      topics:
        - topic_id: t
          actions:
            - *hello
            - {{action_type: ai_say, action_id: b, config: {{<<: *quiet, content: Bye}}}}
"""


@pytest.mark.parametrize("key", ["defaults", "common_parts", "x-parts", "_templates"])
def test_a_file_may_begin_with_parts_to_be_repeated(read: ReadScript, key) -> None:
    reading = read(ANCHORS.format(key=key))
    hello, bye = reading.script.phases[0].topics[0].actions
    assert (hello.task.source, hello.acknowledge is None) == ("Hello", False)
    assert (bye.task.source, bye.acknowledge is None) == ("Bye", True)
    assert [(each.code, each.severity) for each in reading.problems] == [("UNKNOWN_KEY", "warning")]
    assert read(ANCHORS.format(key="actions")).script is None


def test_a_full_width_colon_in_a_configuration_is_named(read: ReadScript) -> None:
    text = "session: {session_id: s, phases: [{phase_id: p, topics: [{topic_id: t, actions: [{id: a, config: X}]}]}]}"
    (problem,) = [each for each in read(text.replace("X", "'content：b'")).problems if each.code == "TYPE_MISMATCH"]
    assert "full-width" in problem.fix


def test_choices_of_several_outputs_are_an_error() -> None:
    config = "{question: b, options: [c, d], output: [e, f]}"
    reading = read_script(Source(ONE.format(f"{{action_type: ai_ask, action_id: a, config: {config}}}"), "s.yaml"))
    assert [each.code for each in reading.errors] == ["KEY_IGNORED"]
    assert "inside the output" in reading.errors[0].fix


def test_a_session_may_describe_itself_and_declare_variables(script: ReadValid) -> None:
    own = "session_id: talk, version: 2, author: Bo, session_goal: trust, variables: [{name: nick, default: friend}]"
    read = script(f"session: {{{own}, phases: []}}")
    assert (read.version, read.author, read.description) == ("2", "Bo", "trust")
    assert [(each.var, each.value) for each in read.declare] == [("nick", "friend")]


def test_keys_in_another_casing_are_read_with_a_warning(read) -> None:
    text = """
        session:
          sessionId: talk
          phases:
            - phaseId: main
              topics:
                - topicId: first
                  actions:
                    - {actionType: ai_ask, actionId: a, maxRounds: 2, config: {content: Who?, Output: [{Get: who}]}}
    """
    reading = read(text)
    action = reading.script.phases[0].topics[0].actions[0]
    assert (action.id, action.max_rounds, action.outputs[0].get) == ("a", 2, "who")
    assert {(each.code, each.severity) for each in reading.problems} == {("DEPRECATED_KEY", "warning")}
    assert [each.fix for each in reading.problems][:2] == ["Write `session_id`.", "Write `phase_id`."]
    assert read(text, "strict").script is None


def test_a_required_key_that_is_misspelt_is_one_problem(read) -> None:
    (misspelt,) = read("session: {session_idd: talk, phases: [{phase_id: a, topics: []}]}").errors
    assert (misspelt.code, misspelt.fix) == ("UNKNOWN_KEY", "Did you mean `session_id`?")


def test_required_key_is_missing_if_an_unknown_one_only_warns(read) -> None:
    reading = read("session: {sess*a_id: talk, phases: [{phase_id: a, topics: []}]}")
    assert [(each.code, each.severity) for each in reading.problems] == [
        ("REQUIRED_FIELD_MISSING", "error"),
        ("UNKNOWN_KEY", "warning"),
    ]


@pytest.mark.parametrize("priority", ["high", "1"])
def test_a_priority_that_orders_nothing_is_only_a_warning(read, priority) -> None:
    topic = f"{{topic_id: t, priority: {priority}, actions: []}}"
    reading = read(f"session: {{session_id: talk, phases: [{{phase_id: a, topics: [{topic}]}}]}}")
    assert ("UNKNOWN_KEY", "warning") in [(each.code, each.severity) for each in reading.problems]
    assert reading.script is not None


def test_a_problem_of_an_action_is_reported_at_the_action(read) -> None:
    text = """
        session:
          session_id: talk
          phases:
            - phase_id: main
              topics:
                - topic_id: first
                  actions:
                    - {action_type: show_pic, action_id: a, config: {caption: Nothing}}
                    - action_type: use_skill
                      action_id: b
                      config:
                        skill: unknown
                    - {action_type: ai_say, action_id: c, config: {content: [one, two]}}
    """
    assert [(each.code, each.line) for each in read(text).problems] == [
        ("REQUIRED_FIELD_MISSING", 9),
        ("SKILL_UNKNOWN", 13),
        ("TYPE_MISMATCH", 14),
    ]


ASKS = "[{action_type: ai_ask, action_id: q, config: {content: '{thought}', output: [{get: word}]}}]"


@pytest.mark.parametrize(
    "text",
    [
        f"technique: {{technique_id: calm, inputs: [thought], outputs: word, topic: {{topic_id: t, actions: {ASKS}}}}}",
        f"technique_id: calm\nparameters: {{thought: what}}\nreturns: [word]\nactions: {ASKS}",
        "metadata: {name: Calm}\ntechnique_id: calm\ninput_parameters: [{var: thought}]\n"
        f"output_variables: {{word: which}}\ntopics: [{{topic_id: t, actions: {ASKS}}}]",
        "technique_id: calm\ninput_parameters: [{thought: {required: true}}]\n"
        f"output_variables: [{{variable: word}}]\ntopic: [{{topic_id: t, actions: {ASKS}}}]",
        f"technique: {{id: calm, parameters: [thought], outputs: [word], steps: {ASKS}}}",
        f"techniqueId: calm\ninputParameters: [{{name: thought}}]\noutputVariables: [word]\n"
        f"topic: {{topicId: t, actions: {ASKS}}}",
    ],
)
def test_technique_may_be_written_in_the_words_of_other_versions(script: ReadValid, text) -> None:
    (skill,) = script(text).skills
    assert (skill.id, [each.var for each in skill.params], skill.returns) == ("calm", ["thought"], ("word",))
    assert [each.task.source for each in skill.actions] == ["{{ thought }}"]


def test_a_technique_may_return_its_parameter(script: ReadValid) -> None:
    read = script(f"technique_id: calm\ninput_parameters: [thought, word]\noutput_variables: [word]\nactions: {ASKS}")
    assert [each.var for each in read.declare] == ["thought", "word"]


def test_technique_needs_an_id_and_may_only_name_its_parameters(read) -> None:
    topic = "topic: {topic_id: t, actions: [{action_type: ai_say, action_id: a, config: {content: '{thought}'}}]}"
    reading = read(f"technique_id: reframe\ninput_parameters: [thought]\n{topic}\n")
    assert [(each.var, each.required) for each in reading.script.skills[0].params] == [("thought", True)]
    (problem,) = read(f"name: Reframe\n{topic}\n").problems
    assert (problem.code, problem.fix) == ("REQUIRED_FIELD_MISSING", "Add `technique_id:`.")


def test_actions_outside_a_topic_are_an_error_with_a_fix(read) -> None:
    reading = read("session: {session_id: talk, phases: [{phase_id: main, actions: []}]}")
    fixes = [each.fix for each in reading.problems if each.code == "UNKNOWN_KEY"]
    assert fixes == ["Write actions in a topic: topics: [{topic_id: b, actions: […]}]."]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("{mood} == 好或很好", "好 或 很好"),
        ("{mood}不是好也不是很好", "好 且 很好"),
        ("{mood}是好也是很好", "好 且 很好"),
    ],
)
def test_text_in_a_condition_with_two_meanings_is_reported(read: ReadScript, condition, words) -> None:
    reading = read(SCRIPT.replace("{mood} == 'ok'", condition))
    (fix,) = (each.fix for each in reading.problems if each.code == "VALUE_AMBIGUOUS")
    assert fix == f"Write `{words}` if two are meant, or put quotes around the text."


@pytest.mark.parametrize("written", ["[0, 120]", "0-120", "0 到 120", "0～120", "0..120"])
def test_a_range_may_be_a_list_or_a_text(read: ReadScript, written: str) -> None:
    ask = (
        f"{{action_type: ai_ask, action_id: a, content: 几岁？, output: [{{get: 年龄, type: 数值, range: {written}}}]}}"
    )
    reading = read(
        f"session: {{session_id: s, phases: [{{phase_id: p, topics: [{{topic_id: t, actions: [{ask}]}}]}}]}}"
    )
    assert reading.problems == ()
    (action,) = reading.script.phases[0].topics[0].actions if reading.script else ()
    assert isinstance(action, AiAsk)
    (output,) = action.outputs
    assert isinstance(output, Output)
    assert (output.type, output.limits) == ("number", (0, 120))


def test_a_parameter_may_be_required_in_chinese(read: ReadScript) -> None:
    text = "technique_id: calm\ninput_parameters: [{name: a, required: 必填}, {name: b, required: 选填}]\n"
    reading = read(f"{text}topic: {{topic_id: t, actions: [{{action_type: ai_say, action_id: a, content: '{{a}}'}}]}}")
    assert reading.script is not None
    assert [each.required for each in reading.script.skills[0].params] == [True, False]


def test_warning_of_an_obsolete_key_names_the_key_of_the_script(read: ReadScript) -> None:
    asked = "{action_type: ai_ask, action_id: a, config: {question: Who?, save_to: who}}"
    reading = read(
        f"session: {{session_id: s, phases: [{{phase_id: p, topics: [{{topic_id: t, actions: [{asked}]}}]}}]}}"
    )
    assert [each.message for each in reading.problems] == ["`save_to` is obsolete"]


def test_a_placeholder_may_name_a_member_of_a_variable(read: ReadScript) -> None:
    text = SCRIPT.replace("{var: city}", "{var: city, value: {name: Rome, sights: []}}")
    text = text.replace("Hello ${name}, {{mood}}.", "{city.name}, {city.sights.length}, {session.city}, {other.name}")
    reading = read(text)
    assert reading.script is not None
    (action,) = reading.script.phases[0].topics[0].actions
    assert isinstance(action, AiSay)
    sources = '{{ city.name }}, {{ city.sights|length }}, {{ city }}, {{ vars["other.name"] }}'
    assert action.task.source == sources
    assert [each.message for each in reading.problems if each.code == "VARIABLE_NEVER_SET"] == [
        "nothing sets `other.name`"
    ]


def test_text_for_invalid_answers_has_the_formats_placeholders(read: ReadScript) -> None:
    rule = "{unless: age > 0, say: '{{name}}，大于零。'}"
    output = f"{{get: age, type: number, invalid: '{{name}}，请说数字。', validate: [{rule}]}}"
    ask = f"{{action_type: ai_ask, action_id: a, content: 几岁？, output: [{output}]}}"
    topic = f"{{topic_id: t, declare: [{{var: name, value: 小王}}], actions: [{ask}]}}"
    reading = read(f"session: {{session_id: s, phases: [{{phase_id: p, topics: [{topic}]}}]}}")
    (action,) = reading.script.phases[0].topics[0].actions if reading.script else ()
    assert isinstance(action, AiAsk)
    (asked,) = action.outputs
    assert isinstance(asked, Output)
    assert asked.invalid is not None
    assert asked.validate[0].say is not None
    assert (asked.invalid.source, asked.validate[0].say.source) == ("{{ name }}，请说数字。", "{{ name }}，大于零。")


ASKING = """
    session:
      session_id: s
      declare: [{var: points, type: number, value: 0}]
      phases:
        - phase_id: p
          topics: [{topic_id: t, actions: [{action_type: ai_ask, action_id: a, config: {content: Well?, KEYS}}]}]
"""


def items_of(reading: Reading) -> tuple[OutputItem, ...]:
    (action,) = reading.script.phases[0].topics[0].actions if reading.script else ()
    assert isinstance(action, AiAsk)
    return action.outputs


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ("'{points} + 1'", "points + 1"),
        ("points + 1", "points + 1"),
        ("'{points || 0} + 1'", "(points or 0) + 1"),
        ("'{{points ?? 5}}'", "(points or 5)"),
        ("'{tea} first'", 'tea ~ " first"'),
        ("[1, '{tea}']", "[1, tea]"),
        ("3", "3"),
    ],
)
def test_an_output_may_be_computed(read: ReadScript, value: str, source: str) -> None:
    keys = f"output: [{{get: tea}}, {{set: points, value: {value}, condition: \"{{tea}} == 'green'\"}}]"
    taken, computed = items_of(read(ASKING.replace("KEYS", keys)))
    assert isinstance(taken, Output)
    assert isinstance(computed, Assignment)
    assert computed.when is not None
    assert (taken.get, computed.set, computed.value.source, computed.when.source) == (
        "tea",
        "points",
        source,
        'tea == "green"',
    )


def test_a_computed_output_that_is_wrong_is_reported(read: ReadScript) -> None:
    missing = read(ASKING.replace("KEYS", "output: [{set: points}]"))
    assert [each.message for each in missing.errors] == ["`value` is missing"]
    spoken = read(ASKING.replace("KEYS", "output: [{set: points, value: 1}]").replace("ai_ask", "ai_say"))
    assert [each.code for each in spoken.errors] == ["KEY_IGNORED"]


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("{name: what to call them, age: {type: number}}", ["name", "age"]),
        ("{name: age, define: in years}", ["age"]),
        ("{name: age, note: in years}", ["age"]),
        ("{name: age}", ["age"]),
    ],
)
def test_name_may_be_a_variable_or_the_key_of_one(read: ReadScript, output: str, names: list[str]) -> None:
    found = items_of(read(ASKING.replace("KEYS", f"output: {output}"), "compat"))
    assert [each.variable for each in found] == names


def test_letters_of_choices_that_nobody_can_choose_are_reported(read: ReadScript) -> None:
    for choices in ("{A: Lyon, B: Paris}", "[{A: Lyon}, {B: Paris}]", "[{key: A, text: Lyon}, {key: B, text: Paris}]"):
        reading = read(ASKING.replace("KEYS", f"output: [{{get: city, choices: {choices}}}]"))
        (output,) = items_of(reading)
        assert isinstance(output, Output)
        assert output.choices == ("Lyon", "Paris")
        (problem,) = reading.problems
        assert (problem.code, problem.severity) == ("KEY_IGNORED", "note")
        assert problem.fix == "Write `[A. Lyon, B. Paris]`; the value is then the whole text."


def test_a_misspelt_key_beside_config_has_a_fix(read: ReadScript) -> None:
    text = SCRIPT.replace("condition: \"{mood} == 'ok'\"", "conditions: \"{mood} == 'ok'\"")
    (problem,) = read(text).errors
    assert (problem.code, problem.fix) == ("UNKNOWN_KEY", "Did you mean `condition`?")


def test_variables_and_actions_have_other_names(read: ReadScript) -> None:
    text = ASKING.replace("declare: [{var: points, type: number, value: 0}]", "global_variables: {city: Rome}")
    reading = read(text.replace("actions: [", "steps: [").replace("KEYS", "output: [tea]"))
    assert reading.script is not None
    assert [(each.var, each.define) for each in reading.script.declare] == [("city", "Rome")]
    assert len(reading.script.phases[0].topics[0].actions) == 1
    (problem,) = reading.problems
    assert (problem.code, problem.severity) == ("VALUE_AMBIGUOUS", "note")
    assert problem.fix == "Write `city: {value: 'Rome'}` if it is the value."


def test_meaning_of_a_set_variable_is_not_reported(read: ReadScript) -> None:
    text = ASKING.replace("declare: [{var: points, type: number, value: 0}]", "declare: {name: who, tea: which}")
    assert read(text.replace("KEYS", "output: {name: who, tea: which}")).problems == ()


def test_metadata_is_stored_or_reported(read: ReadScript) -> None:
    head = "metadata: {name: Tea, version: 1.10, author: Ann, tags: [a, b], language: zh-CN, audience: all, notes: ~}\n"
    text = dedent(ASKING).replace("KEYS", "output: [tea]")
    reading = read(head + text)
    assert reading.script is not None
    script = reading.script
    assert (script.title, script.version, script.author, script.tags) == ("Tea", "1.10", "Ann", ("a", "b"))
    assert script.locale == "zh"
    assert [(each.code, each.severity, each.message) for each in reading.problems] == [
        ("KEY_IGNORED", "note", "`audience` has no effect here")
    ]
    own = read(
        head + text.replace("session_id: s", "session_id: s, session_name: Other, locale: en".replace(", ", "\n  "))
    )
    assert [each.message for each in own.problems] == [
        "`name` has no effect here",
        "`language` has no effect here",
        "`audience` has no effect here",
    ]


@pytest.mark.parametrize(
    ("kind", "keys", "fix"),
    [
        ("ai_say", "say_goal: ease", "Write it in `content`, which tells a model what to say."),
        ("ai_think", "input_variables: [x]", "A model gets the variables that the text names: write `{x}` in it."),
        ("ai_ask", "required: true", "Remove it, or move it to where it has an effect."),
    ],
)
def test_a_key_without_effect_on_its_action_is_reported(read: ReadScript, kind: str, keys: str, fix: str) -> None:
    reading = read(ASKING.replace("KEYS", keys).replace("ai_ask", kind))
    problem = next(each for each in reading.problems if each.code == "KEY_IGNORED")
    assert (problem.severity, problem.fix) == ("note", fix)


def test_a_type_without_a_value_is_ignored(read: ReadScript) -> None:
    (output,) = items_of(read(ASKING.replace("KEYS", "output: [{get: tea, type: , define: }]")))
    assert isinstance(output, Output)
    assert output.type is None


def test_a_condition_may_be_negated_and_quoted(read: ReadScript) -> None:
    text = SCRIPT.replace("condition: \"{mood} == 'ok'\"", "condition: {not: {var: mood, op: ≥, value: 3}}")
    (action,) = read(text).script.phases[0].topics[0].actions
    assert action.when is not None
    assert action.when.source == "not (mood >= 3)"
    text = SCRIPT.replace("{mood} == 'ok'", "{mood} == 'true' && {mood} != 'False'")
    (action,) = read(text).script.phases[0].topics[0].actions
    assert action.when is not None
    assert action.when.source == 'mood in [true, "true"] and mood not in [false, "False"]'


def test_acknowledgement_of_a_question_is_a_warning(read: ReadScript) -> None:
    (problem,) = read(ASKING.replace("KEYS", "require_acknowledgment: true, output: [tea]")).problems
    assert (problem.code, problem.severity) == ("KEY_IGNORED", "warning")
    assert problem.fix == "Remove it: a question waits for its answer."


def test_a_form_has_the_keys_of_the_action_that_shows_it(read: ReadScript) -> None:
    form = "{form_id: diary, form_name: Today, form_fields: [{field_name: mood, type: slider}]}"
    text = ASKING.replace("action_type: ai_ask, action_id: a, config: {content: Well?, KEYS}", "SHOW")
    text = text.replace("SHOW", "action_type: show_form, action_id: a, config: {form_id: diary}")
    reading = read(text.replace("declare:", f"forms: [{form}]\n      declare:"))
    assert reading.script is not None, reading.errors
    (sheet,) = reading.script.forms
    assert sheet.title is not None
    assert (sheet.id, sheet.title.source, sheet.fields[0].name) == ("diary", "Today", "mood")


def test_a_key_beside_the_similar_one_is_no_misspelling_of_it(read: ReadScript) -> None:
    reading = read(SCRIPT.replace("phase_goal: trust", "phase_goal: trust\n          phase_order: 1"))
    (problem,) = (each for each in reading.problems if each.code == "UNKNOWN_KEY")
    assert problem.fix.startswith("Use one of `declare`, `entry_condition`")


@pytest.mark.parametrize("key", ["local_variables", "topic_variables"])
def test_variables_of_a_topic_have_other_names(script: ReadValid, key: str) -> None:
    (declared,) = script(SCRIPT.replace("declare: [{var: mood", f"{key}: [{{var: mood")).phases[0].topics[0].declare
    assert (declared.var, declared.value) == ("mood", "ok")


def test_a_form_of_a_scale_may_have_a_formula(read: ReadScript) -> None:
    fields = "{field: a, type: scale, min: 0, max: 3}, {field: total, formula: '{a} + 1'}"
    text = ASKING.replace("action_type: ai_ask, action_id: a, config: {content: Well?, KEYS}", "SHOW")
    reading = read(text.replace("SHOW", f"action_type: show_form, action_id: a, config: {{fields: [{fields}]}}"))
    assert reading.script is not None, reading.errors
    scale, total = reading.script.forms[0].fields
    assert (scale.type, scale.max, total.computed.source) == ("number", 3, "a + 1")


def test_global_variables_beside_a_session_need_no_use(tmp_path) -> None:
    (tmp_path / "talk.yaml").write_text(dedent(SCRIPT).replace("declare: [{var: city}]", "description: Hello"))
    (tmp_path / "global.yml").write_text("global: [{var: name, value: Mia}]")
    reading = read_path(tmp_path / "talk.yaml")
    assert reading.script is not None
    assert [(each.var, each.value) for each in reading.script.globals] == [("name", "Mia")]
    assert "use: [global.yml]" in convert(reading.script, reading).text
    (tmp_path / "global.yml").write_text("global: [{var: street, value: Main}]")
    assert read_path(tmp_path / "talk.yaml").source.side_files == {}


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("phases: [{phase_id: a, topics: []}]", "Add `session_id:`."),
        ("Session: {session_id: talk, phases: []}", "Write `session` instead of `Session`."),
    ],
)
def test_a_file_without_its_session_names_what_is_missing(read: ReadScript, text: str, fix: str) -> None:
    (problem,) = read(text).errors
    assert problem.fix == fix


@pytest.mark.parametrize("key", ["exit", "exit_condition", "exit_criteria"])
def test_the_words_of_an_exit_may_have_other_keys(session_action: FirstAction, key: str) -> None:
    read = session_action(f"- {{action_type: ai_ask, action_id: a, config: {{content: Who?, {key}: they said it}}}}")
    assert [each.said.source for each in read.exits] == ["they said it"]

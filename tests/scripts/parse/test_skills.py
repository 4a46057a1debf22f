"""Skills from include files and from the technique form."""

import pytest

from scripts.model.actions import AiSay, Call, outputs_of, walk
from scripts.parse.read_script import Source, read_script

CALLER = """
script: caller
use: [{file}]
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {{call: reframe, id: c, input: {{belief: "'I fail'"}}, output: {{better: reframed}}}}
    - {{say: "{{{{ better }}}}", id: s}}
"""
NATIVE = """
skills:
- skill: reframe
  params: [{var: belief, define: what the visitor believes}]
  returns: [reframed]
  actions:
  - {ask: "Is {{ belief }} always true?", id: ask, output: [{get: reframed}]}
"""
TECHNIQUE = """
name: Reframing
technique_id: reframe
technique_name: Reframing a belief
input_parameters:
- {name: belief, description: what the visitor believes}
- {name: mood, required: false}
output_variables: [reframed]
topic:
  topic_id: steps
  topic_goal: another view
  actions:
  - action_type: ai_say
    action_id: name_it
    config: {content: "You said: ${belief}", max_rounds: 1}
  - action_type: ai_ask
    action_id: ask
    config: {content: "Is {belief} always true?", output: [{get: reframed}]}
"""


def problems(text: str, **side_files: str) -> list[str]:
    files = {name.replace("_", "."): content for name, content in side_files.items()}
    return [str(problem) for problem in read_script(Source(text, "caller.yaml", files), "strict").problems]


def test_a_side_file_brings_skills_in_either_form() -> None:
    for form in (NATIVE, TECHNIQUE):
        assert problems(CALLER.format(file="skills.yaml"), skills_yaml=form) == []


def test_an_include_file_of_neither_kind_is_reported() -> None:
    (problem,) = problems(CALLER.format(file="skills.yaml"), skills_yaml="roles: []")[:1]
    assert "SKILL_UNKNOWN" in problem or "UNRECOGNISED_SCRIPT" in problem


def test_what_is_wrong_in_a_side_file_is_reported_there() -> None:
    wrong = NATIVE.replace("{{ belief }}", "{{ belive }}")
    assert problems(CALLER.format(file="skills.yaml"), skills_yaml=wrong) == [
        "skills.yaml:7:11 VARIABLE_NEVER_SET nothing sets `belive`"
    ]


def test_call_without_parameters_says_where_to_add_them() -> None:
    skill = "skills:\n- {skill: reframe, actions: [{say: a, id: say}]}"
    found = read_script(Source(CALLER.format(file="s.yaml"), "", {"s.yaml": skill})).problems
    fixes = {problem.code: problem.fix for problem in found}
    assert "`params` of the skill" in fixes["PARAMETER_UNKNOWN"]
    assert "`returns` of the skill" in fixes["RETURN_UNKNOWN"]


def test_technique_alone_begins_with_its_parameters_defaults() -> None:
    script = read_script(Source(TECHNIQUE.replace("required: false", "default: calm")), "strict").script
    assert [(each.var, each.value) for each in script.declare[:2]] == [("belief", None), ("mood", "calm")]


def test_actions_of_skills_get_ids_too() -> None:
    script = read_script(Source(CALLER.format(file="s.yaml"), "", {"s.yaml": NATIVE.replace(", id: ask", "")})).script
    assert [action.id for action in script.skills[0].actions] == ["ask_1"]


def test_a_technique_by_itself_is_a_script_that_calls_it() -> None:
    script = read_script(Source(TECHNIQUE), "strict").script
    (call,) = (action for phase in script.phases for topic in phase.topics for action in walk(topic.actions))
    assert isinstance(call, Call)
    assert (script.id, script.form, call.skill) == ("reframe", "technique", "reframe")
    assert [(each.var, each.required) for each in script.skills[0].params] == [("belief", True), ("mood", False)]
    first = script.skills[0].actions[0]
    assert isinstance(first, AiSay)
    assert first.task.source == "You said: {{ belief }}"


def test_the_session_form_calls_skills_with_its_own_placeholders() -> None:
    text = """
session:
  session_id: s
  use: [t.yaml]
  phases:
  - phase_id: p
    topics:
    - topic_id: t
      actions:
      - {action_type: ai_ask, action_id: a, config: {content: What?, output: [{get: said}]}}
      - action_type: use_skill
        action_id: c
        config: {skill: reframe, input: {belief: "${said}", mood: "so {said}!"}, returns: {better: reframed}}
"""
    reading = read_script(Source(text, "", {"t.yaml": TECHNIQUE}), "strict")
    assert reading.script is not None, reading.errors
    call = reading.script.phases[0].topics[0].actions[1]
    assert isinstance(call, Call)
    assert {name: each.source for name, each in call.input.items()} == {"belief": "said", "mood": '"so " ~ said ~ "!"'}
    assert call.output == {"better": "reframed"}


@pytest.mark.parametrize(
    ("written", "params", "returns"),
    [
        ("input_parameters: belief, mood\noutput_variables: reframed", ["belief", "mood"], ("reframed",)),
        (
            "input_parameters: {name: belief, description: what}\noutput_variables: {name: reframed, description: how}",
            ["belief"],
            ("reframed",),
        ),
        (
            "input_parameters: {name: who, belief: what}\noutput_variables: {reframed: how}",
            ["name", "belief"],
            ("reframed",),
        ),
    ],
)
def test_parameters_and_results_may_be_one_or_several(
    written: str, params: list[str], returns: tuple[str, ...]
) -> None:
    actions = "steps: [{action_type: ai_ask, action_id: a, config: {content: '{belief}?', output: [reframed]}}]"
    reading = read_script(Source(f"technique_id: reframe\ntechnique_type: [a, b]\n{written}\n{actions}"), "strict")
    assert reading.script is not None, reading.errors
    (skill,) = reading.script.skills
    assert ([each.var for each in skill.params], skill.returns) == (params, returns)
    assert (reading.script.tags, len(skill.actions)) == (("a", "b"), 1)


def test_keys_without_effect_are_reported_and_names_stored() -> None:
    text = TECHNIQUE.replace("[reframed]\ntopic", "[{name: reframed, description: how}]\ntopic")
    text = text.replace("topic_id: steps", "topic_id: steps\n  topic_name: Steps") + "metadata: {audience: all}\n"
    reading = read_script(Source(text, "t.yaml"), "strict")
    assert reading.script is not None, reading.errors
    assert (reading.script.title, reading.script.phases[0].topics[0].title) == ("Reframing", "Steps")
    reported = [(each.code, each.severity, each.message) for each in reading.problems]
    assert reported == [("KEY_IGNORED", "note", "`audience` has no effect here")]
    assert [each.define for action in reading.script.skills[0].actions for each in outputs_of(action)] == ["how"]

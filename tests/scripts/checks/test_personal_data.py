"""Which variables are personal, however a script says so, and which actions ask for them."""

from textwrap import dedent

import pytest

from scripts.checks.personal_data import asking, choices, personal_names
from scripts.parse.read_script import Source, read_script

NATIVE = """
script: s
use: [globals.yaml]
declare: [{var: in_script, pii: true}, {var: plain}]
skills:
  - skill: breathe
    params: [{var: in_params, pii: true, required: false}]
    declare: [{var: in_skill, pii: true}]
    actions: [{say: Breathe., id: a}]
phases:
  - phase: p
    declare: [{var: in_phase, pii: true}]
    topics:
      - topic: t
        declare: [{var: in_topic, pii: true}]
        actions: [{say: Hello., id: a}]
"""
GLOBALS = "globals: [{var: everywhere, pii: true}, {var: counted}]"
SESSION = """
session:
  session_id: s
  session_name: S
  declare: [{var: in_script, pii: true}]
  phases:
    - phase_id: p
      phase_name: P
      declare: [{var: in_phase, pii: true}]
      topics:
        - topic_id: t
          topic_name: T
          declare: [{var: in_topic, pii: true}, {var: plain}]
          actions:
            - {action_type: ai_say, action_id: a, config: {content: Hello.}}
"""
TECHNIQUE = """
technique_id: s
input_parameters: [{name: in_params, pii: true}, {name: plain}]
topic:
  topic_id: t
  topic_name: T
  declare: [{var: in_topic, pii: true}]
  actions:
    - {action_type: ai_say, action_id: a, config: {content: "Hello {in_params} {plain}."}}
"""
STAGE = """
sessions:
  - session: s
    declare: [{var: in_script, pii: true}]
    stages:
      - stage: one
        declare: [{var: in_phase, pii: true}]
        steps:
          - goal: first
            declare: [{var: in_topic, pii: true}, plain]
            actions:
              - say: Hello.
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (NATIVE, {"in_script", "in_params", "in_skill", "in_phase", "in_topic", "everywhere"}),
        (SESSION, {"in_script", "in_phase", "in_topic"}),
        (TECHNIQUE, {"in_params", "in_topic"}),
        (STAGE, {"in_script", "in_phase", "in_topic"}),
    ],
)
def test_pii_can_be_written_wherever_variables_are_declared(text: str, names: set[str]) -> None:
    reading = read_script(Source(text, "s.yaml", {"globals.yaml": GLOBALS}), "compat")
    assert reading.script is not None, reading.errors
    assert [problem for problem in reading.problems if "pii" in problem.message] == []
    assert personal_names(reading.script) == names


def test_pii_without_a_declaration_is_reported_with_its_place() -> None:
    text = NATIVE.replace("{say: Hello., id: a}", "{ask: Who?, id: a, output: [{get: name, pii: true}]}")
    reading = read_script(Source(text, "s.yaml", {"globals.yaml": GLOBALS}), "strict")
    (problem,) = reading.errors
    assert (problem.code, problem.line) == ("UNKNOWN_KEY", 16)
    assert "declare: [{var: NAME, pii: true}]" in problem.fix


ASKING = """
script: s
declare:
  - {var: name, pii: true}
  - {var: blood, choices: [A, B], pii: true}
  - {var: people, type: list, pii: true}
  - {var: weight, type: number, pii: true}
  - {var: pet, type: choice, choices: [cat, dog]}
forms:
  - form: sheet
    fields: [{field: size}, {field: weight, type: choice, choices: [light, heavy]}]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ask: "What pet, and who are you?", id: both, output: [{get: pet}, {get: name}]}
          - choose: blood
            id: pick
            question: Which?
            choices: [{A: the first}, {B: the second}]
          - if: pet == "cat"
            id: if_cat
            then:
              - {ask: Who lives with you?, id: inside, output: [{tolist: people, fields: [{get: who}]}]}
          - {form: sheet, id: show}
          - {ask: And your pet?, id: ask_pet, output: [{get: pet}]}
          - {set: {name: "'x'"}, id: assign}
"""


def test_action_asks_for_its_outputs_and_its_choices_are_known() -> None:
    reading = read_script(Source(dedent(ASKING), "s.yaml"), "strict")
    assert reading.script is not None, reading.errors
    names = personal_names(reading.script)
    assert asking(reading.script, names) == {"both": "name", "pick": "blood", "inside": "people", "show": "weight"}
    assert set(choices(reading.script, names)) == {
        ("blood", "A"),
        ("blood", "B"),
        ("blood", "the first"),
        ("blood", "the second"),
        ("weight", "light"),
        ("weight", "heavy"),
    }

"""The stage form: every spelling its authors use, and what each means in the native form."""

from collections.abc import Callable
from textwrap import dedent, indent

import pytest

from scripts.model.actions import Foreach, Say
from scripts.model.diagnostics import Problems
from scripts.model.script import Interrupt, Script
from scripts.parse.conversion import convert
from scripts.parse.folder import read_path
from scripts.parse.read_script import Mode, Reading
from scripts.yaml.parser import plain_value, read_tree
from tests.support.paths import STAGE_SCRIPTS
from tests.support.script_readers import ReadScript, ReadValid

HEAD = """\
sessions:
- session: talk
  declare: [age, city, {var: people, value: []}]
  stages:
  - stage: main
    steps:
"""


@pytest.fixture(scope="session")
def goal(read: ReadScript) -> Callable[..., Reading]:
    """Return a script with one goal of these actions."""

    def goal(actions: str, mode: Mode = "compat", **side_files: str) -> Reading:
        body = "    - goal: first\n      actions:\n" + indent(dedent(actions).strip("\n"), "      ") + "\n"
        return read(HEAD + body, mode, **side_files)

    return goal


@pytest.fixture(scope="session")
def native(goal) -> Callable[..., object]:
    """Return what the actions of a goal are in the native form, without the ids that were derived."""

    def native(actions: str, **side_files: str) -> object:
        reading = goal(actions, **side_files)
        assert reading.script is not None, [str(problem) for problem in reading.problems]
        tree = read_tree(convert(reading.script, reading).text, Problems())
        assert tree is not None
        return without_ids(plain_value(tree)["phases"][0]["topics"][0].get("actions", []))

    return native


def without_ids(value: object) -> object:
    match value:
        case dict():
            return {key: without_ids(each) for key, each in value.items() if key != "id" or "scene" in value}
        case list():
            return [without_ids(each) for each in value]
        case _:
            return value


def codes(reading: Reading, severity: str = "warning") -> list[tuple[str, int]]:
    return [(each.code, each.line) for each in reading.problems if each.severity == severity]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("- say: Hello {city}!", {"say": "Hello {{ city }}!"}),
        ("- say: {city}", {"say": "{{ city }}"}),
        ("- say: {city}, hello # with a note", {"say": "{{ city }}, hello"}),
        ("- say: |# a note\n    two\n    lines", {"say": "two\nlines\n"}),
        ("- say: >- # a note\n    one\n    line", {"say": "one line"}),
        ("- say: 12", {"say": "12"}),
        ("- say: true", {"say": "true"}),
        ("- say: [a, b]", {"say": ["a", "b"]}),
        ("- just this", {"say": "just this"}),
        ("- say: note: well", {"say": "note: well"}),
        ("- say：hello", {"say": "hello"}),
        ("-say: hello", {"say": "hello"}),
        ("- ai_say: greet\n  max_rounds: 3", {"ai_say": "greet"}),
        ("- user_say: Yes", {"user_say": "Yes"}),
        ("- think: about {age}", {"ai_think": "about {{ age }}"}),
        ("- ai_ask: why\n  exit: a reason\n  tone: warm\n  max_rounds: '4'", {
            "ai_ask": "why", "tone": "warm", "exit": "a reason", "rounds": 4}),
        ("- ai_ask: why\n  exit: {variable: age, operator: '>', value: 3}", {
            "ai_ask": "why", "exit": {"when": "age > 3"}}),
        ("- say: a\n  when: {variable: age, operator: gte, value: 3}", {"say": "a", "when": "age >= 3"}),
        ("- ai_ask: why\n  exit: \"{age} != ''\"", {"ai_ask": "why", "exit": {"when": '(age|default("") ~ "") != ""'}}),
        ("- ai_ask: why\n  output: city", {"ai_ask": "why", "into": "city"}),
        ("- ai_ask: why\n  output: {get: age, type: int}", {
                "ai_ask": "why", "into": {"var": "age", "type": "number"}}),
        ("- ai_ask: why\n  output: [age, {city: where}]", {
            "ai_ask": "why", "into": ["age", {"var": "city", "define": "where"}]}),
        ("- ai_ask: why\n  output: {name: who, age: {type: int}}", {
            "ai_ask": "why", "into": [{"var": "name", "define": "who"}, {"var": "age", "type": "number"}]}),
        ("- ai_ask: why\n  output: {name: age, type: time}", {
            "ai_ask": "why", "into": {"var": "age", "type": "time"}}),
        ("- ai_ask: why\n  output:\n  - set: city\n    value: 'in {age}'\n    if: '{age} > 3'", {
            "ai_ask": "why", "into": {"set": "city", "value": '="in " ~ age', "when": "age > 3"}}),
        ("- set: age\n  value: '{age} + 1'", {"set": {"age": "=age + 1"}}),
        ("- set: age\n  value: 3", {"set": {"age": 3}}),
        ("- set: {age: [1], city: '{age} years'}", {"set": {"age": [1], "city": '=age ~ " years"'}}),
        ("- set: city = Rome", {"set": {"city": "Rome"}}),
        ("- set: {city: '{city} and {age}'}", {"set": {"city": '=city ~ " and " ~ age'}}),
        ("- set: {city: ['{age}', 2, {a: '{city}!'}]}", {"set": {"city": '=[age, 2, {"a": city ~ "!"}]'}}),
        ("- set: {city: '{city} == Rome'}", {"set": {"city": '=city == "Rome"'}}),
        ("- ai_ask: why\n  get: city\n  define: where\n  options: a/b", {
            "ai_ask": "why", "into": {"var": "city", "define": "where", "choices": ["a", "b"]}}),
        ("- think: about\n  output: [get: 'city, age']", {"ai_think": "about", "into": ["city", "age"]}),
        ("- say: hi\n  by: host", {"say": "hi", "role": "host"}),
        ("- end", {"end": None}),
        ("- user_say", {"user_say": ""}),
        ("- set: age=3，city=Rome", {"set": {"age": 3, "city": "Rome"}}),
        ("- for: one in people\n  do: [{say: '{one}'}]", {"foreach": "people as one", "do": [{"say": "{{ one }}"}]}),
        ("- foreach: ['{city}', b]\n  as: n\n  do: [{say: '{n}'}]", {
            "foreach": '[city, "b"] as n', "do": [{"say": "{{ n }}"}]}),
        ("- user_option: yes, no", {"choose": None, "into": "choice", "choices": ["yes", "no"]}),
        ("- ai_ask: why\n  exit_criteria: {understanding_threshold: 0.8, custom_conditions: [{"
            "variable: age, operator: gte, value: 3}]}", {
            "ai_ask": "why", "exit": {"when": "age is defined and age >= 3", "understanding": 80}}),
        ("- set: {city: 2026/1/31}", {"set": {"city": "2026/1/31"}}),
        ("- show: {image: a.png, caption: Here}", {"show": {"image": "a.png", "caption": "Here"}}),
        ("- say: a\n  when: {age}", {"say": "a", "when": "age"}),
        ("- say: a\n  if: '{age} ＞＝ 20 且 {city} 等于 “罗马”'", {"say": "a", "when": 'age >= 20 and city == "罗马"'}),
        ("- if: '{age} > 1'\n  do:\n  - say: a\n  else:\n  - say: b", {
            "if": "age > 1", "then": [{"say": "a"}], "else": [{"say": "b"}]}),
        ("- loop_until: '{age} > 3'\n  max: 5\n  do:\n  - say: a", {
            "repeat": {"until": "age > 3", "max": 5}, "do": [{"say": "a"}]}),
        ("- foreach: {people}\n  do:\n  - say: '{item}'", {"foreach": "people as item", "do": [{"say": "{{ item }}"}]}),
        ("- foreach: each in people\n  say: '{each.name}'", {
            "foreach": "people as each", "do": [{"say": "{{ each.name }}"}]}),
        ("- foreach: [1, 2]\n  as: n\n  do:\n  - say: '{n}'", {"foreach": "[1, 2] as n", "do": [{"say": "{{ n }}"}]}),
        ("- scene: garden\n  ai: host", {"scene": {"ai": "host"}, "id": "garden"}),
        ("- end: done", {"end": "done"}),
        ("- goto: first\n  condition: '{age} > 3'", {"goto": "first", "when": "age > 3"}),
        ("- type: ai_say  # greet\n  content: Hello {city}", {"ai_say": "Hello {{ city }}"}),
        ("- {type: say, content: Hello, when: '{age} > 3'}", {"say": "Hello", "when": "age > 3"}),
        ("- action: user_say\n  text: Yes", {"user_say": "Yes"}),
        ("- action_type: ai_ask\n  action_id: q\n  config:\n    content: why\n    output: [get: city]", {
            "ai_ask": "why", "into": "city"}),
        ("- type: ai_ask\n  question_template: why\n  target_variable: city\n  extraction_prompt: where", {
            "ai_ask": "why", "into": {"var": "city", "define": "where"}}),
        ("- type: ai_think\n  think_goal: about it\n  output: city", {
            "ai_think": "about it", "into": "city"}),
        ("- type: user_option\n  variable: city\n  choices: [{A: a}, {B: b}]", {
            "choose": None, "into": "city", "choices": [{"A": "a"}, {"B": "b"}]}),
        ("- {type: set, variable: age, value: 3}", {"set": {"age": 3}}),
        ("- {type: goto, target: first, when: '{age} > 3'}", {"goto": "first", "when": "age > 3"}),
        ("- {type: show, image: a.png, caption: Here}", {"show": {"image": "a.png", "caption": "Here"}}),
        ("- {type: show_pic, url: 'https://x.org/a', caption: Here}", {
            "show": {"url": "https://x.org/a", "caption": "Here"}}),
        ("- {type: end, reason: done}", {"end": "done"}),
        ("- type: if\n  condition: '{age} > 1'\n  then: [{type: say, content: a}]\n  else: [{say: b}]", {
            "if": "age > 1", "then": [{"say": "a"}], "else": [{"say": "b"}]}),
        ("- type: foreach\n  list: people\n  as: one\n  do: [{say: '{one.name}'}]", {
            "foreach": "people as one", "do": [{"say": "{{ one.name }}"}]}),
        ("- fromlist: people\n  as: one\n  do: [{say: '{one.name}'}]", {
            "foreach": "people as one", "do": [{"say": "{{ one.name }}"}]}),
        ("- ai_ask:\n  content: why\n  exit: known", {"ai_ask": "why", "exit": "known"}),
        ("- set: [age = 3, {var: city, value: Rome}]", {"set": {"age": 3, "city": "Rome"}}),
        ("- if: '{age} > 1'\n  do: [{say: a}]\n  elif: [{if: '{age} > 0', do: [{say: b}]}]\n  else: [{say: c}]", {
            "if": "age > 1", "then": [{"say": "a"}], "else": [
                {"if": "age > 0", "then": [{"say": "b"}], "else": [{"say": "c"}]}]}),
        ("- emit: done\n  value: 3", {"emit": {"event": "done", "data": {"value": 3}}}),
    ],
)  # fmt: skip
def test_an_action_means(native, written, meant) -> None:
    assert native(written) == [meant]


@pytest.mark.parametrize("choices", ["{talk: Talk, stop: Stop}", "[{talk: Talk}, {stop: Stop}]"])
def test_a_choice_may_be_named_like_an_action(native, choices) -> None:
    (found,) = native(f"- user_option: plan\n  choices: {choices}")
    assert found["choices"] == [{"talk": "Talk"}, {"stop": "Stop"}]


def test_an_action_behind_a_choice_is_not_a_choice(native) -> None:
    (found,) = native("- user_option: plan\n  choices: [{A: Stop, end: Bye}, {B: Go on}]")
    assert found["choices"] == [{"key": "A", "text": "Stop", "do": [{"end": "Bye"}]}, {"B": "Go on"}]


@pytest.mark.parametrize(
    "choices",
    [
        "[{A: one}, {B: two}]",
        "{A: one, B: two}",
        "[{key: A, text: one}, {key: B, label: two}]",
    ],
)
def test_choices_may_be_written_in_any_way(native, choices) -> None:
    assert native(f"- user_option: city\n  choices: {choices}") == [
        {"choose": None, "into": "city", "choices": [{"A": "one"}, {"B": "two"}]}
    ]


@pytest.mark.parametrize("choices", ["'1,2,3'", "1，2、3", "1 | 2 | 3", "1/2/3", "|\n    1\n    2\n    3"])
def test_choices_in_a_text_are_separated_with_a_warning(goal, native, choices) -> None:
    written = f"- user_option: city\n  choices: {choices}"
    assert native(written) == [{"choose": None, "into": "city", "choices": ["1", "2", "3"]}]
    assert ("TYPE_MISMATCH", 10) in codes(goal(written))


def test_a_number_beside_the_text_of_a_choice_is_its_value(native) -> None:
    written = "- user_option: age\n  choices: [not at all: 0, {often: 3}]\n- user_option: city\n  choices: [A: 100]"
    coded, plain = native(written)
    assert coded["choices"] == [
        {"key": "not at all", "text": "not at all", "value": 0},
        {"key": "often", "text": "often", "value": 3},
    ]
    assert plain["choices"] == [{"A": "100"}]
    output = native("- ai_ask: why\n  output: [{get: age, choices: [never: 0, often: 1]}]")[0]["into"]
    assert output == {"var": "age", "choices": ["never", "often"]}


def test_choices_of_an_output_are_what_is_written(native) -> None:
    written = "- ai_ask: why\n  output: [{get: city, choices: yes/no}, {get: age, choices: 'under 18, 18+'}]"
    assert native(written)[0]["into"] == [
        {"var": "city", "choices": ["yes", "no"]},
        {"var": "age", "choices": ["under 18", "18+"]},
    ]


def test_an_item_that_is_only_a_note_is_a_warning(goal, native) -> None:
    written = "- note: ask this slowly\n- say: hi"
    assert native(written) == [{"say": "hi"}]
    assert ("UNKNOWN_KEY", 9) in codes(goal(written))


def test_a_choice_carries_its_own_actions(native) -> None:
    written = """
    - user_option: city
      choices:
      - A: one
        do:
        - say: first
      - B: two
        goto: first
      - three
    """
    assert native(written) == [
        {
            "choose": None,
            "into": "city",
            "choices": [
                {"key": "A", "text": "one", "do": [{"say": "first"}]},
                {"key": "B", "text": "two", "do": [{"goto": "first"}]},
                "three",
            ],
        }
    ]


@pytest.mark.parametrize(
    "beside",
    [
        "tolist: people\n  output: [{get: name}, {get: job}]",
        "output: [{get: name, tolist: people}, {get: job, tolist: people}]",
        "output: [{get: name}, {get: job}, {tolist: people}]",
        "output: [{tolist: people, fields: [name, job]}]",
        "output: {tolist: people, get: [name, job]}",
    ],
)
def test_the_fields_of_a_list_become_one_record(native, beside) -> None:
    fields = ["name", "job"]
    assert native(f"- ai_ask: who\n  {beside}") == [{"ai_ask": "who", "into": {"add_to": "people", "fields": fields}}]


def test_placeholder_in_a_loop_is_a_field_of_its_record(native) -> None:
    written = """
    - ai_ask: who
      tolist: people
      output: [name, {get: city}]
    - foreach: people
      do:
      - say: "{name} of {city}, {people.name}, {people.length}, {age}"
      - call: greet
    - set: age
      value: "{name}"
    """
    skills = "skills:\n- goal: greet\n  declare: [name]\n  actions:\n  - say: '{name} {age}'\n"
    _, loop, after = native(written, skills_yaml=skills)
    assert loop["do"] == [
        {"say": "{{ item.name }} of {{ item.city }}, {{ item.name }}, {{ people|length }}, {{ age }}"},
        {"call": "greet", "with": {"name": "=item.name", "age": "=age"}},
    ]
    assert after == {"set": {"age": "=name"}}


def test_field_that_is_also_a_variable_with_a_value_stays_this(native) -> None:
    written = """
    - ai_ask: where
      output: city
    - ai_ask: who
      tolist: people
      output: [city]
    - foreach: people
      do: [{say: "{city}, {item.city}"}]
    """
    assert native(written)[2]["do"] == [{"say": "{{ city }}, {{ item.city }}"}]


def test_else_and_elif_may_be_items_of_their_own(native) -> None:
    written = """
    - if: "{age} > 60"
      do: [{say: a}]
    - elif: "{age} > 20"
      do: [{say: b}]
    - else: [{say: c}]
    """
    inner = {"if": "age > 20", "then": [{"say": "b"}], "else": [{"say": "c"}]}
    assert native(written) == [{"if": "age > 60", "then": [{"say": "a"}], "else": [inner]}]


def test_two_actions_in_one_item_follow_each_other(goal, native) -> None:
    written = "- say: first\n  user_say: second"
    assert native(written) == [{"say": "first"}, {"user_say": "second"}]
    assert ("ACTION_AMBIGUOUS", 9) in codes(goal(written))


# -- the shape ---------------------------------------------------------------------------------------------------------


def test_a_scene_between_goals_begins_the_next(script: ReadValid) -> None:
    read = script(
        HEAD
        + "    - scene: garden\n      ai: host\n    - goal: one\n      actions: [say: a]\n".replace(
            "[say: a]", "[{say: a}]"
        )
    )
    assert [type(each).__name__ for each in read.phases[0].topics[0].actions] == ["Scene", "Say"]


def test_a_scene_that_no_goal_follows_selects_the_speakers(read: ReadScript) -> None:
    text = HEAD + "    - goal: one\n      actions: [{say: a}]\n    - scene: garden\n      ai: host\n"
    reading = read(text)
    assert reading.script is not None
    assert [len(topic.actions) for topic in reading.script.phases[0].topics] == [1, 1]
    assert codes(reading) == []


def test_a_goal_is_called_by_its_name_whatever_it_holds(read: ReadScript, script: ReadValid) -> None:
    text = HEAD + (
        "    - goal: Hello, you!\n      actions: [{user_say: a}, {goto: 'One/two (three)'}]\n"
        "    - goal: One/two (three)\n      actions: [{goto: 'Hello, you!'}]\n"
    )
    found = script(text)
    assert [topic.id for topic in found.phases[0].topics] == ["Hello, you!", "One／two (three)"]
    converted = convert(found, read(text)).text
    assert "topic: Hello, you!" in converted
    assert "goto: One／two (three)" in converted


def test_two_goals_of_one_name_are_distinguished(read: ReadScript) -> None:
    reading = read(HEAD + "    - goal: a\n      actions: [{say: a}]\n" * 2)
    assert reading.script is not None
    assert [topic.id for topic in reading.script.phases[0].topics] == ["a", "a_2"]
    assert ("DUPLICATE_ID", 9) in codes(reading)


def test_a_second_session_is_an_error(read: ReadScript) -> None:
    text = "sessions:\n" + "".join(
        f"- session: {name}\n  stages: [{{stage: s, steps: [{{goal: g, actions: [{{say: a}}]}}]}}]\n" for name in "ab"
    )
    assert codes(read(text), "error") == [("TYPE_MISMATCH", 4)]


def test_a_question_may_say_whether_its_answers_are_required(script: ReadValid) -> None:
    asks = "- ai_ask: who\n        required: false\n        output: [name, {get: age, required: true}]\n"
    found = script(HEAD + f"    - goal: one\n      actions:\n      {asks}")
    (action,) = found.phases[0].topics[0].actions
    assert [(each.get, each.required) for each in action.outputs] == [("name", False), ("age", True)]


def test_items_without_content_are_ignored(script: ReadValid) -> None:
    found = script(HEAD + "    - goal: one\n      actions:\n      - say: a\n      -\n    -\n  -\n-\n")
    assert [topic.id for topic in found.phases[0].topics] == ["one"]


def test_variable_of_a_goal_read_by_another_has_session_scope(script: ReadValid) -> None:
    found = script(
        HEAD + "    - goal: one\n      declare: [mood, own]\n      actions: [{ai_ask: 'how, {own}', output: mood}]\n"
        "    - goal: two\n      actions: [{say: '{mood}'}]\n"
    )
    assert [each.var for each in found.declare] == ["age", "city", "people", "mood"]
    assert [each.var for each in found.phases[0].topics[0].declare] == ["own"]


# -- include files ----------------------------------------------------------------------------------------------------


def test_files_beside_the_script_bring_what_it_uses() -> None:
    reading = read_path(STAGE_SCRIPTS / "moving.yaml", "compat")
    script = reading.script
    assert script is not None
    assert [each.var for each in script.globals] == ["管家名", "住户称呼", "东西"]
    assert [role.attributes for role in script.roles] == [
        {"voice": "WARM", "badge": {"color": "blue", "size": 2}},
        {},
        {},
    ]
    assert [(skill.id, [each.var for each in skill.params], skill.returns) for skill in script.skills] == [
        ("问称呼和城市", ["管家"], ("称呼", "城市")),
        ("问家人的东西", ["名字", "城市"], ("东西",)),
    ]
    assert [(each.name, each.type) for each in script.forms[0].fields] == [
        ("运费", "number"),
        ("押金", "choice"),
        ("合计", "text"),
        ("折扣", "text"),
    ]
    assert [each.computed.source if each.computed else "" for each in script.forms[0].fields] == [
        "",
        "",
        "运费 + 100",
        "",
    ]
    assert [(each.on.keywords, each.when.source if each.when else "") for each in script.interrupts] == [
        (("帮帮我", "救命"), ""),
        (("太贵", "贵了"), "年龄 >= 60"),
    ]


GLOBALS = """\
global:
- {var: limit, value: 3}
- {var: home, value: {town: Rome}}
- {var: guests, value: [{nick: Al}]}
"""


@pytest.mark.parametrize("words", ["- dict:\n  moods: [glad, sad]\n", "- dict:\n    moods: [glad, sad]\n"])
def test_lists_of_words_are_global_variables(read: ReadScript, words) -> None:
    reading = read(HEAD + "    - goal: g\n      actions: [say: '{moods}']\n", **{"global.yaml": f"global:\n{words}"})
    assert [(each.var, each.value) for each in reading.script.globals] == [("moods", ["glad", "sad"])]
    assert not codes(reading)


def test_roles_are_people_or_machines(read: ReadScript) -> None:
    roles = "roles: [{role: a, type: 人类}, {role: b, type: bot}, {role: c, type: cat}]\n"
    reading = read(HEAD + "    - goal: g\n      actions: [say: a]\n", **{"roles.yaml": roles})
    assert [each.type for each in reading.script.roles] == ["HUMAN", "AI", "AI"]
    assert codes(reading) == [("ENUM_VALUE_INVALID", 1)]


def test_global_variables_of_other_files_work_without_braces_too(native) -> None:
    actions = """\
    - set: {age: limit * 2}
    - {say: "{home.town}", when: "{age} > limit"}
    - foreach: guests as guest
      do: [{say: "{nick}"}]
    """
    assert native(actions, global_yaml=GLOBALS) == [
        {"set": {"age": "=limit * 2"}},
        {"say": "{{ home.town }}", "when": "age > limit"},
        {"foreach": "guests as guest", "do": [{"say": "{{ guest.nick }}"}]},
    ]


def test_code_in_a_form_is_refused_and_the_rest_read(read: ReadScript) -> None:
    forms = "forms:\n- form: f\n  fields:\n  - {var: a}\n  - var: b\n    python: a * 2\n"
    text = HEAD + "    - goal: g\n      actions: [{fill: f}]\n"
    assert codes(read(text, forms_yaml=forms)) == [("PYTHON_REFUSED", 6)]
    assert [each.code for each in read(text, "strict", forms_yaml=forms).errors] == ["PYTHON_REFUSED"]


def test_a_native_script_uses_the_files_of_this_form(script: ReadValid) -> None:
    text = (
        "script: native\nuse: [global.yaml, roles.yaml, skills.yaml, rules.yaml]\n"
        "phases:\n- phase: p\n  topics:\n  - topic: t\n    actions:\n"
        "    - {scene: {ai: 搬家管家}, id: s}\n"
        "    - {call: 问称呼和城市, id: c, input: {管家: 管家名}, output: {name: 称呼}}\n"
        '    - {say: "{{ name }}", id: d}\n'
    )
    files = {
        f"{name}_yaml": (STAGE_SCRIPTS / f"{name}.yaml").read_text("utf-8")
        for name in ("global", "roles", "skills", "rules")
    }
    found: Script = script(text, "strict", **files)
    assert found.roles[0].attributes["voice"] == "WARM"
    assert [type(each) for each in found.interrupts] == [Interrupt, Interrupt]


@pytest.mark.parametrize("roles", ["[{role: Ann, type: ai}]", "[{role: Ann, type: 来访者}]", "[Ann]"])
def test_native_scripts_use_roles_in_any_words_of_this_form(script: ReadValid, roles) -> None:
    text = "cuebook: 1\nscript: native\nuse: roles.yaml\nactions: [{say: Hello., role: Ann}]\n"
    assert [each.id for each in script(text, roles_yaml=f"roles: {roles}\n").roles] == ["Ann"]


def test_an_attribute_that_looks_like_a_slip_is_reported(read: ReadScript) -> None:
    roles = "roles:\n- {role: host, tonne: warm, voice: soft}\n"
    reading = read(HEAD + "    - goal: g\n      actions: [{say: a, role: host}]\n", roles_yaml=roles)
    assert codes(reading) == [("UNKNOWN_KEY", 2)]


@pytest.mark.parametrize("words", ["help | sos", "help/sos", "help、sos", "[help, sos]"])
@pytest.mark.parametrize("then", ["'goto: g'", "goto g", "'goto：g'", "{goto: g}"])
def test_keywords_and_targets_of_a_rule_may_be_texts(script: ReadValid, words, then) -> None:
    rules = f"rules:\n- {{rule: a, keywords: {words}, do: [{{say: b}}], then: {then}}}\n"
    (found,) = script(HEAD + "    - goal: g\n      actions: [{say: a}]\n", rules_yaml=rules).interrupts
    assert (found.on.keywords, found.then.policy, found.then.target) == (("help", "sos"), "goto", "main/g")


def test_a_rule_says_when_it_comes_up_in_any_way(script: ReadValid) -> None:
    rules = """\
    rules:
    - {rule: a, on: the user wants to stop, do: [{say: a}], then: end}
    - {rule: b, keywords: "help, sos", priority: 2, actions: [{say: b}], then: {goto: g}}
    - {goal: the user is lost, actions: [{say: c}]}
    - {rule: d, on: {intent: bored, keywords: [yawn]}, when: "{age} < 10", do: [{say: d}]}
    """
    found = script(HEAD + "    - goal: g\n      actions: [{say: a}]\n", rules_yaml=rules).interrupts
    assert [(each.id, each.on.keywords, each.on.intent, each.then.policy) for each in found] == [
        ("a", (), "the user wants to stop", "end"),
        ("b", ("help", "sos"), "", "goto"),
        ("the user is lost", (), "the user is lost", "resume"),
        ("d", ("yawn",), "bored", "resume"),
    ]
    assert (found[1].then.target, found[3].when.source) == ("main/g", "age < 10")


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("- call: nothing", "SKILL_UNKNOWN"),
        ("- fill: nothing", "FORM_UNKNOWN"),
        ("- goto: nowhere", "GOTO_UNKNOWN"),
        ("- dance: tango", "ACTION_TYPE_UNKNOWN"),
        ("- aks: Do you think of suicide?", "ACTION_TYPE_UNKNOWN"),
        ("- type: ai_sya\n  content: Hello", "ACTION_TYPE_UNKNOWN"),
        ("- say: a\n  exti: b", "UNKNOWN_KEY"),
        ("- say: a\n  exit: b", "UNKNOWN_KEY"),
        ("- say: a\n  afterwards: [{say: b}]", "UNKNOWN_KEY"),
        ("- say: a\n  timing: 3", "UNKNOWN_KEY"),
        ("- say: a\n  unless: '{age} > 3'", "UNKNOWN_KEY"),
        ("- say: a\n  skip_if: '{age} > 3'", "UNKNOWN_KEY"),
        ("- say: a\n  timing_to: spent", "UNKNOWN_KEY"),
        ("- ai_ask: a\n  check_time: 3", "UNKNOWN_KEY"),
        ("- ai_ask: a\n  max_rounds: lots", "TYPE_MISMATCH"),
        ("- ai_ask: a\n  output: [{get: b, required: perhaps}]", "TYPE_MISMATCH"),
        ("- ai_ask: a\n  output: [{get: b, required: [c]}]", "TYPE_MISMATCH"),
        ("- say: a\n  when: '{age} >> 3'", "EXPRESSION_INVALID"),
        ("- say: a\n  say: b", "DUPLICATE_KEY"),
        ("- set: age", "REQUIRED_FIELD_MISSING"),
        ("- set: age == 5", "REQUIRED_FIELD_MISSING"),
        ("- set: age += 5", "EXPRESSION_INVALID"),
        ("- set: '{age} -= 5'", "EXPRESSION_INVALID"),
        ("- {type: ai_say, content: a, config: {content: b}}", "KEY_CONFLICT"),
        ("- show: {caption: a}", "REQUIRED_FIELD_MISSING"),
        ("- user_say: [a, b]", "TYPE_MISMATCH"),
        ("- ai_say:\n  words: b", "REQUIRED_FIELD_MISSING"),
        ("- user_option: city\n  choices: [{key: A, text: a, when: '{age} > 3'}, {B: b}]", "UNKNOWN_KEY"),
        ("- if: '{age} > 3'\n  do: [{say: a}]\n  elif: '{age} > 2'", "TYPE_MISMATCH"),
        ("- foreach:\n  do: [{say: a}]", "REQUIRED_FIELD_MISSING"),
        ("- loop_until:\n  do: [{say: a}]", "REQUIRED_FIELD_MISSING"),
        ("- while: ''\n  do: [{say: a}]", "REQUIRED_FIELD_MISSING"),
        ("- if:\n  do: [{say: a}]", "REQUIRED_FIELD_MISSING"),
        ("- if: '{age} > 3'", "REQUIRED_FIELD_MISSING"),
        ("- if: {age: 3}\n  do: [{say: a}]", "TYPE_MISMATCH"),
    ],
)
@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_what_would_not_be_done_is_an_error(goal, action, code, mode) -> None:
    reading = goal(f"- say: b\n{action}", mode)
    assert reading.script is None
    assert code in {each for each, line in codes(reading, "error") if line >= 10}


@pytest.mark.parametrize("action", ["- set: {age: +1}", "- set: age\n  value: +1", "- set: [{age: +1}]"])
def test_a_number_with_a_plus_sign_adds_nothing_and_is_reported(goal, action) -> None:
    reading = goal(action)
    assert [code for code, _ in codes(reading)] == ["SIGN_IGNORED"]
    assert '"{age} + 1"' in next(each.fix for each in reading.problems if each.code == "SIGN_IGNORED")


@pytest.mark.parametrize(
    ("value", "read_as"),
    [
        ("{age}/10", "'{age}/10' is read as a calculation"),
        ("{age}-1", "'{age}-1' is read as a text"),
        ("{age} / {city}", "'{age} / {city}' is read as a text"),
        ("{age} - {city}", "'{age} - {city}' is read as a text"),
        ("{limit} - {limit}", None),
        ("{age} - {city} - {age}", "'{age} - {city} - {age}' is read as a text"),
        ("{age} - 1", None),
        ("age / 10", None),
        ("'{age}/10'", None),
        ("{age}/{city}/10", None),
    ],
)
def test_a_value_that_may_be_a_text_or_a_calculation_is_reported(goal, value, read_as) -> None:
    reading = goal(f'- set: city\n  value: "{value}"', **{"global.yaml": "global: [{var: limit, value: 3}]"})
    found = [each.message for each in reading.problems if each.code == "VALUE_AMBIGUOUS"]
    assert found == ([read_as] if read_as else [])


@pytest.mark.parametrize("key", ["sung: true", "note: warm", "sound: bell.mp3", "meta: {author: Ann}"])
def test_a_note_is_a_warning_and_in_strict_mode_an_error(goal, key) -> None:
    reading = goal(f"- say: b\n  {key}")
    assert reading.script is not None
    assert codes(reading) == [("UNKNOWN_KEY", 10)]
    assert len(convert(reading.script, reading).losses) == 1
    assert [each.code for each in goal(f"- say: b\n  {key}", "strict").errors] == ["UNKNOWN_KEY"]


def test_yaml_that_is_none_is_an_error_in_strict_mode(goal) -> None:
    assert [each.code for each in goal("- say: {city}, hello", "strict").errors] == ["SYNTAX_ERROR"]
    assert codes(goal("- say: {city}, hello")) == [("SYNTAX_ERROR", 9)]


@pytest.mark.parametrize("mangle", [
    lambda text: "\ufeff" + text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text.replace("\n", "   \n"),
    lambda text: text.replace("      - say: a", "\t\t\t- say: a"),
    lambda text: text.replace("    ", "\t"),
    lambda text: text.replace("  ", "\u3000"),
])  # fmt: skip
def test_a_file_may_come_from_any_editor(goal, read: ReadScript, mangle) -> None:
    text = HEAD + "    - goal: first\n      actions:\n      - say: a\n      - say: b\n"
    reading = read(mangle(text))
    assert reading.script is not None, reading.errors
    assert len(reading.script.phases[0].topics[0].actions) == 2


def test_errors_of_native_scripts_are_warnings_in_older_ones(read: ReadScript) -> None:
    reading = read(HEAD + "    - goal: a\n      actions: [{goto: a}]\nforms: [{form: empty, fields: []}]\n")
    found = {problem.code: problem.severity for problem in reading.problems}
    assert (found["LOOP_ENDLESS"], found["FIELDS_INVALID"]) == ("warning", "warning")


def test_all_keys_of_an_action_may_stand_below_its_verb(native) -> None:
    below = native("""
        - ai_ask:
            task: How old are you?
            output: [{get: age, type: number}]
            max_rounds: 2
    """)
    beside = native("""
        - ai_ask: How old are you?
          output: [{get: age, type: number}]
          max_rounds: 2
    """)
    assert below == beside


def test_a_paragraph_is_indented_as_it_is_written(goal) -> None:
    reading = goal("- say: |\n    \u3000\u3000First.\n    \u3000\u3000say: second\n- say：a")
    assert (
        reading.script.phases[0].topics[0].actions[0].texts[0].source == "\u3000\u3000First.\n\u3000\u3000say: second\n"
    )


def test_choices_may_stand_below_their_question(native) -> None:
    (chosen,) = native("- user_option: {question: Which?, choices: [red, green]}")
    assert (chosen["choose"], chosen["choices"]) == ("Which?", ["red", "green"])


@pytest.mark.parametrize("output", ["output: plan", "output: [{get: plan, define: the next step}]", "var: plan"])
def test_a_question_in_place_of_the_variable_is_asked(native, output) -> None:
    (chosen,) = native(f"- user_option: What next?\n  {output}\n  choices: [red, green]")
    assert chosen == {"choose": "What next?", "into": "plan", "choices": ["red", "green"]}


def test_a_variable_that_is_named_twice_takes_the_choice(native) -> None:
    (chosen,) = native("- user_option: plan\n  output: [{get: plan}]\n  choices: [red, green]")
    assert chosen == {"choose": None, "into": "plan", "choices": ["red", "green"]}


def test_output_beside_a_choice_of_a_variable_is_extracted_later(native) -> None:
    chosen, extracted = native("- user_option: city\n  output: [{get: reason}]\n  choices: [red, green]")
    assert (chosen["into"], extracted["into"]) == ("city", "reason")


def test_a_branch_may_stand_below_its_if(native) -> None:
    below = native("- if: {condition: '{age} > 3', then: [{say: a}], else: [{say: b}]}")
    assert below == [{"if": "age > 3", "then": [{"say": "a"}], "else": [{"say": "b"}]}]


def test_else_may_be_an_item_with_a_body_of_its_own(goal) -> None:
    reading = goal("""
        - if: "{age} > 3"
          do:
          - say: Big.
        - else:
          do:
          - say: Small.
    """)
    found = reading.script.phases[0].topics[0].actions[0]
    assert found.otherwise[0].texts[0].source == "Small."
    assert "UNKNOWN_KEY" not in {problem.code for problem in reading.problems}


def test_a_skill_is_called_with_values_in_brackets(goal) -> None:
    skills = "skills: [{goal: greet, declare: [{var: name}, {var: times}], actions: [say: 'Hi {name} {times}']}]"
    reading = goal("- call: greet(name='Ana', times=2)", **{"skills.yaml": skills})
    call = reading.script.phases[0].topics[0].actions[0]
    assert (call.skill, {key: value.source for key, value in call.input.items()}) == (
        "greet",
        {"name": '"Ana"', "times": "2"},
    )


def test_a_side_file_may_be_the_bare_list_that_its_name_says(goal) -> None:
    reading = goal("- say: '{nick}'", **{"global.yaml": "- {var: nick, value: you}\n- var: mood\n"})
    assert [each.var for each in reading.script.globals] == ["nick", "mood"]
    assert "use: [global.yaml]" in convert(reading.script, reading).text


@pytest.mark.parametrize(
    "written",
    [
        "nick: you\nmood: ok\n",
        "declare:\n- {var: nick, value: you}\n- {var: mood, value: ok}\n",
        "variables:\n  nick: you\n  mood: {value: ok, define: how it is}\n",
        "vars: [nick: you, mood: ok]\n",
    ],
)
def test_a_file_of_global_variables_may_be_written_in_any_way(goal, written) -> None:
    reading = goal("- say: '{nick}'", **{"global.yaml": written})
    assert [(each.var, each.value) for each in reading.script.globals] == [("nick", "you"), ("mood", "ok")]
    assert [each.code for each in reading.problems] == ["ID_DERIVED"]


def test_formula_in_an_include_file_may_name_fields_plainly(goal) -> None:
    forms = """
        forms:
          body:
            fields:
              weight: {type: number}
              height: {type: number}
              bmi: {type: number, computed: weight / height / height}
    """
    reading = goal("- fill: body", **{"forms.yaml": dedent(forms)})
    assert reading.script.forms[0].fields[2].computed.source == "weight / height / height"


def test_what_a_skill_takes_hides_nothing_that_its_author_wrote(goal) -> None:
    sides = {
        "global.yaml": "global: [{var: nick, value: you}]\n",
        "skills.yaml": "skills: [{goal: greet, actions: [{ai_ask: Who?, output: [get: nick]}]}]\n",
    }
    reading = goal("- call: greet\n- say: 'Hi {nick}'", **sides)
    assert "VARIABLE_SHADOWED" not in {problem.code for problem in reading.problems}


@pytest.mark.parametrize(
    ("written", "locale"),
    [
        ("de", "de"),
        ("pt_BR", "pt-BR"),
        ("ES", "es"),
        ("zh_CN", "zh"),
        ("en-US", "en"),
        ("zh", "zh"),
        ("中文", "zh"),
        ("Deutsch", None),
    ],
)
def test_the_language_of_a_stage_script_is_any_tag(read: ReadScript, written, locale) -> None:
    text = f"sessions:\n- session: talk\n  language: {written}\n  stages:\n  - stage: main\n    steps:\n"
    reading = read(text + "    - goal: first\n      actions:\n      - ai_say: Hi.\n", "compat")
    assert reading.script is not None
    assert reading.script.locale == locale
    assert [code for code, _ in codes(reading)] == (["LOCALE_INVALID"] if locale is None else [])


@pytest.mark.parametrize(("written", "scope"), [("topic", "topic"), ("Session", "session"), ("", "session")])
def test_the_default_scope_may_stand_in_the_session_or_beside_it(read: ReadScript, written, scope) -> None:
    stages = "stages: [{stage: main, steps: [{goal: first, actions: [{say: Hi.}]}]}]"
    for text in (
        f"sessions: [{{session: talk, default_scope: {written}, {stages}}}]\n",
        f"default_scope: {written}\nsessions: [{{session: talk, {stages}}}]\n",
    ):
        assert read(text, "compat").script.default_scope == scope


def test_an_unknown_default_scope_is_an_error(read: ReadScript) -> None:
    reading = read(
        HEAD.replace("talk", "talk\n  default_scope: stage") + "    - {goal: a, actions: [{say: b}]}\n", "compat"
    )
    assert codes(reading, "error") == [("ENUM_VALUE_INVALID", 3)]


def test_all_keys_of_a_choice_may_stand_below_its_verb(native) -> None:
    below = native("- user_option: {var: size, question: Which size?, options: [small, large]}")
    beside = native("""
        - user_option: size
          question: Which size?
          choices: [small, large]
    """)
    assert below == beside


def test_actions_in_another_casing_are_read_with_a_warning(goal, native) -> None:
    written = """
        - AI_Ask: How old?
          Output: [{Get: age}]
        - if: "{age} < 12"
          do: [{Say: child}]
        - else if: "{age} < 18"
          do: [{aiSay: teen}]
        - Else: [{say: adult}]
    """
    plain = """
        - ai_ask: How old?
          output: [{get: age}]
        - if: "{age} < 12"
          do: [{say: child}]
        - else_if: "{age} < 18"
          do: [{ai_say: teen}]
        - else: [{say: adult}]
    """
    assert native(written) == native(plain)
    reported = [each for each in goal(written).problems if each.code == "DEPRECATED_KEY"]
    assert [(each.severity, each.fix) for each in reported][:2] == [
        ("warning", "Write `ai_ask`."),
        ("warning", "Write `output`."),
    ]
    assert goal(written, "strict").script is None


def test_records_that_are_declared_have_fields_in_a_loop(read: ReadScript) -> None:
    people = "people, value: [{called: Bea, pets: [cat, dog]}]"
    actions = '[{foreach: people, do: [{say: "{called} has {pets.length} pets"}]}]'
    reading = read(HEAD.replace("people, value: []", people) + f"    - {{goal: first, actions: {actions}}}\n")
    (loop,) = reading.script.phases[0].topics[0].actions
    assert loop.do[0].texts[0].source == "{{ item.called }} has {{ item.pets|length }} pets"


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("other", ["- say: a", "- say：a"])
def test_a_quoted_text_of_several_lines_is_not_repaired(goal, native, quote, other) -> None:
    written = f"- say: {quote}First\n    ok：go on\n    -do: it{quote}\n{other}"
    assert native(written) == [{"say": "First ok：go on -do: it"}, {"say": "a"}]
    assert len([each for each in goal(written).problems if each.code == "SYNTAX_ERROR"]) == other.count("：")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("{city}, hello", "'{city}, hello'"),
        ("'{city}'s gate'", "'{city}''s gate'"),
        ('"He said "yes""', "'He said \"yes\"'"),
        ('"Yes" or "no"', '\'"Yes" or "no"\''),
    ],
)
def test_repaired_line_is_shown_as_it_should_be_written(goal, written, shown) -> None:
    (problem,) = [each for each in goal(f"- say: {written}").problems if each.code == "SYNTAX_ERROR"]
    assert problem.fix == f"Write `- say: {shown}`."


def test_value_marked_as_a_native_expression_is_reported(read: ReadScript) -> None:
    text = """
    sessions:
      - session: talk
        declare: [{var: n, value: 1}, {var: m, value: 0}]
        stages: [{stage: a, steps: [{goal: b, actions: [{set: m, value: WRITTEN}, {say: "{m}"}]}]}]
    """
    for written, fix in (
        ("=n + 1", "Write `n + 1`."),
        ("= n", "Write `n`."),
        ("=是的", "Write `{name}` for the value"),
    ):
        (problem,) = (each for each in read(text.replace("WRITTEN", written)).problems if each.code == "TYPE_MISMATCH")
        assert (problem.severity, problem.fix.startswith(fix)) == ("warning", True)


def test_a_loop_may_name_its_item_and_its_list_in_two_keys(read: ReadScript) -> None:
    reading = read("""
    sessions:
      - session: talk
        declare: [{var: 家人, value: [{称呼: 小红}]}]
        stages:
          - stage: a
            steps: [{goal: b, actions: [{foreach: 人, in: 家人, do: [{say: "{人.称呼}，{称呼}"}]}]}]
    """)
    assert {each.code for each in reading.problems} == {"ID_DERIVED"}
    (loop,) = reading.script.phases[0].topics[0].actions if reading.script else ()
    assert isinstance(loop, Foreach)
    assert (loop.loop.items.source, loop.loop.name) == ("家人", "人")
    (say,) = loop.do
    assert isinstance(say, Say)
    assert say.texts[0].source == "{{ 人.称呼 }}，{{ 人.称呼 }}"


CALLING = """
    sessions:
      - session: talk
        stages: [{stage: a, steps: [{goal: b, actions: [CALLS]}]}]
    skills:
      - goal: bye
        declare: [{var: who}]
        actions: [{say: "Bye {who}."}]
"""


@pytest.mark.parametrize(
    ("calls", "reported"),
    [
        ("{call: bye, with: {who: Ana}}", 0),
        ("{call: bye, with: {who: Ana}}, {call: bye, with: {who: Leo}}", 0),
        ("{call: bye, with: {who: Ana}}, {call: bye}", 1),
        ("{say: Hi}", 1),
    ],
)
def test_a_parameter_that_every_call_passes_has_a_value(read: ReadScript, calls: str, reported: int) -> None:
    problems = read(CALLING.replace("CALLS", calls)).problems
    assert [each.code for each in problems].count("VARIABLE_MAYBE_UNSET") == reported


def test_files_beside_a_script_without_sessions_are_used(tmp_path) -> None:
    (tmp_path / "skills.yaml").write_text("skills: [{goal: greet, actions: [{say: Hi}]}]", "utf-8")
    script = tmp_path / "talk.yaml"
    script.write_text("session: talk\nstages: [{stage: a, steps: [{goal: b, actions: [{call: greet}]}]}]", "utf-8")
    assert read_path(script).errors == ()


def test_a_session_may_declare_its_global_variables(read: ReadScript) -> None:
    text = HEAD.replace("  stages:", "  global: [{var: coach, value: Sam}]\n  stages:")
    reading = read(text + "    - {goal: g, actions: [{say: '{coach}'}]}\n")
    assert reading.script is not None
    assert reading.script.declare[-1].value == "Sam"
    assert codes(reading) == []


def test_a_declared_text_is_a_meaning_unless_the_variable_is_set(read: ReadScript) -> None:
    text = HEAD.replace("[age, city, {var: people, value: []}]", "{city: Rome, mood: how they feel, rounds: 0}")
    reading = read(text + "    - {goal: g, actions: [{ai_ask: why, output: mood}, {say: '{city} {mood}'}]}\n")
    (problem,) = (each for each in reading.problems if each.code == "VALUE_AMBIGUOUS")
    assert problem.message == "'Rome' is read as the meaning of `city`, which nothing sets"


def test_a_record_in_the_declared_variables_is_a_value(read: ReadScript) -> None:
    text = HEAD.replace("[age, city, {var: people, value: []}]", "{home: {city: Rome, name: Sun}, code: '007'}")
    reading = read(text + "    - {goal: g, actions: [{say: '{home.city}, {code}'}]}\n")
    assert [each.value for each in reading.script.declare] == [{"city": "Rome", "name": "Sun"}, "007"]
    assert [each.code for each in reading.problems] == ["ID_DERIVED"]


def test_letters_of_the_choices_of_an_output_are_reported(goal) -> None:
    reading = goal("- ai_ask: why\n  output: [{get: city, choices: [{A: Lyon}, {B: Paris}]}]")
    assert [each.line for each in reading.problems if each.code == "KEY_IGNORED"] == [10]


def test_a_number_is_not_a_list_of_steps(read: ReadScript) -> None:
    forms = "forms: [{form: f, fields: [{number: age, step: 1}]}]\n"
    reading = read(HEAD + "    - {goal: g, actions: [{fill: f}]}\n" + forms)
    assert reading.errors == ()
    assert [each.message for each in reading.problems if each.code == "UNKNOWN_KEY"] == ["unknown key `step`"]


def test_the_meaning_of_a_rule_beside_its_trigger_is_reported(read: ReadScript) -> None:
    rules = "rules: [{rule: bye, define: who wants to leave, keywords: [bye], say: Bye}]\n"
    reading = read(HEAD + "    - {goal: g, actions: [{say: Hi}]}\n" + rules)
    (problem,) = (each for each in reading.problems if each.code == "KEY_IGNORED")
    assert (problem.severity, problem.fix) == ("note", "Write it as `on: {intent: …}` if a model is to judge by it.")


@pytest.mark.parametrize("written", ["{city: Rome}", "[city: Rome]", "{city: {value: Rome}}"])
def test_a_text_in_the_global_variables_is_a_value(read: ReadScript, written: str) -> None:
    actions = "    - {goal: g, actions: [{say: '{city}'}]}\n"
    script = HEAD.replace("[age, city, {var: people, value: []}]", "[]")
    beside = read(script + actions, **{"global.yaml": f"global: {written}\n"})
    within = read(script + actions + f"globals: {written}\n")
    assert beside.script is not None
    assert within.script is not None
    for declared in (beside.script.globals, within.script.declare):
        assert [(each.var, each.value) for each in declared] == [("city", "Rome")]


def test_choices_without_a_variable_are_reported(goal) -> None:
    (problem,) = (
        each for each in goal("- user_option: [{A: Tea}, {B: Coffee}]").problems if each.severity == "warning"
    )
    assert (problem.code, problem.message) == (
        "CHOICES_INVALID",
        "the choices name no variable; the answer is stored in `choice`",
    )
    acting = goal("- user_option: [{A: Tea, do: [{say: Tea!}]}, {B: Coffee, do: [{say: Coffee!}]}]")
    assert [each for each in acting.problems if each.code == "CHOICES_INVALID"] == []


def test_choices_may_be_the_items_of_a_list(native) -> None:
    (choice,) = native("- set: {cities: [Rome, Oslo]}\n- user_option: city\n  choices: '{cities}'")[1]["choices"]
    assert choice == {"each": "cities as item", "key": "=item", "text": "{{ item }}"}


def test_an_action_without_its_colon_is_read_with_a_warning(goal, native) -> None:
    written = "- say 你好\n- ai_ask 名字\n- think twice"
    assert native(written) == [{"say": "你好"}, {"ai_ask": "名字"}, {"say": "think twice"}]
    problems = [each for each in goal(written).problems if each.code == "SYNTAX_ERROR"]
    assert [(each.severity, each.fix) for each in problems] == [
        ("warning", "Write `- say: …`."),
        ("warning", "Write `- ai_ask: …`."),
    ]

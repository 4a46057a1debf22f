"""Converting: the same script in the native form, pleasant to read, and nothing of the original lost in silence."""

import os
import re
import runpy
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from runtime.state.program import Program
from scripts.detectors.words import fold
from scripts.model.base import without_places
from scripts.model.script import Script
from scripts.parse.conversion import Conversion, convert
from scripts.parse.folder import read_path
from scripts.parse.read_script import Reading, Source, read_script
from scripts.yaml.comments import comments
from scripts.yaml.script_writer import native_yaml, simplify
from tests.support.effort import repeats
from tests.support.paths import LIBRARY, ROOT
from tests.support.runtime_session import new_session
from tests.support.script_readers import ReadValid

FILES = sorted(path for path in LIBRARY.glob("*.yaml") if path.stem != "globals")
QUICK = tuple(phase for phase in Phase if phase not in {Phase.explain, Phase.shrink})
CORPUS = os.environ.get("SCRIPT_CORPUS")
ANY = runpy.run_path(
    str(ROOT / "tests/runtime/engine/test_any_script.py")
)  # random scripts, and what a session of one comes to


def read_text(text: str, **side_files: str) -> Reading:
    sides = {name.replace("_yaml", ".yaml"): content for name, content in side_files.items()}
    reading = read_script(Source(dedent(text), "talk.yaml", sides))
    assert reading.script is not None, [str(problem) for problem in reading.errors]
    return reading


def converted(reading: Reading) -> Conversion:
    assert reading.script is not None
    return convert(reading.script, reading)


def script_of(text: str, reading: Reading) -> Script:
    again = read_script(Source(text, "new.yaml", reading.source.side_files), "strict")
    assert again.script is not None, [str(problem) for problem in again.errors]
    return again.script


def same(script: Script) -> bytes:
    """Return a simplified script without its places and form, to the type of every value."""
    return msgspec.json.encode(msgspec.structs.replace(simplify(without_places(script)), form="native"))


def assert_same(reading: Reading) -> str:
    """Write the script of a reading and reads it again."""
    assert reading.script is not None
    text = native_yaml(reading.script)
    again = script_of(text, reading)
    assert same(again) == same(reading.script)
    assert native_yaml(again) == text
    assert converted(reading).text
    return text


async def assert_plays_alike(reading: Reading, text: str, said: list[Any], **options: Any) -> None:
    """Assert that a session of either text has the same events."""
    assert reading.script is not None
    accounts = []
    for script in (reading.script, script_of(text, reading)):
        session = new_session(Program(script), limits=ANY["LIMITS"], **options)
        account = repr([await ANY["lived"](session, said), session.values, session.state.wait])
        accounts.append(re.sub(r"\bline \d+", "line …", account))  # warnings name the line of a source
    assert accounts[0] == accounts[1]


class _Quoting(yaml.SafeDumper):
    """Quotes every text: what needs quotes by YAML 1.1, which PyYAML writes, is not what needs them by 1.2."""


_Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def talk(actions: list[Any], **keys: Any) -> Reading:
    """Return a script that says and does these things."""
    script = {"script": "talk", **keys, "phases": [{"phase": "p", "topics": [{"topic": "t", "actions": actions}]}]}
    return read_text(yaml.dump(script, Dumper=_Quoting, allow_unicode=True, sort_keys=False, width=10_000))


# -- every script ---------------------------------------------------------------------------------------------------


@pytest.mark.gate
@pytest.mark.timeout(600)
@settings(max_examples=repeats(100), deadline=None, phases=QUICK, suppress_health_check=list(HealthCheck))
@given(script=ANY["scripts"](), said=ANY["inputs"], seed=st.integers(0, 9))
async def test_any_script_is_the_same_and_plays_alike(script: ReadValid, said, seed) -> None:
    reading = read_text(script, globals_yaml=ANY["GLOBALS"])
    await assert_plays_alike(reading, assert_same(reading), said, seed=seed)


@pytest.mark.gate
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_the_examples_stay_what_they_are_with_every_comment(path) -> None:
    reading = read_path(path)
    text = assert_same(reading)
    result = converted(reading)
    await assert_plays_alike(reading, text, ["Ana", "34", "1", "no", "5", "yes", "2026-01-15", "a, b", "", "back"])
    assert result.losses == ()
    for comment in comments(reading.source.text):
        assert comment.text.lstrip("# ") in result.text
    again = converted(read_text(result.text, **{"globals_yaml": "", **reading.source.side_files}))
    assert again.text.splitlines()[1:] == result.text.splitlines()[1:]


AWKWARD = [
    "", " ", "  two  spaces  ", "trailing ", "trailing \nof a line \n", " leading", "a: b", "a:", ":a", "a #b", "#a",
    "a#b", "- a", "-", "-5", "--- a", "...", "? a", "?", "a?", "a:?b", "[a]", "a, b", "a]", "{{ x }}", "{a}",
    "a {{ x }}", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a`", "'a'", '"a"', "it's", 'say "it\'s"', "a\\b", "\\n",
    "~", "null", "Null", "yes", "no", "on", "off", "true", "False", "007", "1e3", "1_000", "0x1F", "0o17", "12:30",
    "2026-01-01", "1.", ".5", "+1", "-0.0", ".inf", ".nan", "<<", "=", "a\nb", "a\n", "\na", "\n", "\n\n", "a\n\n",
    "a\n\nb\n", " a\nb", "a\n  b\nc", "a\r\nb", "a\rb", "\ta", "a\tb", "a\n\tb", "a\n \nb", "a\n  ", "\u2028",
    "a\x85b", "\ufeffa", "\x00", "\x07", "🙂 ok", "字", "字：字", "\u3000a", "a\xa0", "e\u0301", "word " * 60 + "end",
    "word " * 60 + "end\n", "x" * 3_000, "字" * 300, "a  b " * 50 + "c", "a\n" + "long " * 60 + "x",
    "https://example.org/a?b=c#d", "# a\n# b", "key: |\n  a", "a\n# b\n", "goto x", "key", "text", "value", "actions",
    "x" * 2_000 + "\n" + "y", "\U0010ffff", "\x7f",
]  # fmt: skip
any_text = st.sampled_from(AWKWARD) | st.text(max_size=40) | st.text(" \n\t:#-'\"\\,[]{}&*ax\r", max_size=12)
prose = any_text.map(lambda text: text.replace("{", "("))
any_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)


def distinct_choices(texts: list[str]) -> list[str]:
    """Return the texts that a reply can pick, each the first of those that count as equal."""
    return list({fold(text): text for text in reversed(texts)}.values())[::-1]


@pytest.mark.gate
@settings(max_examples=repeats(300), deadline=None)
@given(texts=st.lists(prose, min_size=12, max_size=12))
def test_any_text_stays_to_the_letter_wherever_it_stands(texts) -> None:
    keys = distinct_choices([text.casefold() for text in texts[:3]])
    choices = [{"key": key, "text": text} for key, text in zip(keys, distinct_choices(texts[3:]), strict=False)]
    output = {
        "get": "a",
        "define": texts[6],
        "invalid": texts[7],
        "choices": sorted(distinct_choices(texts[8:10])),
        "default": texts[8],
    }
    actions = [
        {"say": texts[0]},
        {"say": texts[:3]},
        {"ai_say": texts[3], "tone": texts[4], "role": texts[5]},
        {"ai_ask": texts[6], "exit": texts[7], "output": [output, {"get": "b", "define": texts[8]}]},
        {"choose": "c", "question": texts[9], "choices": choices},
        {"choose": "d", "choices": keys},
        {"choose": "e", "choices": [{"key": key, "text": key, "value": key} for key in keys]},
        {"show": {"image": texts[10]}},
        {"show": {"url": texts[11], "caption": texts[0]}},
        {"user_say": texts[1]},
        {"end": texts[2]},
    ]
    assert_same(talk(actions, title=texts[3], description=texts[4], tags=texts[5:8]))


@pytest.mark.gate
@pytest.mark.parametrize("text", AWKWARD, ids=ascii)
async def test_an_awkward_text_is_said_as_it_is(text) -> None:
    reading = talk([{"ai_say": text.replace("{a}", "(a)"), "id": "a"}])
    await assert_plays_alike(reading, assert_same(reading), ["ok"])


@pytest.mark.gate
@settings(max_examples=repeats(300), deadline=None)
@given(value=any_value)
@example({"x" * 2_000: {"y" * 2_000: [1]}})
@example([[], {}, [[]], {"a": {}}, [[1, 2], ["a\nb"]], 1e16, 1e-7, -0.0, 1.0, 5e-324, 1.7976931348623157e308])
def test_any_value_keeps_its_kind(value) -> None:
    declare = [{"var": "v", "value": value}, {"var": "w", "value": [value, {"in": value}], "define": "a value"}]
    output = [{"get": "a", "default": value}, {"get": "b", "define": "b", "default": value}]
    choices = [{"key": "1", "text": "One", "value": value}, {"2": "Two", "value": [value]}]
    criteria = {"custom_conditions": [{"variable": "v", "operator": "==", "value": value}]}
    actions = [
        {"ai_ask": "Say.", "output": output, "exit_criteria": criteria},
        {"choose": "c", "choices": choices},
    ]
    assert_same(talk(actions, declare=declare))


@pytest.mark.gate
@pytest.mark.parametrize(
    "source",
    ["true", "x or none", "45", "1.0", "1e3", "x", "x == 'a, b'", '"a: b"', "{'a': 1}['a']", "[1, 2] | first",
     "x  ==  1", "not x", "x and\n  y", "x and\n  y\n", " x", "x ", "'#' ~ ' #'", "x[0]", "null", "-1", "'\t'"],
)  # fmt: skip
def test_an_expression_stays_to_the_letter(source) -> None:
    output = [{"get": "a", "validate": source}, {"set": "b", "value": source, "when": source}]
    actions = [
        {"set": {"x": source}, "when": source},
        {"set": {"x": source, "y": source}},
        {"ask": "?", "output": output},
        {"foreach": f"{source} as each", "do": [{"repeat": {"until": source}, "do": []}]},
        {"repeat": {"max": 3}, "do": [{"if": source, "then": [], "else": [{"say": "x"}]}]},
        {"repeat": {}, "do": []},
    ]
    assert_same(talk(actions))


def test_what_is_empty_stays_empty() -> None:
    assert_same(read_text("{script: talk, phases: []}"))
    assert_same(read_text("{script: talk, phases: [{phase: a, topics: []}, {phase: b, topics: [{topic: t}]}]}"))
    assert_same(talk([{"say": []}, {"end": None}, {"end": ""}, {"ai_say": "a", "exit_criteria": {}, "max_rounds": 0}]))


def test_numbers_as_limits_keep_their_kind() -> None:
    limits = [1, 1.0, "1", 10**30, -0.5]
    assert_same(talk([{"ask": "?", "output": [{"get": f"v{n}", "min": limit} for n, limit in enumerate(limits)]}]))


# -- what it looks like ---------------------------------------------------------------------------------------------


def test_it_is_written_as_a_person_would() -> None:
    text = """\
cuebook: 1
script: talk
title: A talk
version: "1.0"
default_scope: session
use: [globals.yaml]

declare:
  - {var: mood, define: "low, ok or good", type: choice, choices: [low, ok, good]}
  - {var: seen, value: [1, two, null, {a: "3"}]}

phases:
  - phase: one
    when: not seen
    topics:
      - topic: first
        actions:
          - say:
              - Hello.
              - "Hello: you."
            id: hello
          - ai_say: |
              Two
              lines.
            id: lines
          - ask: "{{ mood }}?"
            id: ask
            when: mood is defined
            into:
              - {var: mood, required: true}
              - {set: tired, value: =mood == "low"}
            on_fail: goto first
          - choose: "Tea or coffee? Say # to skip."
            id: drink
            into: drink
            choices:
              - yes
              - t: Tea
              - {key: c, text: Coffee, value: 2}
              - key: n
                text: Nothing
                do:
                  - end: no
                    id: stop
          - set: {a: 1, b: =a + 1}
            id: plain
          - set:
              c: =a | default([1, 2])
            id: brackets
          - repeat: {until: c > 3, max: 5}
            id: again
            do:
              - show: https://example.org/a.png
                id: show

      - topic: second
        title: Second
        actions:
          - ai_say: >-
              A text that is too long for one line of a hundred and twenty characters is folded, as one would do it by
              hand, and reads the same.
            id: long
"""
    reading = read_text(text, globals_yaml="globals: []")
    assert native_yaml(reading.script) == text


def test_labels_of_choices_are_written() -> None:
    choices = '[{"0": Never}, {"1": Always}, other]'
    fields = f"[{{field: a, type: choice, choices: {choices}}}]"
    asked = (
        f"[{{form: sheet}}, {{ask: How often?, into: {{var: often, choices: {choices}}}}}, {{ask: Really?, into: b}}]"
    )
    declared = f"[{{var: b, choices: {choices}}}]"
    forms = f"[{{form: sheet, fields: {fields}}}]"
    text = f"cuebook: 1\nscript: s\ndeclare: {declared}\nactions: {asked}\nforms: {forms}\n"
    assert assert_same(read_text(text)).count('- {"1": Always}') == 3


# -- what stands beside the script ----------------------------------------------------------------------------------


def test_a_comment_below_a_line_separator_in_a_text_is_not_lost() -> None:
    text = 'script: talk\nactions:\n  - say: "one\u2028two" # said\n  - say: x # then\n'
    assert [comment.text for comment in comments(text)] == ["# said", "# then"]


def test_comments_stay_with_what_they_are_about() -> None:
    text = """\
        # About it all.

        # More about it all.
        script: talk
        phases:
          # The phase.
          - phase: one # its name
            # What it holds.
            topics:
              - topic: first
                actions:
                  - say: "a # b" # said
                    id: a
                  - ask: Who?
                    id: b
                    # Two values.
                    max_rounds: 2 # no more
                    output:
                      # The first.
                      - {get: x}
                      - {get: y} # the second
                  - say: |  # in lines
                      # a text
                      b
                    id: c
                  # - say: left out
                  #   id: d
              - topic: second # also
                actions: [{say: x, id: x}]
        # The end.
    """
    assert (
        converted(read_text(text)).text
        == """\
# Converted from talk.yaml, which is in the native format.

# About it all.

# More about it all.
cuebook: 1
script: talk

phases:
  # The phase.
  # its name
  # What it holds.
  - phase: one
    topics:
      - topic: first
        actions:
          # said
          - say: "a # b"
            id: a
          # Two values.
          # max_rounds: no more
          - ask: Who?
            id: b
            into:
              # The first.
              - x
              # the second
              - y
            rounds: 2
          # in lines
          - say: |
              # a text
              b
            id: c

      # - say: left out
      #   id: d
      # also
      - topic: second
        actions:
          - say: x
            id: x
# The end.
"""
    )


SESSION = """
metadata: {name: Other, version: "1.0", description: About., author: Ann, audience: [all, {who: "1"}]}
extra: true
session:
  session_id: talk
  session_name: A talk
  template_scheme: warm
  locale: en
  use: [globals.yaml]
  declare: [{var: 年 龄, value: 20, type: number}, mood]
  colour: red
  phases:
    - phase_id: opening
      phase_name: Opening
      phase_goal: trust
      entry_condition: "{年 龄} >= 20 && !{married}"
      declare: [{var: married, value: false}]
      topics:
        - topic_id: welcome
          topic_name: Welcome
          topic_goal: greet
          strategy: slowly
          condition: '{mood} == null || {mood} != ''vars["年 龄"]'''
          declare: [{var: seen}]
          actions:
            - action_type: ai_say
              action_id: hello
              action_name: Greeting
              description: says hello
              condition: "{年 龄} > 1"
              config: {content: "It's ${name}'s {年 龄}: {{mood}} {% {1x}", tone: warm, ai_role: guide, say_goal: ease}
            - {type: ai_say, id: more, content: "Go on.\nPlease.\n", max_rounds: 2, require_acknowledgment: false}
            - action_type: ai_ask
              action_id: ask
              config:
                content: How old?
                exit: known
                max_rounds: 2
                exit_criteria: {min_rounds: 1, custom_conditions: [{variable: 年 龄, operator: ">", value: 3}]}
                output: [{get: 年 龄, type: number, define: age}, {get: user.name}]
                extraction_prompt: nothing
                think_goal: |
                  two
                  lines
            - action_type: ai_ask
              action_id: older
              config: {question_template: "{user.name}?", target_variable: who, extraction_prompt: name, required: true}
            - action_type: ai_think
              action_id: think
              config: {think_goal: think, input_variables: [who], output_variables: [sum, note]}
            - {action_type: show_pic, action_id: pic, config: {image: a.png, url: "https://x/{who}", caption: "{sum}"}}
"""


async def test_session_format_is_converted_and_the_rest_reported() -> None:
    reading = read_text(SESSION, globals_yaml="globals: [{var: name, value: Ana}]")
    result = converted(reading)
    again = script_of(result.text, reading)
    lost = [(problem.line, problem.code, re.search("`(.*?)`|{.*?}", problem.message)[0]) for problem in result.losses]
    assert lost == [
        (2, "KEY_IGNORED", "`name`"),
        (2, "KEY_IGNORED", "`audience`"),
        (3, "UNKNOWN_KEY", "`extra`"),
        (10, "VARIABLE_NAME_INVALID", "`年 龄`"),
        (11, "UNKNOWN_KEY", "`colour`"),
        (28, "KEY_IGNORED", "`action_name`"),
        (29, "KEY_IGNORED", "`description`"),
        (31, "PLACEHOLDER_INVALID", "{1x}"),
        (31, "KEY_IGNORED", "`say_goal`"),
        (42, "VARIABLE_NAME_INVALID", "`user.name`"),
        (43, "KEY_IGNORED", "`extraction_prompt`"),
        (44, "KEY_IGNORED", "`think_goal`"),
        (52, "KEY_IGNORED", "`input_variables`"),
    ]
    assert '# Not carried over: audience: [all, {who: "1"}]\n' in result.text
    assert "          # Not carried over:\n          #   think_goal: |\n          #     two\n" in result.text
    assert "          # Not carried over: say_goal: ease\n" in result.text
    assert 'mood != "vars[\\"年 龄\\"]"' in result.text
    accounts = []
    for script in (reading.script, again):
        session = new_session(Program(script), variables={"mood": "ok"})
        account = repr([await ANY["lived"](session, ["ok", "5", "name: B", "who: C", "x"]), session.values])
        accounts.append(account.replace("年 龄", "年_龄").replace("user.name", "user_name"))
    assert accounts[0] == accounts[1]


@pytest.mark.parametrize(
    ("config", "lost"),
    [
        ("action_type: ai_ask, content: a, required: true", ["required"]),
        ("action_type: ai_ask, content: a, target_variable: x, required: true, extraction_prompt: b", []),
        ("action_type: ai_ask, content: a, target_variable: x, required: true, output: [x]", []),
        ("action_type: ai_ask, content: a, required: true, output: [x, y]", []),
        ("action_type: ai_ask, content: a, extraction_prompt: b, output: [x]", []),
        ("action_type: ai_ask, content: a, extraction_prompt: b, output: [{get: x, define: c}]", ["extraction_prompt"]),
        ("action_type: ai_ask, content: a, output_variables: [x], output: [x]", []),
        ("action_type: ai_ask, content: a, say_goal: b", ["say_goal"]),
        ("action_type: ai_ask, content: a, content_template: b", ["content_template"]),
        ("action_type: ai_think, think_goal: b", []),
        ("action_type: ai_think, prompt_template: a, think_goal: b", []),
        ("action_type: ai_think, prompt_template: 'a {x}', input_variables: [x]", []),
        ("action_type: ai_think, prompt_template: 'a {x}', input_variables: [x, y]", ["input_variables"]),
        ("action_type: ai_say, content: a, colour: b", ["colour"]),
        ("action_type: ai_say, content: a, colour: ~", ["colour"]),
    ],
)
def test_a_key_without_effect_is_a_comment(config, lost) -> None:
    head = "session: {session_id: s, phases: [{phase_id: p, topics: [{topic_id: t, actions: [{action_id: a, "
    result = converted(read_text(head + config + "}]}]}]}"))
    assert re.findall("Not carried over: (\\w+)", result.text) == lost
    assert len(result.losses) == len(lost)


def test_what_is_carried_over_is_no_loss_though_without_effect() -> None:
    result = converted(
        read_text(
            """\
            script: talk
            phases:
              - phase: p
                topics:
                  - topic: t
                    actions:
                      - {ask: How old?, id: age, output: [{get: age, type: number, pattern: "[0-9]+"}], max_rounds: 0}
                      - {say: "{{ age }}", id: say, remind: [{after: 1 day, say: Hello?}]}
            """
        )
    )
    assert "pattern: " in result.text and "remind:" in result.text
    assert "Not carried over" not in result.text
    assert result.losses == ()


@pytest.mark.skipif(CORPUS is None, reason="SCRIPT_CORPUS names a folder of scripts by others")
@pytest.mark.parametrize("path", sorted(Path(CORPUS or ".").glob("session-form/*.yaml")), ids=lambda path: path.stem)
async def test_scripts_by_others_play_alike(path) -> None:
    reading = read_path(path)
    result = converted(reading)
    await assert_plays_alike(
        reading, result.text, ["Ana", "28", "age: 30, job: cook", "ok", "", "no", "ok", "fine", "ok"]
    )
    for comment in comments(reading.source.text):
        assert comment.text.lstrip("# ") in result.text
    assert "DEPRECATED_KEY" not in {problem.code for problem in script_problems(result.text)}


def script_problems(text: str) -> tuple[Any, ...]:
    return read_script(Source(text, "new.yaml"), "strict").problems


FIELDS = """\
sessions:
- session: talk
  declare: [{var: people, value: [{full name: Ana, 年龄（岁）: 3}]}]
  stages:
  - stage: main
    steps:
    - goal: first
      actions:
      - ai_ask: Who else?
        output: [{get: full name}, {get: 年龄（岁）}]
        tolist: people
      - set: {other-one: {full name: Mia}}
      - foreach: people as one-of-them
        do:
        - say: "{full name} is {年龄（岁）}; {one-of-them.full name}, not {other-one.full name}"
        - if: "{one-of-them}['full name'] == 'full name'"
          do: [{say: "full name"}]
"""


async def test_fields_of_records_are_renamed_wherever_they_are_read() -> None:
    reading = read_text(FIELDS)
    text = converted(reading).text
    for script in (reading.script, script_of(text, reading)):
        session = new_session(Program(script), limits=ANY["LIMITS"])
        turns = repr(await ANY["lived"](session, ["Leo, 7"]))
        assert "content='Ana is 3; Ana, not Mia'" in turns
    assert 'if: one_of_them["full_name"] == "full name"' in text


def test_detectors_and_forms_of_older_includes_stay_in_use() -> None:
    stage = """\
        use: [watch.yaml]
        sessions:
        - session: talk
          stages: [{stage: one, steps: [{goal: first, actions: [{say: Hello}, {fill: body}]}]}]
        """
    watch = "consciousness: {consciousness_id: crisis, consciousness_name: Crisis, trigger: {keywords: [die]}}\n"
    forms = "forms: [{form: body, fields: [{field: height, type: number}]}]\n"
    reading = read_text(stage, watch_yaml=watch, forms_yaml=forms)
    conversion = converted(reading)
    again = script_of(conversion.text, reading)
    assert conversion.losses == ()
    assert ([each.id for each in again.detectors], [each.id for each in again.forms]) == (["crisis"], ["body"])
    assert without_places(again).detectors == without_places(reading.script).detectors


@pytest.mark.parametrize("item", ["a: 1", "a: [1, 2]", "{a: 1}\n- {var: b, define: a thing}"])
def test_global_variables_by_name_stay_in_use(item: str) -> None:
    stage = """\
        sessions:
        - session: talk
          stages: [{stage: one, steps: [{goal: first, actions: [{say: "{a}"}]}]}]
        """
    reading = read_text(stage, global_yaml=f"globals:\n- {item}\n")
    conversion = converted(reading)
    again = script_of(conversion.text, reading)
    assert (conversion.losses, again.globals) == ((), reading.script.globals)


@pytest.mark.parametrize("item", ["vra: a", "vars: [a]", "name: a"])
def test_a_misspelt_key_of_a_global_variable_is_an_error(item: str) -> None:
    native = "cuebook: 1\nscript: s\nuse: [global.yaml]\nactions: [{say: Hello.}]\n"
    source = Source(native, "s.yaml", {"global.yaml": f"globals: [{{{item}}}]"})
    assert "UNKNOWN_KEY" in [each.code for each in read_script(source).errors]


def test_native_sections_of_an_older_script_are_carried_over() -> None:
    stage = """\
        sessions:
        - session: talk
          stages: [{stage: one, steps: [{goal: first, actions: [{say: Hello}]}]}]
        interrupts: [{interrupt: sad, "on": [sad], do: [{say: Oh.}]}]
        detectors: [{detector: d, rules: [{words: [die]}]}]
        colour: red
        """
    reading = read_script(Source(dedent(stage), "talk.yaml"), "compat")
    conversion = converted(reading)
    assert [loss.code for loss in conversion.losses] == ["UNKNOWN_KEY"]
    assert "# Not carried over: colour: red" in conversion.text
    again = script_of(conversion.text, reading)
    assert [each.id for each in (*again.interrupts, *again.detectors)] == ["sad", "d"]  # type: ignore[attr-defined]

"""Where variables live: four layers, looked up innermost first, each with its own lifetime."""

from datetime import UTC, datetime

import pytest

from runtime.state.events import ScopeEntered, VariableChanged
from runtime.state.scopes import CELLS_MAX, Scopes, WriteRefused
from runtime.state.state import Cell, State
from scripts.expressions.values import LIST_ITEMS_MAX, TEXT_CHARS_MAX
from tests.support.runtime_session import ReadProgram, StartSession

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)

LAYERED = """
script: layered
use: [globals.yaml]
declare: [{var: in_session}, {var: age, type: number}]
phases:
- phase: first
  declare: [{var: in_phase}]
  topics:
  - topic: one
    declare: [{var: in_topic, type: choice, choices: [low, high]}]
    actions:
    - user_say: go on
  - topic: two
    actions:
    - user_say: go on
"""
GLOBALS = """
globals:
- {var: in_global}
- {var: units, value: metric}
"""


@pytest.fixture
def scopes(program_of: ReadProgram):
    state = State(seed=1, locale="en", phase="first", topic="one")
    return Scopes(program_of(LAYERED, GLOBALS), state)


def write(scopes, name, value, scope=None):
    return scopes.write(scope or scopes.target(name), name, value, "script", NOON)


def test_a_name_is_looked_up_innermost_first(scopes) -> None:
    for scope in ("global", "session", "phase", "topic"):
        write(scopes, "mood", scope, scope)
    for scope in ("topic", "phase", "session", "global"):
        assert scopes.find("mood") == (scope, scope)
        del scopes.cells(scope)["mood"]
    assert scopes.find("mood") is None


def test_an_undeclared_name_goes_to_the_topic(scopes) -> None:
    write(scopes, "mood", "calm")
    assert [scope for scope in ("topic", "phase", "session", "global") if scopes.cells(scope)] == ["topic"]


def test_each_declared_name_goes_to_the_scope_that_declares_it(scopes) -> None:
    for name in ("in_topic", "in_phase", "in_session", "in_global"):
        write(scopes, name, "low")
    written = {scope: list(scopes.cells(scope)) for scope in ("topic", "phase", "session", "global")}
    assert written == {
        "topic": ["in_topic"],
        "phase": ["in_phase"],
        "session": ["in_session"],
        "global": ["in_global"],
    }


@pytest.mark.parametrize(("scope", "phase"), [("topic", "first"), ("topic", ""), ("phase", "")])
def test_a_write_to_a_scope_nobody_is_in_is_refused(program_of: ReadProgram, scope, phase) -> None:
    state = State(seed=1, locale="en", phase=phase)
    outside = Scopes(program_of(LAYERED, GLOBALS), state)
    with pytest.raises(WriteRefused, match=f"there is no {scope}"):
        write(outside, "mood", "calm", scope)
    assert outside.cells(scope) == {}


def test_overwriting_keeps_one_cell_with_last_time_and_source(scopes) -> None:
    later = datetime(2026, 3, 5, tzinfo=UTC)
    first = write(scopes, "mood", "low")
    second = scopes.write("topic", "mood", "high", "user", later)
    assert (first.old, first.new, second.old, second.new) == (None, "low", "low", "high")
    assert scopes.cells("topic") == {"mood": Cell("high", "text", later, "user")}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("calm", "text"),
        (28, "number"),
        (2.5, "number"),
        (True, "boolean"),
        ([1, "a"], "list"),
        ({"a": 1}, "record"),
        (None, "null"),
    ],
)
def test_the_type_of_an_undeclared_value_is_inferred(scopes, value, kind) -> None:
    assert write(scopes, "anything", value).type == kind


@pytest.mark.parametrize(
    ("name", "value", "expected", "kind"),
    [
        ("age", "28", 28, "number"),
        ("age", 0, 0, "number"),
        ("age", None, None, "null"),
        ("in_topic", "LOW", "low", "choice"),
    ],
)
def test_a_declared_type_coerces_what_loses_nothing(scopes, name, value, expected, kind) -> None:
    done = write(scopes, name, value)
    assert (done.new, done.type) == (expected, kind)


def test_choices_alone_declare_a_choice(program_of: ReadProgram) -> None:
    text = LAYERED.replace("type: choice, ", "")
    scopes = Scopes(program_of(text, GLOBALS), State(seed=1, locale="en", phase="first", topic="one"))
    assert write(scopes, "in_topic", "low").type == "choice"
    with pytest.raises(WriteRefused):
        write(scopes, "in_topic", "middle")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("age", "old", "expected number, found text 'old'"),
        ("age", True, "expected number"),
        ("in_topic", "middle", "expected one of low, high"),
        ("mood", "x" * (TEXT_CHARS_MAX + 1), "at most"),
        ("mood", [0] * (LIST_ITEMS_MAX + 1), "at most"),
        ("mood", float("nan"), "finite"),
        ("mood", object(), "cannot store object"),
    ],
)
def test_value_that_does_not_fit_is_refused_and_changes_nothing(scopes, name, value, reason) -> None:
    write(scopes, "age", 28)
    with pytest.raises(WriteRefused, match=reason):
        write(scopes, name, value)
    assert scopes.flat() == {"age": 28, "units": "metric"}


def test_a_scope_holds_so_many_variables_and_no_more(scopes) -> None:
    for number in range(CELLS_MAX):
        write(scopes, f"v{number}", number)
    write(scopes, "v0", "an old one may still change")
    with pytest.raises(WriteRefused, match="at most"):
        write(scopes, "one_more", 1)


@pytest.mark.parametrize("name", ["用户-情绪", "a.b", "情绪（当前）", "how are you", "用户名"])
def test_names_of_older_scripts_are_unchanged(scopes, name) -> None:
    write(scopes, name, "calm")
    assert scopes.find(name) == ("topic", "calm")


def test_a_global_variable_has_its_default_until_it_is_written(scopes) -> None:
    assert scopes.find("units") == ("global", "metric")
    assert scopes.cells("global") == {}
    done = write(scopes, "units", "imperial")
    assert (done.scope, done.old, done.new) == ("global", "metric", "imperial")
    assert scopes.flat()["units"] == "imperial"


PHASE = """
cuebook: 1
script: t
interrupts: [{interrupt: sad, on: [sad], do: [{say: "Was {{ mood }}."}, {ask: Now?, into: mood}, {set: {count: 1}}]}]
phases:
- phase: p
  declare: [{var: mood, value: fine}]
  topics:
  - topic: t
    actions: [%s, {say: "Is {{ mood }}.", acknowledge: ok}]
  - topic: side
    when: false
    actions: [{say: "Was {{ mood }}."}, {ask: Now?, into: mood}]
"""


@pytest.mark.parametrize("first", ["{ask: How are you?, into: reply}", "{wait: 1 day, on_message: side}"])
async def test_an_interrupt_and_a_topic_that_answers_share_the_phase(drive: StartSession, first: str) -> None:
    session = await drive(PHASE % first, saved=True)
    await session.reply("sad")
    assert session.said == ["Was fine.", "Now?"]
    await session.reply("low")
    assert session.values["mood"] == "low"
    await (session.pass_time(days=2) if "wait" in first else session.reply("well"))
    assert (session.said, session.values) == (["Is low."], {"mood": "low", **session.cells("topic")})


async def test_a_skill_shows_its_own_variables_beside_those_it_hides(drive: StartSession) -> None:
    session = await drive(
        """
        cuebook: 1
        script: t
        declare: [{var: name, value: of the session}, {var: other, value: hidden}]
        skills: [{skill: s, params: [{var: name}], actions: [{ask: "It is {{ name }}.", into: seen}]}]
        actions: [{call: s, with: {name: of the skill}}]
        """
    )
    assert session.said == ["It is of the skill."]
    assert session.values == {"name": "of the skill", "other": "hidden"}


async def test_one_name_in_two_topics_is_two_variables(drive: StartSession) -> None:
    session = await drive("""
        script: test
        phases:
        - phase: only
          topics:
          - topic: one
            actions: [{set: {mood: "'low'"}}, {user_say: go on}]
          - topic: two
            actions: [{say: "[{{ mood }}]"}, {set: {mood: "'high'"}}, {user_say: go on}]
    """)
    assert session.cells("topic") == {"mood": "low"}
    await session.reply("ok")
    assert session.said == ["[]"]
    assert session.warnings == [("undefined_variable", "`mood` has no value")]
    assert session.cells("topic") == {"mood": "high"}


LIVES = """
script: lives
declare: [{var: in_session, value: 0}]
phases:
- phase: first
  declare: [{var: in_phase, value: 0}]
  topics:
  - topic: one
    declare: [{var: in_topic, value: 0}]
    actions:
    - set: {in_session: in_session + 1, in_phase: in_phase + 1, in_topic: in_topic + 1, loose: 1}
    - ask: Where to?
      id: where
      output: [{get: target}]
    - {goto: first/one, when: target == "again"}
    - {goto: second/three, when: target == "away"}
- phase: second
  topics:
  - topic: three
    actions:
    - {say: "[{{ in_phase }}][{{ in_topic }}][{{ loose }}]"}
    - user_say: back
    - goto: first/one
"""


async def test_a_topic_starts_empty_each_time_it_is_entered(drive: StartSession) -> None:
    session = await drive(LIVES)
    await session.reply("again")
    assert session.values == {"in_session": 2, "in_phase": 2, "in_topic": 1, "loose": 1}
    assert [(each.id, each.entry) for each in session.happened(ScopeEntered)] == [("one", 2)]


async def test_a_phase_ends_when_it_is_left_and_starts_again(drive: StartSession) -> None:
    session = await drive(LIVES)
    await session.reply("away")
    assert session.said == ["[][][]"]
    assert session.values == {"in_session": 1}
    await session.reply("back")
    assert session.values == {"in_session": 2, "in_phase": 1, "in_topic": 1, "loose": 1}
    assert [(each.scope, each.id, each.entry) for each in session.happened(ScopeEntered)] == [
        ("phase", "first", 3),
        ("topic", "one", 3),
    ]


async def test_initial_variables_have_session_scope_unless_global(drive: StartSession) -> None:
    session = await drive(
        LAYERED, variables={"age": "28", "nickname": "Bo", "units": "imperial"}, global_variables=GLOBALS
    )
    assert session.cells("session") == {"age": 28, "nickname": "Bo"}
    assert session.cells("global") == {"units": "imperial"}
    assert {change.source for change in session.turns[0].changes} == {"api"}


async def test_a_variable_of_an_earlier_session_beats_its_default(drive: StartSession) -> None:
    cells = {"units": Cell("imperial", "text", NOON, "user")}
    session = await drive(
        LAYERED.replace("user_say: go on", 'say: "{{ units }}"'), global_variables=GLOBALS, global_cells=cells
    )
    assert session.said == ["imperial", "imperial"]


async def test_a_script_may_keep_undeclared_names_for_the_session(drive: StartSession) -> None:
    session = await drive("""
        script: test
        default_scope: session
        phases:
        - phase: only
          topics:
          - {topic: one, actions: [{set: {mood: "'low'"}}]}
          - {topic: two, actions: [{say: "{{ mood }}"}]}
    """)
    assert session.said == ["low"]
    assert session.cells("session") == {"mood": "low"}


async def test_every_write_is_on_record_with_where_it_came_from(drive: StartSession) -> None:
    session = await drive("""
        script: test
        declare: [{var: age, type: number, value: 1}]
        phases:
        - phase: only
          topics:
          - topic: talk
            actions:
            - {set: {age: age + 1}, id: grow}
            - {ask: Age?, id: ask_age, output: [{get: age, type: number}]}
    """)
    await session.reply("30")
    changes = [change for turn in session.turns for change in turn.changes]
    assert changes == [
        VariableChanged("session", "age", None, 1, "number", "default", "", "", ""),
        VariableChanged("session", "age", 1, 2, "number", "script", "grow", "only", "talk"),
        VariableChanged("session", "age", 2, 30, "number", "user", "ask_age", "only", "talk"),
    ]


async def test_a_null_hides_an_outer_value_and_counts_as_unset(drive: StartSession) -> None:
    session = await drive("""
        script: test
        declare: [{var: mood, value: low}]
        phases:
        - phase: only
          declare: [{var: mood}]
          topics:
          - {topic: talk, actions: [{set: {mood: none}}, {say: "[{{ mood }}]"}, {user_say: go on}]}
    """)
    assert session.said == ["[]"]
    assert session.cells("session") == {"mood": "low"}

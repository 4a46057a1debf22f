"""Experiments: an arm is drawn once and stored, actions depend on the arm, exposures are recorded."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.actions.blocks import drawn_arm
from runtime.migration.migration import plan
from runtime.migration.state_validation import InvalidState, check
from runtime.state.events import ActionEntered, Exposed, VariableChanged
from runtime.state.inputs import MigrationInput, Rewind
from runtime.state.state import Cell, State, decode, encode
from scripts.model.experiments import Arm, ExperimentPlan
from tests.support.runtime_session import NewSession, ReadProgram, StartSession

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)

GREETING = """\
script: hello
experiments:
  - {experiment: greeting, arms: [plain, warm]}
phases:
  - phase: start
    topics:
      - topic: welcome
        actions:
          - experiment: greeting
            id: greet
            arms:
              plain: [{say: Hello., id: plain_hello}]
              warm: [{ask: "Hello! How are you?", id: warm_hello, output: [{get: mood}]}]
          - {ask: Shall we go on?, id: go_on, output: [{get: answer}]}
          - {say: "Glad you are here.", id: glad, when: greeting == "warm"}
          - {experiment: greeting, id: part, arms: {plain: [], warm: [{say: "Come again!", id: again}]}}
          - {user_say: "{{ greeting }}", id: bye}
"""


def a_plan(weights: dict[str, int], id: str = "greeting") -> ExperimentPlan:
    return ExperimentPlan(id=id, arms=tuple(Arm(id=name, weight=weight) for name, weight in weights.items()))


def exposures(session: Any) -> list[tuple[str, str, str, str]]:
    bodies = [event.body for turn in session.turns for event in turn.events]
    return [(body.experiment, body.arm, body.action_id, body.by) for body in bodies if isinstance(body, Exposed)]


def in_arm(arm: str, **more: Any) -> dict[str, Cell]:
    """Return the global variables of a user who is in an arm of `greeting`."""
    return {"greeting": Cell(arm, "choice", NOON, "script", **more)}


# -- which arm --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 1, "b": 3}, {"a": 5, "b": 3, "c": 2}])
def test_ten_thousand_users_fall_into_the_arms_by_their_weights(weights) -> None:
    found = Counter(drawn_arm(a_plan(weights), f"user-{number}") for number in range(10_000))
    for name, weight in weights.items():
        assert abs(found[name] / 10_000 - weight / sum(weights.values())) < 0.02


def test_arms_of_two_experiments_are_independent() -> None:
    one, other = a_plan({"a": 1, "b": 1}), a_plan({"a": 1, "b": 1}, id="other")
    found = Counter((drawn_arm(one, str(number)), drawn_arm(other, str(number))) for number in range(10_000))
    assert all(abs(count / 10_000 - 1 / 4) < 0.02 for count in found.values())
    assert len(found) == 4


def test_an_arm_is_the_same_wherever_and_whenever_it_is_drawn() -> None:
    assert [drawn_arm(a_plan({"plain": 1, "warm": 1}), user) for user in ("ana", "ben", "用户", "")] == [
        "warm",
        "plain",
        "warm",
        "plain",
    ]


weights = st.dictionaries(st.text(min_size=1, max_size=8), st.integers(1, 1_000), min_size=2, max_size=6)


@given(weights=weights, user=st.text(max_size=20))
def test_any_user_is_in_one_arm_of_any_experiment(weights, user) -> None:
    assert drawn_arm(a_plan(weights), user) in weights
    assert drawn_arm(a_plan(weights), user) == drawn_arm(a_plan(weights), user)


@pytest.fixture
def met(prepare: NewSession, program_of: ReadProgram):
    """Return the arm a user is in, in a session of a script."""

    async def met(text: str, user: str, global_cells: Any = None, seed: int = 1) -> tuple[str, dict[str, Cell]]:
        session = prepare(program_of(text), global_cells=global_cells, seed=seed)
        session.state.user_id = user
        await session.start()
        (exposure,) = exposures(session)
        return exposure[1], session.state.global_cells

    return met


async def test_user_stays_in_the_arm_whatever_weights_and_arms_become(met) -> None:
    others = "[plain, {arm: warm, weight: 900}, other]"
    changed = GREETING.replace("[plain, warm]}", f"{others}}}").replace("arms: {plain", "arms: {other: [], plain")
    changed = changed.replace("            arms:\n", "            arms:\n              other: []\n")
    for user in map(str, range(20)):
        first, cells = await met(GREETING, user)
        assert (await met(changed, user, cells, seed=2))[0] == first


async def test_two_sessions_of_a_user_at_once_agree(met) -> None:
    for user in map(str, range(20)):
        assert (await met(GREETING, user, seed=1))[0] == (await met(GREETING, user, seed=2))[0]


async def test_what_is_drawn_by_session_follows_from_its_seed(drive: StartSession) -> None:
    text = GREETING.replace("[plain, warm]}", "[plain, warm], by: session}")
    arms = []
    for seed in range(20):
        one, again = await drive(text, seed=seed), await drive(text, seed=seed)
        assert exposures(one) == exposures(again)
        assert one.cells("global") == {}
        assert one.cells("session") == {"greeting": exposures(one)[0][1]}
        arms.append(exposures(one)[0][1])
    assert set(arms) == {"plain", "warm"}


# -- what happens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arm", "replies", "said"),
    [
        ("plain", ["yes"], ["Hello.", "Shall we go on?"]),
        (
            "warm",
            ["well", "yes"],
            ["Hello! How are you?", "Shall we go on?", "Glad you are here.", "Come again!"],
        ),
    ],
)
@pytest.mark.parametrize("saved", [False, True])
async def test_only_the_actions_of_the_arm_are_done(drive: StartSession, arm, replies, said, saved) -> None:
    session = await drive(GREETING, global_cells=in_arm(arm), saved=saved)
    await session.reply(*replies)
    assert [each.content for each in session.messages if each.role == "assistant"] == said
    assert session.state.wait.suggestion == arm
    assert session.warnings == []


async def test_the_first_exposure_is_recorded_once(drive: StartSession) -> None:
    session = await drive(GREETING, variables={"mood": "x"})
    changes = [each for each in session.happened(VariableChanged) if each.name == "greeting"]
    await session.reply("well", "yes")
    assert exposures(session) == [("greeting", "warm", "greet", "user")]
    assert [(each.scope, each.old, each.new, each.type, each.source, each.action_id) for each in changes] == [
        ("global", None, "warm", "choice", "script", "greet")
    ]


async def test_a_user_keeps_an_arm_in_the_next_session(drive: StartSession) -> None:
    session = await drive(GREETING, global_cells=in_arm("plain"))
    assert exposures(session) == [("greeting", "plain", "greet", "user")]
    assert session.happened(VariableChanged) == []


async def test_a_user_who_does_not_take_part_gets_no_arm(drive: StartSession) -> None:
    session = await drive("""
        script: few
        declare: [{var: age, type: number}]
        experiments: [{experiment: greeting, arms: [plain, warm]}]
        phases:
          - phase: p
            topics:
              - topic: t
                actions:
                  - {experiment: greeting, id: greet, when: age >= 18, arms: {plain: [{say: a}], warm: [{say: b}]}}
                  - {user_say: "{{ greeting | default('nobody') }}", id: bye}
    """, variables={"age": 12})  # fmt: skip
    assert (exposures(session), session.values, session.said) == ([], {"age": 12}, [])
    assert session.state.wait.suggestion == "nobody"


async def test_an_experiment_without_actions_only_draws(drive: StartSession) -> None:
    session = await drive("""
        script: tones
        experiments: [{experiment: tone, arms: [dry, merry]}]
        phases:
          - phase: p
            topics:
              - {topic: before, actions: [{experiment: tone, id: draw}]}
              - {topic: dry, when: tone == "dry", actions: [{user_say: "Yes.", id: yes}]}
              - {topic: merry, when: tone == "merry", actions: [{user_say: "Hooray!", id: hooray}]}
    """, variables={"tone": "merry"})  # fmt: skip
    assert session.state.wait.suggestion == "Hooray!"
    assert exposures(session) == [("tone", "merry", "draw", "user")]


async def test_an_application_can_say_which_arm_it_is(drive: StartSession) -> None:
    for arm in ("plain", "warm"):
        session = await drive(GREETING, variables={"greeting": arm})
        assert exposures(session) == [("greeting", arm, "greet", "user")]


async def test_skills_interrupts_and_detectors_use_experiments_too(drive: StartSession) -> None:
    session = await drive("""
        script: everywhere
        experiments:
          - {experiment: one, arms: [a, b], by: session}
          - {experiment: two, arms: [a, b]}
          - {experiment: three, arms: [a, b]}
        phases:
          - phase: p
            topics:
              - {topic: t, actions: [{call: s, id: calling}, {user_say: "{{ one }}", id: bye}]}
        skills:
          - {skill: s, actions: [{experiment: one, id: in_skill, arms: {a: [], b: [{ask: "b?", id: b}]}}]}
        interrupts:
          - interrupt: stop
            on: [stop]
            do: [{experiment: two, id: in_interrupt, arms: {a: [{ask: "Stop?", id: ask_stop}], b: []}}]
        detectors:
          - detector: d
            rules: [{words: [bad]}]
            do: [{experiment: three, id: in_detector, arms: {a: [{emit: {event: seen}, id: tell}], b: []}}]
    """, variables={"one": "b", "two": "a", "three": "a"})  # fmt: skip
    assert session.said == ["b?"]
    await session.reply("stop")
    assert session.said == ["Stop?"]
    await session.reply("bad")
    assert exposures(session) == [
        ("one", "b", "in_skill", "session"),
        ("two", "a", "in_interrupt", "user"),
        ("three", "a", "in_detector", "user"),
    ]
    entered = [each.action_id for each in session.happened(ActionEntered) if each.detector]
    assert entered == ["in_detector", "tell"]


# -- afterwards -------------------------------------------------------------------------------------------------------


async def test_user_who_rewinds_stays_in_the_arm_without_an_event(drive: StartSession, program_of: ReadProgram) -> None:
    text = "- {ask: Begin?, id: begin, output: [{get: begun}]}\n"
    text = GREETING.replace("          - experiment: greeting\n", f"          {text}          - experiment: greeting\n")
    text = text.replace("[plain, warm]}", "[plain, warm], by: session}")
    session = await drive(text)
    before = session.state
    await session.reply("yes")
    arm = exposures(session)[0][1]
    await session.turn(Rewind(before))
    assert session.cells("session") == {}
    other = "warm" if arm == "plain" else "plain"
    session.program = program_of(text.replace(other, f"{{arm: {other}, weight: 1000}}", 1))
    await session.reply("yes")
    assert (len(exposures(session)), session.cells("session")) == (1, {"greeting": arm})


async def test_a_session_moves_to_another_version_with_its_arm(drive: StartSession, program_of: ReadProgram) -> None:
    session = await drive(GREETING, variables={"greeting": "warm"})
    later = GREETING.replace("greeting", "welcome_style")
    later += "migrations: {variables: {greeting: welcome_style}}\n"
    planned = plan(session.program, program_of(later), session.state, NOON)
    assert (planned.verdict, planned.state.exposed) == ("mapped", {"welcome_style": "warm"})
    session.program, session.state = program_of(later), planned.state
    await session.turn(MigrationInput(planned.account, planned.restart))
    await session.reply("well", "yes")
    assert (session.said, len(exposures(session))) == (["Glad you are here.", "Come again!"], 1)


@pytest.mark.parametrize("by", ["user", "session"])
async def test_a_session_whose_arm_is_gone_gets_another_one(drive: StartSession, program_of: ReadProgram, by) -> None:
    text = GREETING.replace("[plain, warm]}", f"[plain, warm], by: {by}}}")
    session = await drive(text, variables={"greeting": "plain"})
    later = program_of(text.replace("plain:", "cool:").replace("[plain,", "[cool,"))
    planned = plan(session.program, later, session.state, NOON)
    reported = "the experiment `greeting` has no arm 'plain' any more: it draws another one"
    assert (planned.verdict, planned.why) == ("safe", (reported,) if by == "session" else ())
    session.program, session.state = later, planned.state
    await session.turn(MigrationInput(planned.account, planned.restart))
    await session.reply("yes")
    arm = session.values["greeting"]
    assert arm in {"cool", "warm"}
    assert exposures(session) == [("greeting", "plain", "greet", by), ("greeting", arm, "part", by)]


async def test_a_session_in_an_arm_that_is_gone_begins_the_topic_again(
    drive: StartSession, program_of: ReadProgram
) -> None:
    session = await drive(GREETING, variables={"greeting": "warm"})
    assert session.state.frames[-1].arm == "warm"
    later = program_of(GREETING.replace("warm:", "merry:").replace(", warm]", ", merry]"))
    planned = plan(session.program, later, session.state, NOON)
    assert (planned.verdict, planned.place) == ("restart_topic", "start/welcome")


def test_state_with_an_unknown_experiment_is_invalid(program_of: ReadProgram) -> None:
    program = program_of(GREETING)
    check(program, State(1, "en", "ana", exposed={"greeting": "plain"}))
    with pytest.raises(InvalidState, match="an experiment that the script does not have: 'other'"):
        check(program, State(1, "en", "ana", exposed={"other": "plain"}))


async def test_a_state_saved_before_there_were_experiments_is_read(drive: StartSession) -> None:
    session = await drive("- {user_say: ok}")
    assert b"exposed" not in encode(session.state)
    assert decode(encode(session.state)).exposed == {}

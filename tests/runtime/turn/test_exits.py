"""When an action that leads a conversation is done: `exit_when`, the model, the criteria, the rounds, in this order."""

import pytest

from runtime.state.events import Exited
from runtime.state.ports import ModelReply
from runtime.state.scopes import Scopes
from runtime.state.state import Cell, State
from runtime.turn.exits import decide_exit
from scripts.model.actions import CustomCondition, ExitCriteria
from tests.support.runtime_session import ReadProgram, StartSession

SURE = ExitCriteria(understanding_threshold=80, has_questions=False)


@pytest.fixture
def decide(program_of: ReadProgram):
    def decided(round_number, rounds_max, reply=None, *, criteria=None, exit_when=False, variables=None, values=None):
        state = State(seed=1, locale="en", phase="only", topic="talk")
        for name, value in (variables or {}).items():
            state.session_cells[name] = Cell(value, "text", None, "script")
        return decide_exit(
            round_number=round_number,
            rounds_max=rounds_max,
            reply=reply or ModelReply(),
            exit_when=exit_when,
            criteria=criteria,
            scopes=Scopes(program_of("- say: hi"), state),
            values=values or {},
        )

    return decided


@pytest.mark.parametrize(
    ("round_number", "reply", "criteria", "exit_when", "source"),
    [
        (1, ModelReply(), None, False, ""),
        (3, ModelReply(exit=False), None, False, "max_rounds"),
        (1, ModelReply(exit=True), None, False, "model"),
        (1, ModelReply(exit=True, understanding=10), SURE, False, "model"),
        (3, ModelReply(exit=True), None, False, "model"),
        (1, ModelReply(exit=True), None, True, "exit_when"),
        (3, ModelReply(), None, True, "exit_when"),
        (1, ModelReply(understanding=85, has_questions=False), SURE, False, "exit_criteria"),
        (1, ModelReply(understanding=80, has_questions=False), SURE, False, "exit_criteria"),
        (1, ModelReply(understanding=75, has_questions=False), SURE, False, ""),
        (1, ModelReply(understanding=85, has_questions=True), SURE, False, ""),
        (1, ModelReply(understanding=85), SURE, False, ""),
        (1, ModelReply(has_questions=False), SURE, False, ""),
        (3, ModelReply(understanding=75, has_questions=False), SURE, False, "max_rounds"),
        (3, ModelReply(understanding=85, has_questions=False), SURE, False, "exit_criteria"),
        (1, ModelReply(), ExitCriteria(has_questions=True), False, ""),
        (1, ModelReply(has_questions=True), ExitCriteria(has_questions=True), False, "exit_criteria"),
        (2, ModelReply(), ExitCriteria(min_rounds=1), False, ""),
        (1, ModelReply(understanding=90), ExitCriteria(understanding_threshold=80, min_rounds=3), False, ""),
    ],
)
def test_what_decides(decide, round_number, reply, criteria, exit_when, source) -> None:
    decision = decide(round_number, 3, reply, criteria=criteria, exit_when=exit_when)
    assert (decision.source, decision.exit) == (source, source != "")


def test_the_reason_is_said(decide) -> None:
    assert decide(1, 5, ModelReply(exit=True, exit_reason="said so")).reason == "said so"
    still = decide(1, 5, ModelReply(understanding=85, has_questions=True), criteria=SURE)
    assert still.reason == "still has questions"
    assert decide(3, 3).reason == "round 3 of 3"


@pytest.mark.parametrize(
    ("value", "operator", "wanted", "exits"),
    [
        ("平和", "==", "平和", True),
        ("焦虑", "==", "平和", False),
        ("焦虑", "!=", "平和", True),
        (None, "!=", "平和", False),
        (8, ">", 7, True),
        ("8", ">=", 8, True),
        (7, "<", 7, False),
        ("many", "<=", 7, False),
        ("very calm", "contains", "calm", True),
        (["sad", "calm"], "contains", "calm", True),
        (["sad"], "contains", "calm", False),
        (7, "contains", "7", False),
    ],
)
def test_conditions_on_variables(decide, value, operator, wanted, exits) -> None:
    criteria = ExitCriteria(custom_conditions=(CustomCondition(variable="mood", operator=operator, value=wanted),))
    variables = {} if value is None else {"mood": value}
    assert decide(1, 5, criteria=criteria, variables=variables).exit is exits
    assert decide(1, 5, criteria=criteria, values=variables).exit is exits


LEAD = """
- ai_ask: How are you?
  id: lead
  output: [{get: mood}, {get: energy, type: number}]
  max_rounds: 4
  %s
- say: "{{ mood }}"
"""


async def test_the_action_itself_may_say_when_it_is_done(drive: StartSession) -> None:
    session = await drive(
        LEAD % "exit_when: energy > 5",
        replies={"lead": ["How are you?", {"text": "And?", "values": {"mood": "low"}}, {"values": {"energy": 6}}]},
    )
    await session.reply("so so")
    assert session.said == ["And?"]
    await session.reply("quite fit")
    assert [exited.source for exited in session.happened(Exited)] == ["exit_when"]
    assert session.said == ["low"]


async def test_criteria_see_what_the_action_has_taken_so_far(drive: StartSession) -> None:
    session = await drive(
        LEAD % "exit_criteria: {min_rounds: 2, custom_conditions: [{variable: mood, operator: ==, value: calm}]}",
        replies={"lead": ["How are you?", *[{"text": "Go on.", "values": {"mood": "calm"}}] * 2]},
    )
    await session.reply("calm")
    assert session.said == ["Go on."]
    await session.reply("calm")
    assert [exited.source for exited in session.happened(Exited)] == ["exit_criteria"]


@pytest.mark.parametrize("word", [True, "true", "True", "yes", 1, "1", "是"])
async def test_a_model_may_say_exit_in_many_ways(drive: StartSession, word) -> None:
    session = await drive(
        LEAD % "exit: the mood is known",
        replies={"lead": ["How are you?", {"exit": word, "exit_reason": "known", "values": {"mood": "low"}}]},
    )
    await session.reply("low")
    assert session.happened(Exited) == [Exited("lead", "model", "known")]
    assert session.state.status == "completed"


async def test_the_last_round_ends_it_whatever_the_model_says(drive: StartSession) -> None:
    session = await drive(LEAD % "", replies={"lead": ["How are you?", *[{"text": "More?", "exit": False}] * 4]})
    await session.reply("a", "b", "c")
    assert (session.said, session.state.progress.round) == (["More?"], 3)
    await session.reply("d")
    assert session.happened(Exited) == [Exited("lead", "max_rounds", "round 4 of 4")]

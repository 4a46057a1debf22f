"""When an action that leads a conversation is done: conditions, the model, criteria, the rounds, in this order."""

import pytest

from runtime.state.events import Exited
from runtime.state.ports import ModelReply
from runtime.turn.exits import decide_exit
from scripts.model.actions import Exit
from scripts.model.base import Expression, Template
from tests.support.runtime_session import StartSession

SURE = Exit(understanding=80, no_questions=True)
WORDS = Exit(said=Template("they agree"))
TRUE, FALSE = Exit(when=Expression("true")), Exit(when=Expression("false"))


def decide(round_number, rounds_max, reply=None, *exits):
    return decide_exit(
        round_number=round_number,
        rounds_max=rounds_max,
        reply=reply or ModelReply(),
        exits=exits,
        holds=lambda condition: condition.source == "true",
    )


@pytest.mark.parametrize(
    ("round_number", "reply", "exits", "source"),
    [
        (1, ModelReply(), [], ""),
        (3, ModelReply(exit=False), [], "max_rounds"),
        (1, ModelReply(exit=True), [], "model"),
        (1, ModelReply(progress="completed"), [], "model"),
        (1, ModelReply(exit=True, understanding=10), [SURE], "model"),
        (3, ModelReply(exit=True), [], "model"),
        (1, ModelReply(exit=True), [TRUE], "exit_when"),
        (1, ModelReply(exit=True), [WORDS, TRUE], "exit_when"),
        (1, ModelReply(exit=True), [FALSE], "model"),
        (3, ModelReply(), [TRUE], "exit_when"),
        (1, ModelReply(exit=True), [WORDS], "model"),
        (1, ModelReply(exit=False), [WORDS], ""),
        (1, ModelReply(understanding=85, has_questions=False), [SURE], "exit_criteria"),
        (1, ModelReply(understanding=80, has_questions=False), [SURE], "exit_criteria"),
        (1, ModelReply(understanding=75, has_questions=False), [SURE], ""),
        (1, ModelReply(understanding=85, has_questions=True), [SURE], ""),
        (1, ModelReply(understanding=85), [SURE], ""),
        (1, ModelReply(has_questions=False), [SURE], ""),
        (3, ModelReply(understanding=75, has_questions=False), [SURE], "max_rounds"),
        (3, ModelReply(understanding=85, has_questions=False), [SURE], "exit_criteria"),
        (1, ModelReply(), [Exit(no_questions=False)], ""),
        (1, ModelReply(has_questions=True), [Exit(no_questions=False)], "exit_criteria"),
        (1, ModelReply(understanding=90), [Exit(understanding=80, min_rounds=3)], ""),
        (1, ModelReply(exit=True), [Exit(understanding=80, min_rounds=2)], ""),
        (2, ModelReply(exit=True), [Exit(understanding=80, min_rounds=2)], "model"),
        (1, ModelReply(exit=True), [FALSE, Exit(understanding=80, min_rounds=2)], ""),
        (1, ModelReply(exit=True), [SURE, Exit(understanding=80, min_rounds=2)], "model"),
    ],
)
def test_what_decides(round_number, reply, exits, source) -> None:
    decision = decide(round_number, 3, reply, *exits)
    assert (decision.source, decision.exit) == (source, source != "")


@pytest.mark.parametrize(
    ("round_number", "said", "condition", "source"),
    [
        (1, True, "true", ""),
        (2, True, "true", "exit_criteria"),
        (2, True, "false", ""),
        (2, False, "true", ""),
    ],
)
def test_all_criteria_of_one_exit_must_be_met(round_number, said, condition, source) -> None:
    exit = Exit(said=Template("they agree"), when=Expression(condition), min_rounds=2)
    assert decide(round_number, 3, ModelReply(exit=said), exit).source == source


def test_one_of_several_exits_is_enough() -> None:
    exits = (Exit(said=Template("they agree"), min_rounds=2), SURE)
    assert decide(1, 3, ModelReply(exit=True), *exits).source == ""
    assert decide(1, 3, ModelReply(understanding=90, has_questions=False), *exits).source == "exit_criteria"


def test_the_reason_is_said() -> None:
    assert decide(1, 5, ModelReply(exit=True, exit_reason="said so")).reason == "said so"
    assert decide(1, 5, ModelReply(understanding=85, has_questions=True), SURE).reason == "still has questions"
    assert decide(3, 3).reason == "round 3 of 3"


LEAD = """
- ai_ask: How are you?
  id: lead
  output: [{get: mood}, {get: energy, type: number}]
  max_rounds: 4
  %s
- say: "{{ mood }}"
"""


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
async def test_older_comparisons_of_variables(drive: StartSession, value, operator, wanted, exits) -> None:
    condition = f"{{variable: known, operator: '{operator}', value: {wanted!r}}}"
    session = await drive(
        LEAD % f"exit_criteria: {{custom_conditions: [{condition}]}}",
        variables={} if value is None else {"known": value},
        replies={"lead": ["How are you?", {"text": "And?", "values": {"mood": "low"}}]},
    )
    await session.reply("so so")
    assert bool(session.happened(Exited)) is exits


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


async def test_each_of_several_exits_has_its_own_criteria(drive: StartSession) -> None:
    script = """
    actions:
      - ai_ask: How are you?
        id: lead
        into: [mood, {var: energy, type: number}]
        rounds: 4
        exit: [{when: energy > 5}, {said: the mood is known, min_rounds: 2}]
    """
    done = {"text": "Go on.", "exit": True, "values": {"mood": "low"}}
    session = await drive(script, replies={"lead": ["How are you?", done, done]})
    await session.reply("low")
    assert session.said == ["Go on."]
    assert session.turns[-1].model_calls[0].request.exit == "the mood is known"
    await session.reply("low")
    assert [exited.source for exited in session.happened(Exited)] == ["exit_criteria"]
    fit = await drive(script, replies={"lead": ["How are you?", {"values": {"energy": 6}}]})
    await fit.reply("fit")
    assert [exited.source for exited in fit.happened(Exited)] == ["exit_when"]

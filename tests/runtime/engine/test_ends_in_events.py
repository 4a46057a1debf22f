"""What the events of a turn say about the end of actions, skills, interrupts and the conversation."""

from runtime.state.events import ActionLeft, Ended

SCRIPT = """
script: talk
interrupts:
- {interrupt: leave, on: [another subject], then: leave_topic, do: [{say: As you like., id: agree}]}
- {interrupt: away, on: [something else], do: [{goto: p/third, id: jump}]}
- interrupt: twice
  on: [really]
  do: [{if: "true", id: check, then: [{ask: Sure?, id: sure}, {say: Good., id: good}]}]
phases:
- phase: p
  topics:
  - topic: first
    actions:
    - if: "true"
      id: always
      then:
      - {ask: How old are you?, id: age, max_rounds: 5, output: [{get: age, type: number}]}
  - topic: second
    actions:
    - {call: helper, id: help}
  - topic: third
    actions:
    - {end: enough, id: finish}
skills:
- skill: helper
  actions:
  - {if: "true", id: within, then: [{ask: What helps?, id: helps}, {say: I see., id: seen}]}
"""


def left(session):
    return [(each.action_id, each.rounds, each.skill, each.interrupt) for each in session.happened(ActionLeft)]


async def test_action_ended_by_an_interrupt_has_its_rounds(drive):
    session = await drive(SCRIPT)
    await session.reply("no idea", "still none", "another subject")
    assert left(session) == [("agree", 0, "", "leave"), ("age", 2, "", ""), ("always", 0, "", "")]


async def test_a_question_left_by_an_interrupt_records_its_rounds(drive):
    session = await drive(SCRIPT)
    await session.reply("no idea", "still none", "something else")
    assert left(session) == [
        ("jump", 0, "", "away"),
        ("age", 2, "", ""),
        ("always", 0, "", ""),
        ("finish", 0, "", ""),
    ]


async def test_block_in_a_skill_or_interrupt_ends_as_part_of_it(drive):
    session = await drive(SCRIPT)
    await session.reply("really", "yes")
    assert left(session) == [("sure", 1, "", "twice"), ("good", 0, "", "twice"), ("check", 0, "", "twice")]
    await session.reply("28", "another subject")
    assert left(session) == [
        ("agree", 0, "", "leave"),
        ("helps", 0, "helper", ""),
        ("within", 0, "helper", ""),
        ("help", 0, "", ""),
        ("finish", 0, "", ""),
    ]


async def test_end_of_the_conversation_names_the_action_that_ended_it(drive):
    session = await drive(SCRIPT)
    await session.reply("28", "a walk")
    assert session.happened(Ended) == [Ended("enough", "end_action", "finish")]

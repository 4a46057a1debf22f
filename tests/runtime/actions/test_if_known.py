"""`if_known`: a question whose variables have values is skipped, or asks whether they are still right."""

import pytest

from runtime.state.events import ActionEntered
from tests.support.runtime_session import StartSession

SKIP = """
actions:
  - {ask: Your name?, into: name, if_known: skip, id: name}
  - say: Hello {{ name }}.
"""
CONFIRM = """
actions:
  - ask: How old are you?
    into: {var: age, type: number}
    if_known: {confirm: "Are you still {{ age }}?"}
    id: age
  - say: "{{ age }}"
"""


async def test_a_known_value_is_not_asked_again(drive: StartSession) -> None:
    session = await drive(SKIP, variables={"name": "Ana"})
    assert session.said == ["Hello Ana."]
    assert session.state.status == "completed"


@pytest.mark.parametrize("declared", ["{var: name}", "{var: name, value: friend}"])
async def test_an_unknown_or_default_value_is_asked(drive: StartSession, declared: str) -> None:
    script = f"cuebook: 1\nscript: test\ndeclare: [{declared}]{SKIP}"
    session = await drive(script)
    assert session.said == ["Your name?"]
    await session.reply("Ben")
    assert session.said == ["Hello Ben."]


async def test_all_variables_of_the_question_must_be_known(drive: StartSession) -> None:
    script = "actions: [{ask: Names?, into: [{var: first}, {var: last}], if_known: skip}]"
    assert (await drive(script, variables={"first": "Ana"})).said == ["Names?"]
    assert (await drive(script, variables={"first": "Ana", "last": "Li"})).said == []


@pytest.mark.parametrize("reply", ["yes", "Yes, I am", "1"])
async def test_what_is_confirmed_stays(drive: StartSession, reply: str) -> None:
    session = await drive(CONFIRM, variables={"age": 30})
    assert session.said == ["Are you still 30?"]
    assert [choice.text for choice in session.state.wait.choices] == ["Yes", "No"]
    await session.reply(reply)
    assert session.said == ["30"]


async def test_what_is_not_confirmed_is_asked(drive: StartSession) -> None:
    session = await drive(CONFIRM, variables={"age": 30}, saved=True)
    await session.choose("no")
    assert session.said == ["How old are you?"]
    await session.reply("31")
    assert session.said == ["31"]


async def test_a_blank_reply_repeats_the_confirmation(drive: StartSession) -> None:
    session = await drive(CONFIRM, variables={"age": 30})
    await session.reply(" ")
    assert session.said == ["Are you still 30?"]


JUMP = """
cuebook: 1
script: test
declare: [{var: name}, {var: city}]
phases:
  - phase: main
    topics:
      - topic: who
        actions:
          - {ask: Your name?, into: name, if_known: skip, id: name}
          - {ask: Your city?, into: city, if_known: skip, id: city}
      - topic: check
        actions:
          - {choose: Is it right?, into: right, choices: ["yes", "no"]}
          - {goto: who, when: right == "no"}
"""


async def test_a_jump_back_to_a_question_asks_it_again(drive: StartSession) -> None:
    session = await drive(JUMP, variables={"city": "Rome"})
    assert session.said == ["Your name?"]
    await session.reply("Ana")
    assert session.said == ["Is it right?"]
    await session.choose("no")
    assert session.said == ["Your name?"]
    await session.reply("Anna")
    entered = [each.action_id for each in session.happened(ActionEntered)]
    assert (session.said, entered[0]) == (["Is it right?"], "city")


async def test_a_loop_after_a_jump_asks_again_only_once(drive: StartSession) -> None:
    session = await drive(
        """
        cuebook: 1
        script: order
        declare: [{var: name}, {var: dish}, {var: more}]
        phases:
          - phase: main
            topics:
              - topic: order
                actions:
                  - repeat: {until: false, max: 2}
                    do:
                      - {ask: Your name?, into: name, if_known: skip}
                      - {ask: Which dish?, into: dish}
              - topic: check
                actions: [{ask: Anything else?, into: more}, {goto: order, when: more == "yes"}]
        """
    )
    await session.reply("Ana", "soup", "bread", "yes")
    assert session.said == ["Your name?"]
    await session.reply("Bo", "rice")
    assert session.said == ["Which dish?"]

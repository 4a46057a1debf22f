"""A person takes a session over, talks in place of the script, and gives it back."""

import pytest

from runtime.state.events import Intervened, Waiting
from runtime.state.inputs import (
    ChoiceInput,
    End,
    FormInput,
    GiveBack,
    InputRefused,
    NotNow,
    Pause,
    Rewind,
    Speak,
    TakeOver,
    TimerDue,
)
from tests.support.runtime_session import NOON, StartSession

TALK = """
cuebook: 1
script: talk
timezone: UTC
repairs: [hand_over]
actions:
  - {ask: Your name?, into: name}
  - choose: Tea or coffee?
    choices: [tea, coffee]
    into: drink
    id: drink
    remind: [{after: 1 hour, say: Tea?}]
  - {emit: hand_over, id: call}
  - {ask: Anything else?, into: more, id: more}
"""


async def test_a_script_asks_for_a_person(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.reply("Ana", "tea")
    assert session.state.hand_over is not None
    assert (session.state.hand_over.action_id, session.state.hand_over.since) == ("call", NOON)
    assert session.said == ["Anything else?"]
    await session.reply("no")
    assert session.state.status == "completed"
    await session.turn(GiveBack())
    assert session.state.hand_over is None


@pytest.mark.parametrize(
    "words", ["I want to talk to a human.", "I want to talk to a person", "Can I speak to a human?"]
)
async def test_a_user_asks_for_a_person(drive: StartSession, words: str) -> None:
    session = await drive(TALK)
    await session.reply(words)
    assert session.state.hand_over is not None
    assert session.state.operator == ""


async def test_while_a_person_talks_the_script_waits(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.reply("Ana")
    before = session.state
    await session.turn(TakeOver("Kim"))
    await session.turn(Speak("Kim", "Hello Ana."))
    assert session.said == ["Hello Ana."]
    assert session.turns[-1].messages[0].metadata == {"operator": "Kim"}
    await session.reply("tea", "I want to talk to a human.")
    await session.turn(ChoiceInput("coffee"))
    assert session.said == []
    assert [message.content for message in session.messages if message.role == "user"][-1] == "coffee"
    assert (session.state.wait, session.state.frames, session.values) == (before.wait, before.frames, {"name": "Ana"})
    await session.turn(GiveBack())
    assert session.said == ["Tea or coffee?"]
    assert session.happened(Waiting) == [Waiting("drink", before.wait)]
    await session.reply("tea")
    assert session.values["drink"] == "tea"


async def test_a_person_takes_texts_and_answers_to_the_open_question(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.reply("Ana")
    await session.turn(TakeOver("Kim"))
    for sent, what in ((ChoiceInput("milk"), "choice"), (FormInput({"name": "Ana"}), "form")):
        with pytest.raises(InputRefused) as refused:
            await session.turn(sent)
        assert str(refused.value) == f"the session waits for text, not for a {what}"
        assert refused.value.field == what


async def test_timers_rest_while_a_person_talks(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.reply("Ana")
    await session.turn(TakeOver("Kim"))
    assert session.timers == []
    with pytest.raises(InputRefused):
        await session.turn(TimerDue())
    await session.pass_time(hours=3)
    await session.turn(GiveBack())
    assert session.timers == [("remind", "2026-03-04 16:00")]


async def test_the_question_that_is_put_again_is_that_of_its_action(drive: StartSession) -> None:
    session = await drive("""
        cuebook: 1
        script: talk
        roles: [{role: guide, name: Ms Meng}, {role: nurse, name: Mr Li}]
        actions:
          - {scene: {ai: guide}}
          - {ask: Your name?, into: name, id: name, role: nurse}
    """)
    await session.turn(TakeOver("Kim"))
    await session.turn(GiveBack())
    question = session.turns[-1].messages[0]
    assert (question.content, question.action_id) == ("Your name?", "name")
    assert question.metadata == session.turns[0].messages[0].metadata


async def test_one_person_at_a_time(drive: StartSession) -> None:
    session = await drive(TALK)
    with pytest.raises(NotNow, match="nobody has taken the session over"):
        await session.turn(Speak("Kim", "Hello."))
    await session.turn(TakeOver("Kim"))
    for refused in (TakeOver("Lee"), TakeOver("Kim"), Speak("Lee", "Hello.")):
        with pytest.raises(NotNow, match="Kim has taken the session over"):
            await session.turn(refused)
    with pytest.raises(InputRefused, match="Unicode"):
        await session.turn(Speak("Kim", "\ud800"))
    await session.turn(GiveBack())
    await session.turn(TakeOver("Lee"))
    assert session.turns[-1].events[0].body == Intervened("take_over", operator="Lee")


async def test_a_session_that_is_paused_or_has_ended_is_not_taken_over(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.turn(Pause())
    with pytest.raises(NotNow, match="paused"):
        await session.turn(TakeOver("Kim"))
    await session.turn(End("enough"))
    with pytest.raises(NotNow, match="the conversation has ended"):
        await session.turn(TakeOver("Kim"))


async def test_a_rewind_leaves_the_session_with_the_person(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.reply("Ana")
    first = session.turns[0].state
    await session.turn(TakeOver("Kim"))
    await session.turn(Rewind(first))
    assert session.state.operator == "Kim"
    await session.turn(GiveBack())
    assert session.said == ["Your name?"]


async def test_a_person_may_end_the_conversation(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.turn(TakeOver("Kim"))
    await session.turn(End("solved"))
    assert (session.state.status, session.state.hand_over) == ("completed", None)

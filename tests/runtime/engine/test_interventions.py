"""What an application does to a session besides talking to it: each is a turn, and the script does not go on by it."""

import pytest

from runtime.state.events import Intervened
from runtime.state.inputs import (
    Append,
    Clear,
    End,
    InputRefused,
    NotNow,
    OutsideMessage,
    Pause,
    Reply,
    Resume,
    Rewind,
    SetVariables,
)
from runtime.state.state import decode, encode
from tests.support.runtime_session import NewSession, StartSession

TALK = """
script: talk
declare: [{var: age, type: number}]
phases:
  - phase: first
    declare: [{var: mood}]
    topics:
      - topic: hello
        actions:
          - ask: Your name?
            id: name
            output: [{get: name}]
          - ask: Your mood?
            id: mood
            output: [{get: mood}]
  - phase: second
    topics:
      - topic: bye
        actions:
          - ask: "Anything else?"
            id: more
            output: [{get: more}]
"""


def intervention(session) -> Intervened:
    body = session.turns[-1].events[0].body
    assert isinstance(body, Intervened)
    return body


async def test_paused_session_takes_no_reply_and_continues_later(drive: StartSession) -> None:
    session = await drive(TALK)
    wait = session.state.wait
    await session.turn(Pause())
    assert (session.state.status, session.state.execution_status) == ("paused", "paused")
    with pytest.raises(InputRefused):
        await session.reply("Ana")
    with pytest.raises(NotNow):
        await session.turn(Pause())
    await session.turn(Resume())
    assert session.state.wait == wait
    await session.reply("Ana")
    assert session.said == ["Your mood?"]
    with pytest.raises(NotNow):
        await session.turn(Resume())


async def test_an_ended_session_is_completed_for_the_reason_given(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.turn(End("the user left"))
    assert (session.state.status, session.state.end_reason, session.state.wait) == ("completed", "the user left", None)
    assert session.state.frames == []
    for later in (End(""), Pause(), SetVariables({"age": 3}), Append((OutsideMessage("user", "hi"),))):
        with pytest.raises(NotNow):
            await session.turn(later)


async def test_a_paused_session_can_be_ended(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.turn(Pause())
    await session.turn(End("over"))
    assert session.state.status == "completed"


async def test_variables_are_set_where_declared_else_in_the_session(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.turn(SetVariables({"age": "41", "mood": "calm", "note": [1, 2]}))
    written = {change.name: (change.scope, change.new, change.source) for change in session.turns[-1].changes}
    assert written == {
        "age": ("session", 41, "api"),
        "mood": ("phase", "calm", "api"),
        "note": ("session", [1, 2], "api"),
    }
    await session.turn(SetVariables({"note": None}, "topic"))
    assert session.turns[-1].changes[0].scope == "topic"


async def test_undeclared_variable_of_a_topic_is_set_there(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.reply("Ana")
    await session.turn(SetVariables({"name": "Bo"}))
    assert [(change.scope, change.new) for change in session.turns[-1].changes] == [("topic", "Bo")]


async def test_a_value_that_does_not_fit_changes_nothing(drive: StartSession) -> None:
    session = await drive(TALK)
    with pytest.raises(InputRefused, match="age"):
        await session.turn(SetVariables({"mood": "calm", "age": "many"}))
    assert session.state.phase_cells.keys() & {"mood"} == set() or session.state.phase_cells["mood"].value is None


async def test_rewind_continues_from_a_turn_without_later_messages(drive: StartSession) -> None:
    session = await drive(TALK)
    first = session.state
    await session.reply("Ana")
    earlier = decode(encode(session.state))
    await session.reply("fine", "no")
    assert session.state.status == "completed"
    await session.turn(Rewind(earlier))
    state = session.state
    assert (state.phase, state.topic, state.wait) == ("first", "hello", earlier.wait)
    assert state.gaps == ((earlier.message_seq + 1, state.message_seq),)
    assert (state.turn, state.event_seq) == (4, session.turns[-1].events[-1].seq)
    assert intervention(session) == Intervened("rewind", turn=1, first=4, last=6)
    await session.reply("sad")
    assert session.said == ["Anything else?"]
    await session.turn(Rewind(first))
    assert session.state.gaps == ((2, session.state.message_seq),)  # it holds what was taken out before


async def test_rewinding_tells_the_writes_that_lead_back(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.reply("Ana")
    earlier = session.state
    await session.turn(SetVariables({"age": 41}))
    await session.turn(Rewind(earlier))
    assert [(each.name, each.old, each.new, each.source) for each in session.turns[-1].changes] == [
        ("age", 41, None, "api")
    ]


async def test_clearing_removes_messages_but_not_the_position(drive: StartSession) -> None:
    session = await drive(TALK)
    await session.reply("Ana")
    place, wait = session.state.home(), session.state.wait
    await session.turn(Clear())
    assert (session.state.home(), session.state.wait) == (place, wait)
    assert session.state.gaps == ((1, 3),)
    assert intervention(session) == Intervened("clear", first=1, last=3)


async def test_appended_messages_have_roles_and_are_no_replies(
    drive: StartSession,
) -> None:
    session = await drive(TALK)
    call = {"toolCalls": [{"id": "c1", "name": "look_up", "arguments": {"city": "Rome"}}]}
    await session.turn(
        Append(
            (
                OutsideMessage("system", "You are kind."),
                OutsideMessage("user", "What time is it in Rome?"),
                OutsideMessage("assistant", "", call),
                OutsideMessage("tool", "noon", {"toolCallId": "c1"}),
            )
        )
    )
    messages = session.turns[-1].messages
    assert [(each.number, each.role, each.content) for each in messages] == [
        (2, "system", "You are kind."),
        (3, "user", "What time is it in Rome?"),
        (4, "assistant", ""),
        (5, "tool", "noon"),
    ]
    assert messages[2].metadata == call
    assert session.state.wait is not None
    await session.reply("Ana")
    assert session.said == ["Your mood?"]


async def test_text_that_is_no_unicode_is_not_added(drive: StartSession) -> None:
    session = await drive(TALK)
    with pytest.raises(InputRefused):
        await session.turn(Append((OutsideMessage("user", "\ud800"),)))


async def test_a_session_that_has_not_begun_takes_none(prepare: NewSession) -> None:
    session = prepare(TALK)
    with pytest.raises(NotNow):
        await session.turn(Pause())


async def test_the_user_may_open_a_free_conversation(drive: StartSession) -> None:
    session = await drive("""
script: talk
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {chat: Talk., id: talk, opens: user}
""")
    assert session.said == []
    assert session.state.wait is not None
    await session.turn(Reply(""))
    assert session.said == []
    await session.reply("I am tired")
    assert session.said


CALLING = """
cuebook: 1
script: calling
phases:
  - phase: p
    declare: [{var: mood, value: ok}]
    topics:
      - topic: t
        declare: [{var: tries, type: number, value: 1}]
        actions:
          - {call: helper, id: help}
          - {ask: "{{ mood }}, {{ tries }}?", into: more, id: more}
skills: [{skill: helper, params: [{var: how, value: so}], actions: [{ask: "{{ how }}?", into: it, id: q}]}]
"""


async def test_variables_are_set_where_declared_also_during_a_skill(drive: StartSession) -> None:
    session = await drive(CALLING, saved=True)
    await session.turn(SetVariables({"mood": "low", "tries": "2", "how": "well", "new": 3}))
    assert session.values["how"] == "well"
    await session.reply("x")
    assert session.said == ["low, 2?"]
    assert session.cells("session") == {"new": 3}


async def test_clear_removes_replies_to_a_suspended_question(drive: StartSession) -> None:
    session = await drive("""
cuebook: 1
script: cleared
interrupts: [{interrupt: why, on: [private], do: [{ask: Why?, into: why, id: why}]}]
actions: [{ask: Your age?, into: {var: age, type: number}, id: age}]
""")
    await session.reply("my secret", "private")
    await session.turn(Clear())
    assert "secret" not in encode(session.state).decode()

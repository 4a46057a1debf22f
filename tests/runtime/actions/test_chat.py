"""`chat`: free conversation until the model, a condition or its rounds end it."""

import pytest
from msgspec import UNSET, structs

from runtime.state.events import Exited
from runtime.state.ports import digest_of
from tests.support.runtime_session import StartSession

CHAT = """
- {chat: Tell me about your day., id: day, max_rounds: 3, exit: the user is done}
- user_say: go on
"""


async def test_without_a_model_it_listens_and_lets_the_user_go(drive: StartSession) -> None:
    session = await drive(CHAT)
    assert session.said == ["Tell me about your day."]
    await session.reply("it rained")
    assert session.said == ["Thank you for telling me. Is there anything else?"]
    await session.reply("That's all, goodbye.")
    assert session.happened(Exited) == [Exited("day", "model", "the user took leave")]
    assert session.state.frames[-1].action == "user_say_1"


async def test_its_rounds_end_it_with_a_last_word(drive: StartSession) -> None:
    session = await drive(CHAT)
    await session.reply("one", "two", "three")
    assert session.said == ["Thank you for telling me."]
    assert session.happened(Exited)[0].source == "max_rounds"


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("locale: zh", "谢谢您告诉我。"),
        ("locale: fr", "Merci de me l’avoir dit."),
        ("locale: en", "Thank you for telling me."),
    ],
)
async def test_a_condition_ends_it_without_a_question(drive: StartSession, head: str, said: str) -> None:
    session = await drive(f"""
cuebook: 1
script: t
{head}
actions:
- {{chat: Talk., id: day, exit: {{when: round >= 2}}}}
- {{say: End., acknowledge: true}}
""")
    await session.reply("one", "two")
    assert session.said == [said, "End."]
    request = session.turns[-1].model_calls[0].request
    assert digest_of(request) == digest_of(structs.replace(request, is_last=UNSET))


async def test_the_model_leads_and_ends_it(drive: StartSession) -> None:
    session = await drive(CHAT, replies={"day": ["Hello!", "Go on.", {"text": "Good night.", "exit": True}]})
    await session.reply("it rained", "good night")
    assert session.said == ["Good night."]
    request = session.turns[-1].model_calls[0].request
    assert (request.purpose, request.round, request.reply, request.exit) == (
        "chat",
        2,
        "good night",
        "the user is done",
    )


async def test_a_blank_reply_costs_no_round(drive: StartSession) -> None:
    session = await drive(CHAT)
    await session.reply(" ", "\u200b")
    assert session.said == ["Tell me about your day."]
    assert session.state.progress.round == 0


@pytest.mark.parametrize(("rounds", "ended"), [("1", False), ("2", True)])
async def test_a_condition_ends_it(drive: StartSession, rounds, ended) -> None:
    session = await drive(f"- {{chat: Talk., id: c, exit_when: 'round >= {rounds}'}}\n- user_say: go on\n")
    await session.reply("a")
    assert (session.state.frames[-1].action == "c") is ended

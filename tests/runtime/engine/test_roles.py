"""Scenes and roles: who speaks with whom, with which tone."""

from runtime.state.events import Message
from tests.support.runtime_session import NewSession, StartSession

PLAY = """
script: play
roles:
- {role: spirit, name: Mimi, tone: playful, pic: pet.png, desc: a cat}
- {role: guide, name: Ms Meng}
- {role: guest, type: HUMAN, name: You}
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {say: Nobody in particular., id: none}
    - {scene: {ai: spirit, human: guest}, id: opening}
    - {ai_say: "Hello from {{ role }}.", id: hello, max_rounds: 1}
    - {say: One line of mine., id: line, role: guide}
    - {scene: {ai: guide}, id: change}
    - {ai_ask: And you?, id: ask, tone: dry, output: [{get: it}]}
"""


def speakers(session):
    return [message.metadata.get("speaker") for message in session.happened(Message)]


async def test_a_scene_selects_the_speakers_from_there_on(drive: StartSession) -> None:
    session = await drive(PLAY)
    assert session.said == ["Nobody in particular.", "Hello from spirit."]
    assert speakers(session) == [None, {"role": "spirit", "name": "Mimi", "pic": "pet.png"}]
    await session.reply("hi")
    guest, guide = {"role": "guest", "name": "You"}, {"role": "guide", "name": "Ms Meng"}
    assert speakers(session) == [guest, guide, guide]


async def test_the_prompt_says_who_the_model_is(drive: StartSession) -> None:
    session = await drive(PLAY)
    request = session.turns[-1].model_calls[0].request
    assert (request.role, request.tone, request.speaker.desc, request.listener.name) == (
        "spirit",
        "playful",
        "a cat",
        "You",
    )
    await session.reply("hi")
    assert session.turns[-1].model_calls[0].request.tone == "dry"


async def test_the_speaker_survives_a_restart(prepare: NewSession) -> None:
    session = await prepare(PLAY, saved=True).start()
    await session.reply("hi", "")
    assert (session.state.ai_role, session.state.human_role) == ("guide", "guest")

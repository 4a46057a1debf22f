"""Variables declared `auto`: updated from what the user says, whatever the question is."""

from tests.support.runtime_session import StartSession

SCRIPT = """
script: talk
declare:
- {var: mood, auto: true, define: how they feel, choices: [low, fine]}
- {var: sleep_hours, auto: true, type: number}
- {var: hobby}
phases: [{phase: p, topics: [{topic: t, actions: [
  {ask: What do you like?, id: like, output: [{get: hobby}]},
  {ask: How do you feel?, id: feel, output: [{get: mood}]},
  {user_say: ok, id: ok}]}]}]
"""


async def test_what_a_message_names_is_taken_whatever_was_asked(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("Music. mood: low, sleep hours: 5")
    assert (session.values["mood"], session.values["sleep_hours"]) == ("low", 5)
    assert session.state.frames[-1].action == "feel"


async def test_one_call_of_the_model_takes_the_rest(drive: StartSession) -> None:
    session = await drive(SCRIPT, replies={"like.extract": [{"values": {"mood": "low", "sleep_hours": "five"}}]})
    await session.reply("music, when I feel down, which is every night after five hours")
    assert session.values == {"hobby": session.values["hobby"], "mood": "low"}  # "five" is no number to a model's type
    assert [output.get for output in session.turns[-1].model_calls[0].request.outputs] == ["mood", "sleep_hours"]


async def test_what_is_being_asked_is_left_to_the_question(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("music", "nothing in particular")
    assert session.values["hobby"] == "music"
    assert "mood" not in session.values


async def test_a_model_that_fails_costs_a_warning_only(drive: StartSession) -> None:
    session = await drive(SCRIPT, replies={"like.extract": [{"fail": "overloaded"}, {}]})
    await session.reply("music")
    assert ("auto_failed", "overloaded") in session.warnings
    assert session.values["hobby"] == "music"


async def test_a_choice_is_left_to_its_question(drive: StartSession) -> None:
    choose = SCRIPT.replace(
        "ask: How do you feel?, id: feel, output: [{get: mood}]",
        "choose: mood, id: feel, question: How do you feel?, choices: [low, fine]",
    )
    found = [{"values": {"mood": "low"}}]
    session = await drive(choose, replies={"like.extract": found, "feel.extract": [{"values": {"mood": "fine"}}]})
    await session.reply("music")
    await session.reply("hard to say")
    assert session.said == ["Sorry, please choose one of these: low, fine."]
    assert session.values["mood"] == "low"

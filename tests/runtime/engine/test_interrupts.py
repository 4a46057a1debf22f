"""What the user may bring up at any time: it is dealt with, and the conversation goes on where it was."""

import pytest

from runtime.engine.engine import TurnFailed
from runtime.state.events import ActionEntered, ActionLeft, Interrupted, Waiting
from runtime.state.inputs import FormInput
from tests.support.runtime_session import NewSession, StartSession

SCRIPT = """
script: talk
declare: [{var: asked_price, type: number, value: 0}, {var: name}]
interrupts:
- interrupt: price
  on: [price, cost, 多少钱]
  do:
  - {set: {asked_price: asked_price + 1}, id: count}
  - {say: "It is free, {{ name or 'friend' }}.", id: tell}
- interrupt: about
  on: [who are you]
  do:
  - {ask: Do you want to know more?, id: more, output: [{get: wants, type: boolean}]}
  - {say: I am a script., id: tell, when: wants}
- {interrupt: restart, on: [start over], then: restart_topic, do: [{say: From the top., id: top}]}
- {interrupt: leave, on: [another subject], then: leave_topic}
- {interrupt: away, on: [go to the end], then: goto p/closing}
- {interrupt: stop, on: [goodbye], then: end}
- {interrupt: pass, on: [no comment], then: skip}
- {interrupt: never, on: [zebra], when: "false", do: [{say: A zebra!, id: zebra}]}
phases:
- phase: p
  topics:
  - topic: first
    actions:
    - {ask: What is your name?, id: ask_name, output: [{get: name}]}
    - if: "true"
      id: always
      then:
      - {ask: "How old are you, {{ name }}?", id: ask_age, max_rounds: 2, output: [{get: age, type: number}]}
      - {say: "You are {{ age }}.", id: told}
  - topic: second
    actions:
    - {choose: colour, id: ask_colour, question: Which colour?, choices: [red, price]}
    - {call: helper, id: help}
  - topic: closing
    actions: [{user_say: thanks, id: thanks}]
skills:
- skill: helper
  actions: [{ask: What helps?, id: ask_help, output: [{get: it}]}]
"""


@pytest.mark.parametrize("saved", [False, True])
async def test_it_is_answered_and_the_question_stays_open(prepare: NewSession, saved) -> None:
    session = await prepare(SCRIPT, saved=saved).start()
    await session.reply("What does it cost?")
    assert session.said == ["It is free, friend.", "What is your name?"]
    assert session.happened(Interrupted) == [Interrupted("price", "ask_name")]
    assert session.values["asked_price"] == 1
    await session.reply("Ana", "a price?")
    assert session.said == ["It is free, Ana.", "How old are you, Ana?"]
    await session.reply("28")
    assert session.said[0] == "You are 28."


async def test_it_costs_the_question_no_round(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("Ana", "old", "price?")
    assert session.said[-1] == "How old are you, Ana?"  # the question, not what was said of the last answer
    await session.reply("older")
    assert ("value_missing", "`age` stays unset: no valid answer within the rounds") in session.warnings


@pytest.mark.parametrize("saved", [False, True])
async def test_it_may_ask_something_itself(prepare: NewSession, saved) -> None:
    session = await prepare(SCRIPT, saved=saved).start()
    await session.reply("Ana", "And who are you?")
    assert session.said == ["Do you want to know more?"]
    await session.reply("yes")
    assert session.said == ["I am a script.", "How old are you, Ana?"]
    assert "wants" not in session.values  # its own variables end with it


async def test_no_interrupt_comes_up_within_another(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("who are you", "what does it cost")
    assert session.happened(Interrupted) == []
    assert session.said == ["Sorry, was that a yes or a no?"]


async def test_an_answer_that_was_offered_is_no_interrupt(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("Ana", "28", "price")
    assert [(change.name, change.new) for change in session.turns[-1].changes] == [("colour", "price")]


async def test_an_interrupt_whose_condition_does_not_hold_is_not_heard(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("zebra")
    assert session.values["name"] == "zebra"


async def test_it_may_lead_to_the_beginning_of_the_topic(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("Ana", "let me start over")
    assert session.said == ["From the top.", "What is your name?"]
    left = [each.action_id for each in session.happened(ActionLeft)]
    assert left == ["top", "ask_age", "always"]


async def test_it_may_leave_the_topic(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("Ana", "another subject please")
    assert session.said == ["Which colour?"]
    assert session.state.topic == "second"


async def test_within_a_skill_leaving_means_the_skill(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("Ana", "28", "red", "another subject")
    assert session.state.topic == "closing"
    assert [each.action_id for each in session.happened(ActionLeft)][:2] == ["ask_help", "help"]


async def test_it_may_lead_elsewhere_or_end_the_conversation(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("Ana", "go to the end")
    assert session.state.topic == "closing"
    session = await drive(SCRIPT)
    await session.reply("goodbye")
    assert session.state.status == "completed"


async def test_it_may_leave_the_question_open(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("no comment")
    assert session.said == ["How old are you, ?"]


async def test_a_question_left_open_takes_its_default(prepare: NewSession) -> None:
    script = SCRIPT.replace("[{get: name}]", "[{get: name, default: friend}, {set: met, value: name}]")
    session = await prepare(script).start()
    await session.reply("no comment")
    assert session.said == ["How old are you, friend?"]
    session = await prepare(script.replace("default: friend", "required: true")).start()
    await session.reply("no comment")  # what the script says goes before what the output wants
    assert session.said == ["How old are you, ?"]


async def test_what_it_did_says_so_in_the_events(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("the price")
    entered = [(each.action_id, each.interrupt) for each in session.happened(ActionEntered)]
    assert entered == [("count", "price"), ("tell", "price")]
    assert [each.action_id for each in session.happened(Waiting)] == ["ask_name"]


INTENT = """
script: talk
interrupts:
- {interrupt: low, on: [help], priority: 1, do: [{say: low, id: s}]}
- {interrupt: high, on: [help me], priority: 2, do: [{say: high, id: s}]}
- {interrupt: meant, on: the user is in pain, priority: 3, do: [{say: I am sorry., id: s}]}
phases: [{phase: p, topics: [{topic: t, actions: [{ask: How are you?, id: how, output: [{get: mood}]}]}]}]
"""


async def test_the_highest_priority_is_taken(drive: StartSession) -> None:
    session = await drive(INTENT)
    await session.reply("please help me")
    assert session.said == ["high", "How are you?"]


async def test_what_a_message_means_the_model_says(drive: StartSession) -> None:
    session = await drive(INTENT, replies={"how.route": [{"intent": "meant"}]})
    await session.reply("help, it hurts")
    assert session.said == ["I am sorry.", "How are you?"]
    assert session.turns[-1].model_calls[0].request.intents == {"meant": "the user is in pain"}


async def test_without_a_model_an_intent_is_not_seen(drive: StartSession) -> None:
    session = await drive(INTENT)
    await session.reply("it hurts")
    assert [(change.name, change.new) for change in session.turns[-1].changes] == [("mood", "it hurts")]


async def test_a_failure_within_an_interrupt_changes_nothing(drive: StartSession) -> None:
    session = await drive(
        INTENT.replace("{say: high, id: s}", "{set: {x: 1 / 0}, id: s}"),
    )
    before = session.state
    with pytest.raises(TurnFailed, match="division by zero"):
        await session.reply("help me")
    assert session.state == before
    await session.reply("fine")
    assert session.state.status == "completed"


MATCHES = """
script: talk
declare: [{var: mood}, {var: code}, {var: name}]
interrupts:
- {interrupt: private, on: {keywords: [private, 保密], match: short}, do: [{say: It stays here., id: here}]}
- {interrupt: help, on: {keywords: [help], match: whole}, do: [{say: Ask me., id: me}]}
- {interrupt: alarm, on: {detector: fire}, do: [{say: Leave the building., id: go}]}
detectors:
- {detector: fire, rules: [{words: [fire]}]}
phases:
- phase: p
  topics:
  - topic: open
    actions:
    - {ask: How are you?, id: ask_mood, output: [{get: mood}]}
    - {ask: Your code?, id: ask_code, interruptible: false, output: [{get: code}]}
  - topic: closed
    interruptible: false
    actions:
    - {ask: Your name?, id: ask_name, output: [{get: name}]}
"""


@pytest.mark.parametrize(
    "said",
    ["Is this private?", "private", "is it really, really private here?", "这个会保密吗？", "HELP!", " help "],
)
async def test_a_short_message_interrupts(drive: StartSession, said: str) -> None:
    session = await drive(MATCHES)
    await session.reply(said)
    assert session.said[-1] == "How are you?" and "mood" not in session.values


@pytest.mark.parametrize(
    "said",
    [
        "My private life is a mess since my father died",
        "我最近心情很不好因为我的秘密没有被保密",
        "help me",
        "it can't be helped",
    ],
)
async def test_a_long_message_answers_though_it_says_a_keyword(drive: StartSession, said: str) -> None:
    session = await drive(MATCHES)
    await session.reply(said)
    assert session.values["mood"] == said and session.said == ["Your code?"]


async def test_uninterruptible_action_takes_the_message_as_its_answer(drive: StartSession) -> None:
    session = await drive(MATCHES)
    await session.reply("well", "private")
    assert session.values["code"] == "private" and session.said == ["Your name?"]
    await session.reply("help")
    assert session.values["name"] == "help"


async def test_a_detector_interrupts_what_is_not_interruptible(drive: StartSession) -> None:
    session = await drive(MATCHES)
    await session.reply("well", "there is a fire")
    assert session.said == ["Leave the building.", "Your code?"]


PRIVACY = """
interrupts: [{interrupt: privacy, on: [private], do: [{say: It stays here., id: here}]}]
phases: [{phase: p, topics: [{topic: t, actions: [{ask: How are you?, id: q}, {say: Thank you., id: s}]}]}]
"""


@pytest.mark.parametrize(
    ("head", "said"),
    [("cuebook: 1\nscript: test", ["Thank you."]), ("script: test", ["It stays here.", "How are you?"])],
)
async def test_keywords_match_short_messages_unless_a_file_is_older(drive: StartSession, head: str, said) -> None:
    session = await drive(head + PRIVACY)
    await session.reply("My private life is a mess since my father died")
    assert session.said == said
    session = await drive(head + PRIVACY)
    await session.reply("Is this private?")
    assert session.said == ["It stays here.", "How are you?"]


AGE = """
cuebook: 1
script: test
interrupts: [{interrupt: privacy, on: [private], do: [{say: It stays here., id: here}], then: THEN}]
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {ask: How old are you?, into: {var: age, type: number, max: 120}, id: q}
    - {ask: "{{ age }}. And your name?", into: name, id: r}
"""


@pytest.mark.parametrize(
    ("reply", "then", "said"),
    [
        ("28, is this private?", "resume", ["It stays here.", "28. And your name?"]),
        ("28, is this private?", "skip", ["It stays here.", "28. And your name?"]),
        ("28, is this private?", "restart_topic", ["It stays here.", "How old are you?"]),
        ("Is this private?", "resume", ["It stays here.", "How old are you?"]),
        ("280, is this private?", "resume", ["It stays here.", "How old are you?"]),  # not valid
    ],
)
async def test_a_typed_value_in_an_interrupting_message_is_the_answer(drive: StartSession, reply, then, said) -> None:
    session = await drive(AGE.replace("THEN", then), saved=True)
    await session.reply(reply)
    assert session.said == said


async def test_typed_value_in_an_interrupting_message_is_no_answer(drive: StartSession) -> None:
    watched = AGE.replace("on: [private]", "on: {detector: crisis}").replace("THEN", "resume")
    crisis = "detectors: [{detector: crisis, rules: [{words: [pills]}]}]\n"
    session = await drive(watched + crisis, saved=True)
    await session.reply("I took 28 pills")
    assert session.said == ["It stays here.", "How old are you?"]
    assert "age" not in session.values


async def test_texts_that_interrupt_are_no_answers(drive: StartSession) -> None:
    session = await drive(AGE.replace("THEN", "resume"), saved=True)
    await session.reply("28", "Is this private?")
    assert session.said == ["It stays here.", "28. And your name?"]


async def test_an_answer_outlasts_an_interrupt_that_asks(drive: StartSession) -> None:
    asking = AGE.replace("{say: It stays here., id: here}", "{ask: Why?, into: why, id: why}").replace("THEN", "resume")
    session = await drive(asking, saved=True)
    await session.reply("28, is this private?")
    assert session.said == ["Why?"]
    await session.reply("Because.")
    assert session.said == ["28. And your name?"]


async def test_invalid_answer_that_interrupts_costs_no_round(drive: StartSession) -> None:
    last = AGE.replace("{ask: How", "{rounds: 1, ask: How").replace("THEN", "resume")
    session = await drive(last, saved=True)
    await session.reply("280, is this private?")
    assert session.said == ["It stays here.", "How old are you?"]


BUTTONS = """
cuebook: 1
script: test
detectors:
- {detector: crisis, rules: [{words: [despair]}]}
interrupts: [{interrupt: help, on: {detector: crisis}, do: [{ask: Are you safe?, into: safe, id: safe}], then: THEN}]
forms:
- form: week
  text: Your week?
  fields:
  - {field: mood}
  - {field: hours, type: number, max: 24}
actions:
- {form: week, id: fill, rounds: 1}
- choose: And today?
  into: feeling
  id: pick
  choices:
  - {key: good, text: Good}
  - {key: bad, text: In despair, do: [{say: I am sorry., id: sorry}]}
- {say: "Your week was {{ mood }}.", id: told, acknowledge: true}
"""


@pytest.mark.parametrize("then", ["resume", "skip"])
async def test_form_and_choice_that_a_detector_interrupts_are_answers(drive: StartSession, then: str) -> None:
    session = await drive(BUTTONS.replace("THEN", then), saved=True)
    await session.turn(FormInput({"mood": "despair", "hours": 7}))
    assert session.said == ["Are you safe?"]
    await session.reply("yes")
    assert session.said == ["And today?"]
    assert (session.values["mood"], session.values["hours"]) == ("despair", 7)
    await session.choose("bad")
    assert session.said == ["Are you safe?"]
    await session.reply("yes")
    assert session.said == ["I am sorry.", "Your week was despair."]
    assert session.values["feeling"] == "bad"


async def test_a_choice_is_no_answer_if_the_topic_then_starts_again(drive: StartSession) -> None:
    session = await drive(BUTTONS.replace("THEN", "restart_topic").replace("text: In", "once: true, text: In"))
    await session.turn(FormInput({"mood": "well"}))
    await session.choose("bad")
    await session.reply("yes", "mood: well")
    assert [each.key for each in session.state.wait.choices] == ["good", "bad"]


async def test_invalid_form_that_a_detector_interrupts_is_shown_again(drive: StartSession) -> None:
    session = await drive(BUTTONS.replace("THEN", "resume"), saved=True)
    await session.turn(FormInput({"mood": "despair", "hours": 70}))
    await session.reply("yes")
    assert session.said == ["Your week?"]
    assert "mood" not in session.values

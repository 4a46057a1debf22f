"""How users repair a conversation: have it repeated, skip, cancel, correct what they said, ask for a person."""

import pytest

from runtime.state.events import Emitted, Repaired
from tests.support.runtime_session import NewSession, StartSession

SCRIPT = """
script: talk
repairs: [repeat, skip, cancel, correct, hand_over]
declare:
- {var: age, type: number, define: age in years}
- {var: name}
- {var: adult, type: boolean}
- {var: label}
- {var: counter, type: number, value: 0}
phases:
- phase: p
  topics:
  - topic: first
    actions:
    - {ask: What is your name?, id: ask_name, output: [{get: name, required: true}]}
    - ask: How old are you?
      id: ask_age
      output:
      - {get: age, min: 1, max: 120, invalid: "Between 1 and 120, please."}
      - {set: adult, value: age >= 18}
    - {set: {label: "name ~ ' (' ~ ('adult' if adult else 'child') ~ ')'", counter: counter + age}, id: combine}
    - {choose: colour, id: ask_colour, question: Which colour?, choices: [red, blue]}
    - {ask: What else?, id: ask_else, output: [{get: other}]}
  - topic: second
    actions: [{ask: And now?, id: ask_now, output: [{get: now_what}]}]
"""


async def at_the_last_question(session):
    await session.reply("Ana", "12", "red")
    assert session.values["label"] == "Ana (child)"
    return session


@pytest.mark.parametrize("said", ["repeat", "Say that again!", "  REPEAT, "])
async def test_the_question_is_repeated(drive: StartSession, said) -> None:
    session = await drive(SCRIPT)
    await session.reply(said)
    assert session.said == ["What is your name?"]
    assert session.happened(Repaired) == [Repaired("repeat", "ask_name")]
    assert session.state.progress.round == 0


@pytest.mark.parametrize(
    "said", ["Actually, name: Zoë McNeil", "I MEANT name TO Zoë McNeil", "ｃｏｒｒｅｃｔ name: Zoë McNeil"]
)
async def test_a_corrected_text_keeps_its_spelling(drive: StartSession, said) -> None:
    session = await at_the_last_question(await drive(SCRIPT))
    await session.reply(said)
    assert session.values["name"] == "Zoë McNeil"


async def test_words_within_an_answer_ask_for_nothing(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("Skip Martin")
    assert session.values["name"] == "Skip Martin"


async def test_a_question_is_skipped_unless_it_needs_an_answer(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("skip")
    assert session.said == ["I do need an answer to this one.", "What is your name?"]
    await session.reply("Ana", "I'd rather not say")
    assert session.said == ["Which colour?"]
    assert ("value_missing", "`age` stays unset: the user skipped it") in session.warnings


async def test_a_wait_for_a_moment_is_not_skipped(drive: StartSession) -> None:
    session = await drive("cuebook: 1\nscript: t\nrepairs: [skip]\nactions: [{wait: 3 days}, {say: Hi.}]")
    await session.reply("skip")
    assert session.said == ["I am not here just now. We continue on 2026-03-07 12:00."]
    assert session.happened(Repaired) == []


async def test_known_values_stay_if_their_confirmation_is_skipped(drive: StartSession) -> None:
    session = await drive(
        """
        cuebook: 1
        script: known
        repairs: [skip]
        actions:
          - {ask: Your age?, into: {var: age, type: number, default: 18}, if_known: {confirm: "Still {{ age }}?"}}
          - {ask: Anything else?, into: more}
        """,
        variables={"age": 30},
    )
    await session.reply("skip")
    assert (session.said, session.values["age"]) == (["Anything else?"], 30)


async def test_a_topic_is_cancelled(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("never mind")
    assert session.said == ["All right, let us leave that.", "And now?"]
    assert session.state.topic == "second"


async def test_an_answer_is_corrected_and_what_follows_from_it(drive: StartSession) -> None:
    session = await at_the_last_question(await drive(SCRIPT))
    await session.reply("Correction: age is 30")
    assert session.said == ["Noted: age: 30.", "What else?"]
    assert (session.values["age"], session.values["adult"], session.values["label"]) == (30, True, "Ana (adult)")
    assert session.values["counter"] == 12  # what counts on itself is not counted twice
    assert session.happened(Repaired) == [Repaired("correct", "ask_else", ("age", "adult", "label"))]
    sources = {change.name: (change.source, change.action_id) for change in session.turns[-1].changes}
    assert sources["age"] == ("user", "ask_else")
    await session.reply("change age to 10")
    assert session.values["label"] == "Ana (child)"


GROUPS = """
cuebook: 1
script: t
repairs: [correct]
actions:
- ask: How old are you?
  into:
  - {var: age, type: number}
  - {set: group, value: adult, when: age > 17}
  - {set: group, value: child, when: age < 13}
- {ask: What else?, into: other}
"""


async def test_correction_decides_again_between_values_with_conditions(drive: StartSession) -> None:
    session = await (await drive(GROUPS)).reply("30", "actually, age: 12")
    assert session.values == {"age": 12, "group": "child"}
    await session.reply("actually, age: 15")
    assert session.values == {"age": 15, "group": None}


async def test_a_choice_is_corrected_too(drive: StartSession) -> None:
    session = await at_the_last_question(await drive(SCRIPT))
    await session.reply("Actually, colour: blue")
    assert session.values["colour"] == "blue"


async def test_a_correction_must_be_valid(drive: StartSession) -> None:
    session = await at_the_last_question(await drive(SCRIPT))
    await session.reply("change age to 400")
    assert session.said == ["Between 1 and 120, please.", "What else?"]
    assert session.values["age"] == 12


async def test_a_correction_must_be_within_computed_limits(drive: StartSession) -> None:
    session = await drive(
        """
        cuebook: 1
        script: test
        repairs: [correct]
        actions:
          - set: {most: 9}
          - {ask: How many?, into: {var: count, type: number, max: =most, invalid: Fewer.}}
          - {ask: What else?, into: more}
        """
    )
    await session.reply("3")
    await session.reply("change count to 40")
    assert session.said == ["Fewer.", "What else?"]
    await session.reply("change count to 4")
    assert session.values["count"] == 4


async def test_correction_without_a_name_is_asked_for_or_an_answer(drive: StartSession) -> None:
    session = await at_the_last_question(await drive(SCRIPT))
    await session.reply("correction")
    assert session.said == ["What shall I change? Say it like “age: 30”.", "What else?"]
    await session.reply("actually nothing")
    assert session.state.topic == "second"


async def test_a_correction_survives_a_restart_in_between(prepare: NewSession) -> None:
    session = await at_the_last_question(await prepare(SCRIPT, saved=True).start())
    await session.reply("I meant age: 40")
    assert session.values["label"] == "Ana (adult)"


async def test_a_person_is_asked_for(drive: StartSession) -> None:
    session = await drive(SCRIPT)
    await session.reply("I want to talk to a human.")
    assert session.happened(Emitted) == [Emitted("ask_name", "hand_over", {"action": "ask_name"})]
    assert session.said == ["I have let someone know; they will get back to you."]
    await session.reply("Ana")
    assert session.said == ["How old are you?"]


async def test_a_script_says_it_in_its_own_words(drive: StartSession) -> None:
    session = await drive(
        """
        script: talk
        repairs:
        - {repair: skip, on: [weiter], say: Gut.}
        - {repair: cancel, on: [schluss], say: Schade., then: end}
        phases: [{phase: p, topics: [{topic: t, actions: [
          {ask: Name?, id: a, output: [{get: name}]}, {ask: Alter?, id: b, output: [{get: age}]}]}]}]
        """
    )
    await session.reply("weiter!")
    assert session.said == ["Gut.", "Alter?"]
    await session.reply("Schluss")
    assert (session.said, session.state.status) == (["Schade."], "completed")


async def test_in_chinese(drive: StartSession) -> None:
    session = await drive(
        """
        script: talk
        locale: zh
        repairs: [repeat, correct]
        phases: [{phase: p, topics: [{topic: t, actions: [
          {ask: 您多大了？, id: a, output: [{get: 年龄, type: number}, {set: 成年, value: 年龄 >= 18}]},
          {ask: 您住在哪里？, id: b, output: [{get: 城市}]}]}]}]
        """
    )
    await session.reply("12", "再说一遍")
    assert session.said == ["您住在哪里？"]
    await session.reply("说错了，年龄应该是30")
    assert session.said == ["已更正：年龄: 30。", "您住在哪里？"]
    assert session.values["成年"] is True


QUESTIONS = """
script: questions
repairs: [repeat, skip, correct]
interrupts:
- {interrupt: why, on: [why do you ask], do: [{say: It helps me to help you., id: because}]}
forms:
- {form: sheet, text: Fill this in., fields: [{field: size, type: number, required: true}]}
- {form: bare, fields: [{field: width, type: number, required: true}]}
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - %s
    - {user_say: ok, id: ok}
"""

OPEN = [
    ("{ask: How old are you?, id: q, output: [{get: age, type: number, invalid: A number please.}]}", "old"),
    ("{ai_ask: How old are you?, id: q, output: [{get: age, type: number, max: 120}]}", "400"),
    ("{choose: age, id: q, question: How old are you?, choices: [young, old], invalid: One of them.}", "green"),
]


@pytest.mark.parametrize(("action", "wrong"), OPEN)
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("again", ["repeat", "why do you ask", "correction"])
async def test_the_question_comes_back_not_the_complaint(prepare: NewSession, action, wrong, saved, again) -> None:
    session = await prepare(QUESTIONS % action, saved=saved).start()
    await session.reply(wrong)
    complaint = session.said
    assert complaint != ["How old are you?"]
    await session.reply("  ")
    assert session.said == complaint
    await session.reply(again)
    assert session.said[-1] == "How old are you?"


async def test_an_open_form_shows_what_was_corrected_or_set_meanwhile(drive: StartSession) -> None:
    session = await drive("""
        cuebook: 1
        script: moved
        repairs: [correct]
        interrupts: [{interrupt: moved, on: [I moved], do: [{set: {city: Oslo}, id: set}]}]
        declare: [{var: city, define: city}]
        forms: [{form: home, fields: [{field: city, label: Where you live}]}]
        actions: [{ask: Which city?, into: city, id: ask}, {form: home, id: home}]
    """)
    await session.reply("Paris", "actually, city: Rome")
    assert [each.value for each in session.state.wait.form.fields] == ["Rome"]
    await session.reply("I moved")
    assert [each.value for each in session.state.wait.form.fields] == ["Oslo"]


async def test_a_form_is_put_again_by_its_text(drive: StartSession) -> None:
    session = await drive(QUESTIONS % "{form: sheet, id: q}")
    await session.reply("large")
    assert session.said != ["Fill this in."]
    for again in ("repeat", "why do you ask", "skip"):
        await session.reply(again)
        assert session.said[-1] == "Fill this in."
        assert session.state.wait.form.errors.keys() == {"size"}


async def test_a_refused_skip_is_said_once_without_a_question(drive: StartSession) -> None:
    session = await drive(QUESTIONS % "{say: Here is a form., id: s}\n    - {form: bare, id: q}")
    await session.reply("skip")
    assert session.said == ["I do need an answer to this one.", "Here is a form."]


@pytest.mark.parametrize("action", ["ai_ask: Sleep?, id: q, output: [{get: hours}]", "chat: Sleep?, id: q"])
async def test_words_that_lead_back_are_not_the_question(drive: StartSession, action) -> None:
    replies = ["How do you sleep?", {"exit": False, "progress": "off_topic", "text": "Hm."}]
    led_back = f"{{{action}, exit: done, on_off_topic: {{say: Back to your sleep please.}}}}"
    session = await drive(QUESTIONS % led_back, replies={"q": replies})
    await session.reply("it rains")
    assert session.said == ["Back to your sleep please."]
    await session.reply("repeat")
    assert session.said == ["How do you sleep?"]


async def test_a_further_question_of_the_model_is_the_one_to_repeat(drive: StartSession) -> None:
    replies = ["How do you sleep?", {"text": "And when do you go to bed?"}]
    session = await drive(QUESTIONS % "{ai_ask: Sleep?, id: q, output: [{get: hours}]}", replies={"q": replies})
    await session.reply("badly", "repeat")
    assert session.said == ["And when do you go to bed?"]


ORDER = """
cuebook: 1
script: order
declare: [{var: tickets, type: number}, {var: price, type: number}]
repairs: [correct]
interrupts: [{interrupt: child, on: [child], do: [{set: {price: 3}, id: less}]}]
actions:
- {ask: How many?, into: [tickets, {set: price, value: 10}], id: many}
- {ask: "That is {{ tickets * price }}. Shall I book?", into: {var: books, type: boolean}, id: book}
- {say: "{{ tickets }} tickets.", acknowledge: true, id: told}
"""


async def test_a_question_is_put_again_with_the_values_of_now(drive: StartSession) -> None:
    session = await (await drive(ORDER, saved=True)).reply("2")
    assert session.said == ["That is 20. Shall I book?"]
    await session.reply("actually, tickets: 5")
    assert session.said == ["Noted: tickets: 5.", "That is 50. Shall I book?"]
    await session.reply("For a child")
    assert session.said == ["That is 15. Shall I book?"]
    await session.reply("")
    assert session.said == ["That is 15. Shall I book?"]
    await session.reply("yes", "actually, tickets: 1")
    assert session.said == ["Noted: tickets: 1.", "1 tickets."]

"""`choose`: a closed choice, taken by key, number or text, whose choices may have actions of their own."""

import pytest

from runtime.state.events import ActionLeft
from runtime.state.inputs import GiveBack, InputRefused, SetVariables, TakeOver
from tests.support.runtime_session import StartSession

PLAN = """
- choose: plan
  id: plan
  question: What now?
  choices:
  - {a: Walk}
  - {key: b, text: "Talk to {{ user.id }}", value: talking, actions: [{say: Good., id: good}, {user_say: ok, id: ok}]}
  - {key: '+', text: More}
- say: "[{{ plan }}]"
- user_say: end
"""


async def test_the_choices_are_offered_with_their_texts(drive: StartSession) -> None:
    session = await drive(PLAN)
    assert session.said == ["What now?"]
    offered = [(choice.key, choice.text) for choice in session.state.wait.choices]
    assert offered == [("a", "Walk"), ("b", "Talk to ana"), ("+", "More")]


@pytest.mark.parametrize("reply", ["a", "A", "1", "walk", "I would like to walk", "the first one"])
async def test_a_choice_is_taken_by_key_number_or_text(drive: StartSession, reply) -> None:
    session = await drive(PLAN)
    await session.reply(reply)
    assert (session.said, session.values) == (["[a]"], {"plan": "a"})


async def test_a_choice_may_carry_a_value_and_actions(drive: StartSession) -> None:
    session = await drive(PLAN)
    await session.reply("b")
    assert (session.said, session.values) == (["Good."], {"plan": "talking"})
    await session.reply("fine")
    assert session.said == ["[talking]"]
    assert [left.action_id for left in session.happened(ActionLeft)] == ["ok", "plan", "say_1"]


@pytest.mark.parametrize(("key", "value"), [("a", "a"), ("b", "talking"), ("+", "+")])
async def test_a_choice_taken_as_an_input_is_that_choice(drive: StartSession, key, value) -> None:
    session = await drive(PLAN)
    await session.choose(key)
    assert session.values == {"plan": value}
    said = session.messages[1]
    assert (said.role, said.metadata) == ("user", {"choice": key})
    assert said.content in {"Walk", "Talk to ana", "More"}


async def test_keys_and_texts_that_cross_over_do_not_confuse_it(drive: StartSession) -> None:
    session = await drive("- {choose: it, choices: [{one: two}, {two: one}]}\n- user_say: ok")
    await session.choose("two")
    assert session.values == {"it": "two"}


async def test_a_choice_that_is_not_offered_is_refused(drive: StartSession) -> None:
    session = await drive(PLAN)
    before = session.state
    with pytest.raises(InputRefused, match=r"there is no choice 'c'; there are a, b, \+"):
        await session.choose("c")
    assert session.state is before


async def test_a_choice_is_refused_where_none_is_offered(drive: StartSession) -> None:
    session = await drive("- ask: Name?")
    with pytest.raises(InputRefused, match="waits for text, not for a choice"):
        await session.choose("a")


async def test_a_blank_reply_offers_again_and_costs_no_round(drive: StartSession) -> None:
    session = await drive(PLAN)
    await session.reply("", " ")
    assert (session.said, session.state.progress.round) == (["What now?"], 0)


@pytest.mark.parametrize(
    ("keys", "said", "status"),
    [("", ["[]"], "active"), (", on_fail: skip", ["[]"], "active"), (", on_fail: end", [], "completed")],
)
async def test_what_follows_when_no_choice_is_taken(drive: StartSession, keys, said, status) -> None:
    session = await drive(
        f"- {{choose: it, choices: [tea, coffee], max_rounds: 2{keys}}}\n- say: '[{{{{ it }}}}]'\n- user_say: ok"
    )
    await session.reply("water")
    assert session.said == ["Sorry, please choose one of these: tea, coffee."]
    await session.reply("water")
    assert (session.said, session.state.status) == (said, status)
    assert ("value_missing", "`it` stays unset: none of the choices was taken") in session.warnings


async def test_the_script_may_word_the_second_offer(drive: StartSession) -> None:
    session = await drive("- {choose: it, choices: [tea, coffee], invalid: 'Tea or coffee, {{ user.id }}?'}")
    await session.reply("water", " ")
    assert session.said == ["Tea or coffee, ana?"]


SOME = """
actions:
  - say: Hi.
  - repeat: {until: next == "leave", max: 9}
    do:
      - choose: What next?
        into: next
        rounds: 1
        choices:
          - {key: tour, text: Look around, once: true, do: [{say: A tour.}]}
          - {key: shop, text: Buy, when: money > 0}
          - leave
  - say: "[{{ next }}]"
"""


def offered(session) -> list[str]:
    return [choice.key for choice in session.state.wait.choices]


async def test_conditional_choice_is_offered_only_where_it_holds(drive: StartSession) -> None:
    assert offered(await drive(SOME, variables={"money": 3})) == ["tour", "shop", "leave"]
    assert offered(await drive(SOME, variables={"money": 0})) == ["tour", "leave"]


async def test_a_choice_that_is_taken_once_is_not_offered_again(drive: StartSession) -> None:
    session = await drive(SOME, variables={"money": 0}, saved=True)
    await session.reply("look around")
    assert (session.said, offered(session)) == (["A tour.", "What next?"], ["leave"])
    await session.reply("tour")
    assert session.warnings[0] == ("value_missing", "`next` keeps its earlier value: none of the choices was taken")


async def test_numbers_count_the_choices_that_are_offered(drive: StartSession) -> None:
    session = await drive(SOME, variables={"money": 0})
    await session.reply("2")
    assert session.said == ["[leave]"]


NONE_LEFT = """
cuebook: 1
script: test
phases:
  - phase: main
    topics:
      - topic: first
        actions:
          - choose: Which?
            into: it
            choices: [{key: a, text: A, when: false}]
            on_fail: {say: Nothing is left., do: [{set: {it: none}}], then: goto second}
          - say: never
      - topic: second
        actions: [{say: Second.}]
"""


async def test_without_a_choice_that_is_left_on_fail_follows(drive: StartSession) -> None:
    session = await drive(NONE_LEFT)
    assert session.said == ["Nothing is left.", "Second."]
    assert session.warnings == [("value_missing", "`it` stays unset: no choice is left")]


BLANK = """
actions:
- {ask: How old?, into: {var: age, type: number}}
- choose: What will it be at {{ age }}?
  into: drink
  choices: [{key: wine, text: "Wine at {{ age }}", when: age > 17}, {key: milk, text: Milk, when: age > 2}]
- say: "[{{ drink }}]"
repairs: [correct]
"""


async def test_a_question_that_is_put_again_offers_what_is_open_now(drive: StartSession) -> None:
    session = await (await drive(BLANK, saved=True)).reply("30", "actually, age: 12")
    assert session.said == ["Noted: age: 12.", "What will it be at 12?"]
    assert offered(session) == ["milk"]


async def test_a_question_after_a_hand_over_offers_what_is_open_then(drive: StartSession) -> None:
    session = await (await drive(BLANK)).reply("30")
    for change in (TakeOver("kim"), SetVariables({"age": 12}), GiveBack()):
        await session.turn(change)
    assert (session.said, offered(session)) == (["What will it be at 12?"], ["milk"])


async def test_a_blank_reply_to_no_choice_that_is_left_goes_on(drive: StartSession) -> None:
    session = await (await drive(BLANK)).reply("30", "actually, age: 1")
    assert offered(session) == []
    await session.reply("")
    assert (session.said, session.state.status) == (["[]"], "completed")


SLOTS = """
actions:
  - choose: When?
    into: slot
    choices:
      - {each: slots as s, key: =s.id, text: "{{ s.time }}", when: s.free}
      - {key: none, text: None of these}
  - say: "[{{ slot }}]"
"""
FREE = [{"id": 7, "time": "9:00", "free": True}, {"id": 8, "time": "10:00", "free": False}, {"time": "?", "free": True}]


async def test_choices_may_come_from_a_list(drive: StartSession) -> None:
    session = await drive(SLOTS, variables={"slots": FREE}, saved=True)
    assert [(choice.key, choice.text) for choice in session.state.wait.choices] == [
        ("7", "9:00"),
        ("none", "None of these"),
    ]
    await session.reply("9:00")
    assert session.said == ["[7]"]


async def test_an_offered_choice_stays_valid_while_the_question_waits(drive: StartSession) -> None:
    session = await drive(SLOTS, variables={"slots": FREE})
    session.state.session_cells["slots"].value[0]["free"] = False
    await session.choose("7")
    assert session.said == ["[7]"]


async def test_a_number_means_the_choice_that_was_offered(drive: StartSession) -> None:
    free = [{"id": name, "time": name, "free": True} for name in ("early", "noon", "late")]
    session = await drive(SLOTS, variables={"slots": free}, saved=True)
    await session.turn(SetVariables({"slots": free[1:]}))
    await session.reply("2")
    assert session.said == ["[noon]"]


async def test_a_list_that_is_no_list_offers_the_other_choices(drive: StartSession) -> None:
    session = await drive(SLOTS, variables={"slots": "many"})
    assert offered(session) == ["none"]
    assert session.warnings[0][0] == "expression_failed"


RESERVED = """
actions:
- choose: What shall happen to the draft?
  into: fate
  id: fate
  rounds: 1
  choices:
  - {key: expire, text: Let it expire, do: [{say: It expires., id: a}]}
  - {key: on_fail, text: Publish it, do: [{say: Published., id: b}]}
  expire: {after: 1 day, do: [{say: Too late., id: c}]}
  on_fail: {do: [{say: What a pity., id: d}], then: end}
- {say: Thank you., id: thanks}
"""


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("expire", ["It expires.", "Thank you."]),
        ("on_fail", ["Published.", "Thank you."]),
        ("dunno", ["What a pity."]),
    ],
)
async def test_a_choice_may_have_the_name_of_a_key_of_the_question(drive: StartSession, reply, said) -> None:
    session = await drive(RESERVED, saved=True)
    await session.reply(reply)
    assert session.said == said


async def test_a_question_with_a_choice_named_expire_expires(drive: StartSession) -> None:
    session = await drive(RESERVED, saved=True)
    await session.pass_time(days=1)
    assert session.said == ["Too late.", "Thank you."]

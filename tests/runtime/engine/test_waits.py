"""What a session does by itself: waits, reminders and expiry, on the virtual clock of the test."""

from datetime import timedelta

import pytest

from runtime.state.events import Ended, MilestoneReached, TimerFired, Waiting
from runtime.state.inputs import GiveBack, InputRefused, Pause, Resume, Rewind, SetVariables, TakeOver, TimerDue
from tests.support.runtime_session import NOON, NewSession, StartSession

WAIT = """
- {say: See you., id: bye}
- {wait: 3 days, id: pause}
- {say: Hello again., id: back}
"""
QUESTION = """
script: diary
timezone: Europe/Berlin
declare: [{var: missed, value: 0}, {var: mood}]
interrupts:
- {interrupt: help, on: [help], do: [{ask: Which help?, id: which, output: [kind]}]}
phases:
- phase: p
  topics:
  - topic: day
    actions:
    - ask: How was your day?
      id: day
      output: [{get: mood, type: number}]
      remind:
      - {after: 1 hour, say: Are you there?}
      - {after: 2 hours, do: [{emit: nudge, id: nudge}, {say: Still here., id: still}]}
      expire: {after: 8 hours, do: [{set: {missed: missed + 1}, id: count}], then: goto next}
  - topic: next
    actions:
    - {say: "Missed: {{ missed }}", id: total}
    - {ask: Anything else?, id: more, output: [more]}
"""


async def test_a_session_sleeps_and_continues_by_itself(drive: StartSession) -> None:
    session = await drive(WAIT)
    assert session.state.wait.kind == "time"
    assert session.state.wait.until == NOON + timedelta(days=3)
    assert session.timers == [("wait", "2026-03-07 12:00")]
    await session.pass_time(days=2)
    assert session.said == ["See you."]
    await session.pass_time(days=1)
    assert session.said == ["Hello again."]
    assert [each.timer for each in session.happened(TimerFired)] == ["wait"]
    assert session.state.status == "completed"
    assert session.timers == []


async def test_nothing_fires_before_it_is_due(drive: StartSession) -> None:
    session = await drive(WAIT)
    with pytest.raises(InputRefused, match="no timer of the session is due"):
        await session.wake(days=2, hours=23)


@pytest.mark.parametrize("saved", [False, True])
async def test_a_message_to_a_sleeper_is_held_and_answered_once(prepare: NewSession, saved) -> None:
    session = await prepare(WAIT, saved=saved).start()
    await session.reply("hi")
    assert session.said == ["I am not here just now. We continue on 2026-03-07 12:00."]
    await session.reply("hello?")
    assert session.said == []
    await session.pass_time(days=3)
    assert session.said == ["Hello again."]


async def test_a_message_may_wake_the_session(drive: StartSession) -> None:
    session = await drive("- {wait: 3 days, on_message: resume, id: pause}\n- {ask: Well?, id: well, output: [well]}")
    await session.reply("I am early")
    assert session.said == ["Well?"]
    assert "well" not in session.values  # the message only woke it


async def test_a_topic_may_answer_while_the_wait_goes_on(drive: StartSession) -> None:
    session = await drive("""
script: t
phases:
- phase: p
  topics:
  - topic: main
    actions: [{wait: 3 days, on_message: talk, id: pause}, {say: Back., id: back}, {end: done, id: over}]
  - topic: talk
    actions: [{ask: What is it?, id: what, output: [what]}, {say: "Noted: {{ what }}", id: noted}]
""")
    await session.reply("hello")
    assert session.said == ["What is it?"]
    await session.reply("a pain")
    assert session.said == ["Noted: a pain"]
    assert session.timers == [("wait", "2026-03-07 12:00")]
    await session.pass_time(days=3)
    assert session.said == ["Back."]


ANSWERING = """
cuebook: 1
script: answering
phases:
  - phase: p
    topics:
      - {topic: rest, actions: [{wait: 3 days, on_message: answers, id: pause}, {say: Back., id: back}]}
      - topic: answers
        milestone: answered
        declare: [{var: asked, type: number, value: 0}]
        expire: {after: 1 h}
        actions:
        - {set: {asked: =asked + 1}, id: count}
        - {ask: "Question {{ asked }}?", into: it, id: q}
        - {say: Bye., id: bye}
"""


async def test_topic_that_answers_has_variables_expiry_and_milestone(drive: StartSession) -> None:
    session = await (await drive(ANSWERING, saved=True)).reply("Hello?")
    assert session.said == ["Question 1?"]
    await session.pass_time(hours=2)
    assert session.said == ["Bye."]
    assert session.happened(MilestoneReached) == [MilestoneReached("answered")]
    assert session.state.wait.kind == "time"
    await session.reply("Hello?")
    assert session.said == ["Question 1?"]


async def test_a_topic_that_answers_counts_as_visited(drive: StartSession) -> None:
    counting = ANSWERING.replace("Question {{ asked }}?", "{{ visits('p/answers') }}?")
    session = await (await drive(counting, saved=True)).reply("Hello?", "Fine.", "Hello?")
    assert session.said == ["2?"]


async def test_a_wait_within_a_topic_that_answers_holds_messages(drive: StartSession) -> None:
    nested = ANSWERING.replace("{ask: ", "{wait: 1 h, on_message: answers, id: nap}\n        - {ask: ")
    session = await (await drive(nested, saved=True)).reply("Hello?", "Hello?", "Hello?")
    assert [frame.action for frame in session.state.frames] == ["pause", "nap"]
    await session.pass_time(hours=1)
    assert session.said == ["Question 1?"]


async def test_a_wait_whose_moment_is_past_passes(drive: StartSession) -> None:
    session = await drive('- {wait: {until: "2026-01-01"}, id: pause}\n- {say: At once., id: back}')
    assert session.said == ["At once."]


async def test_wait_until_an_invalid_date_ends_with_a_warning(drive: StartSession) -> None:
    session = await drive("- {wait: {until: =day}, id: pause}\n- {say: At once., id: back}", variables={"day": "soon"})
    assert session.said == ["At once."]
    assert ("date_missing", "`day` is not a date") in session.warnings


async def test_reminders_speak_once_a_visit_and_take_no_round(drive: StartSession) -> None:
    session = await drive(QUESTION)
    await session.pass_time(hours=1)
    assert session.said == ["Are you there?"]
    assert session.state.progress.round == 0
    assert session.happened(Waiting) == []  # the question was put once
    await session.reply("bad")
    assert session.timers == [("remind", "2026-03-04 15:00"), ("expire", "2026-03-04 21:00")]  # from the last message
    await session.pass_time(hours=2)
    assert session.said == ["Still here."]
    assert session.timers == [("expire", "2026-03-04 21:00")]


async def test_of_several_reminders_that_are_due_the_last_speaks(drive: StartSession) -> None:
    session = await drive(QUESTION)
    await session.wake(hours=3)
    assert session.said == ["Still here."]
    assert session.happened(TimerFired)[0].missed == ("1 hour",)
    assert session.timers == [("expire", "2026-03-04 20:00")]


async def test_reminders_that_are_too_old_are_missed(drive: StartSession) -> None:
    session = await drive(QUESTION)
    session.now += timedelta(hours=3)
    await session.turn(TimerDue(missed_before=session.now - timedelta(minutes=5)))
    assert session.said == []
    fired = session.happened(TimerFired)[0]
    assert (fired.moment, fired.missed) == ("", ("1 hour", "2 hours"))


async def test_a_question_expires_and_clears_its_variables(drive: StartSession) -> None:
    session = await drive(QUESTION, variables={"mood": 3})
    await session.pass_time(hours=8)
    assert session.said == ["Missed: 1", "Anything else?"]
    assert session.values["mood"] is None
    assert session.values["missed"] == 1


async def test_expired_question_leaves_records_of_earlier_answers(drive: StartSession) -> None:
    session = await drive("""
        actions:
          - repeat: {max: 2}
            do:
              - {ask: What did you eat?, into: {add_to: meals, fields: [meal]}, expire: {after: 1 day}, id: eat}
          - {ask: Anything else?, into: more}
    """)
    await session.reply("soup")
    await session.pass_time(days=1)
    assert session.said == ["Anything else?"]
    assert session.values["meals"] == [{"meal": "soup"}]


async def test_the_fields_of_an_expired_form_have_their_defaults(drive: StartSession) -> None:
    session = await drive(
        """
        cuebook: 1
        script: visit
        forms: [{form: pet, fields: [{field: kind, default: dog}, {field: name}]}]
        actions:
          - {form: pet, expire: {after: 1 day}, id: pet}
          - {ask: Anything else?, into: more}
        """,
        variables={"kind": "cat", "name": "Tom"},
    )
    await session.pass_time(days=1)
    assert (session.values["kind"], session.values["name"]) == ("dog", None)


async def test_an_expired_question_may_end_the_conversation(drive: StartSession) -> None:
    session = await drive("- {ask: Well?, id: well, output: [well], expire: {after: 1 day, then: end}}")
    await session.pass_time(days=1)
    assert [(each.by, each.reason) for each in session.happened(Ended)] == [("expired", "no answer to well in time")]


async def test_an_interrupt_delays_reminders_and_ends_with_the_expiry(drive: StartSession) -> None:
    session = await drive(QUESTION)
    await session.reply("help")
    assert session.timers == [("expire", "2026-03-04 20:00")]
    await session.pass_time(hours=8)
    assert session.said == ["Missed: 1", "Anything else?"]
    assert not session.state.interrupted


async def test_question_expired_during_an_interrupt_is_not_repeated(drive: StartSession) -> None:
    session = await drive(QUESTION)
    await session.reply("help")
    session.now += timedelta(hours=9)
    await session.reply("yours")
    assert session.said == ["Missed: 1", "Anything else?"]


async def test_question_repeated_after_a_wait_has_no_instant_reminder(drive: StartSession) -> None:
    session = await drive("""
        cuebook: 1
        script: visit
        interrupts: [{interrupt: later, on: [later], do: [{wait: 2 h, id: rest}]}]
        actions:
          - {ask: Well?, into: well, remind: [{after: 1 h, say: Still there?}, {after: 5 h, say: Hello?}], id: well}
    """)
    await session.reply("later")
    await session.pass_time(hours=2)
    assert session.said == ["Well?"]
    assert session.timers == [("remind", "2026-03-04 17:00")]


async def test_a_question_whose_date_is_past_is_not_put(drive: StartSession) -> None:
    session = await drive(
        """
        cuebook: 1
        script: visit
        actions:
          - {ask: When is your visit?, into: {var: visit, type: date}, id: visit}
          - ask: Will you come?
            into: {var: comes, type: boolean}
            expire: {until: =visit, do: [{say: It is too late to ask whether you come.}]}
            id: comes
          - {ask: Anything else?, into: more, id: more}
        """,
        variables={"comes": True},
    )
    await session.reply("2026-03-01")
    assert session.said == ["It is too late to ask whether you come.", "Anything else?"]
    assert session.values["comes"] is None


async def test_a_known_answer_remains_when_its_question_is_too_late(drive: StartSession) -> None:
    session = await drive(
        """
        cuebook: 1
        script: visit
        declare: [{var: comes, type: boolean}]
        actions:
          - {ask: Will you come?, into: comes, if_known: skip, expire: {until: 2026-03-01}, id: comes}
          - {ask: Anything else?, into: more, id: more}
        """,
        variables={"comes": True},
    )
    assert session.said == ["Anything else?"]
    assert session.values["comes"] is True


async def test_reminders_and_expiry_count_from_an_interrupt_message(drive: StartSession) -> None:
    asking = "{ask: Which help?, id: which, output: [kind]}"
    session = await drive(QUESTION.replace(asking, f"{asking}, {{ask: Where?, id: place, output: [place]}}"))
    await session.reply("help")
    session.now += timedelta(hours=7)
    await session.reply("a doctor")
    assert session.timers == [("expire", "2026-03-05 03:00")]
    session.now += timedelta(hours=2)
    await session.reply("here")
    assert session.said == ["How was your day?"]
    assert session.timers == [
        ("remind", "2026-03-04 22:00"),
        ("remind", "2026-03-04 23:00"),
        ("expire", "2026-03-05 05:00"),
    ]


async def test_user_has_the_time_to_answer_after_a_rewind_and_a_pause(drive: StartSession) -> None:
    session = await drive(QUESTION)
    first = session.state
    await session.reply("3")
    session.now += timedelta(days=2)
    await session.turn(Rewind(first))
    assert session.timers[0] == ("remind", "2026-03-06 13:00")
    await session.turn(Pause())
    session.now += timedelta(days=2)
    await session.turn(Resume())
    assert session.timers[0] == ("remind", "2026-03-08 13:00")


async def test_timers_rest_while_the_session_is_paused(drive: StartSession) -> None:
    session = await drive(WAIT)
    await session.turn(Pause())
    assert session.timers == []
    await session.turn(Resume())
    assert session.timers == [("wait", "2026-03-07 12:00")]


async def test_a_sleeper_whose_timers_rest_says_until_when_it_sleeps(drive: StartSession) -> None:
    session = await drive(WAIT)
    until = session.state.wait.until
    for rest, wake in (Pause(), Resume()), (TakeOver("Kim"), GiveBack()):
        await session.turn(rest)
        await session.turn(SetVariables({"mood": "low"}))
        await session.turn(wake)
        assert session.state.wait.until == until


async def test_a_timer_can_be_fired_by_hand(drive: StartSession) -> None:
    session = await drive(WAIT)
    await session.turn(TimerDue("1:pause:wait:3 days"))
    assert session.said == ["Hello again."]
    assert session.happened(TimerFired)[0].is_by_hand


async def test_the_zone_of_the_user_moves_pending_clock_times(drive: StartSession) -> None:
    session = await drive(
        "script: t\nuse: [globals.yaml]\ntimezone: Europe/Berlin\nphases:\n- phase: p\n  topics:\n  - topic: t\n"
        "    actions: [{wait: {at: '9:00'}, id: pause}, {say: Good morning., id: back}]\n",
        global_variables="globals: [{var: timezone}]",
    )
    assert session.timers == [("wait", "2026-03-05 08:00")]
    await session.turn(SetVariables({"timezone": "America/New_York"}, "global"))
    assert session.timers == [("wait", "2026-03-04 14:00")]
    assert session.state.wait.until.isoformat() == "2026-03-04T14:00:00+00:00"


async def test_wait_ends_in_the_time_zone_of_the_answering_topic(drive: StartSession) -> None:
    zoned = ANSWERING.replace("script:", "use: [globals.yaml]\nscript:").replace("wait: 3 days", "wait: {at: '9:00'}")
    zoned = zoned.replace("into: it", "into: {var: timezone, type: timezone}")
    session = await drive(zoned, global_variables="globals: [{var: timezone}]")
    await session.reply("Hello?", "Tokyo")
    assert session.said == ["Bye."]
    assert f"{session.state.wait.until:%Y-%m-%d %H:%M}" == session.timers[0][1] == "2026-03-05 00:00"


async def test_quiet_hours_delay_messages_but_no_silent_end(drive: StartSession) -> None:
    session = await drive("""
script: t
timezone: Europe/Berlin
quiet_hours: {from: "13:30", to: "8:00"}
phases:
- phase: p
  topics:
  - topic: t
    actions:
    - {ask: Well?, id: well, output: [well], remind: [{after: 1 hour, say: Hey.}], expire: {after: 2 hours, then: end}}
""")
    assert session.timers == [("expire", "2026-03-04 14:00"), ("remind", "2026-03-05 07:00")]


async def test_last_of_the_reminders_that_quiet_hours_delay_is_sent(drive: StartSession) -> None:
    session = await drive("""
cuebook: 1
script: t
quiet_hours: {from: "13:00", to: "8:00"}
actions: [{ask: How are you?, into: mood, id: q, remind: [{after: 2 h, say: Two.}, {after: 10 h, say: Ten.}]}]
""")
    await session.pass_time(days=1)
    assert [message.content for message in session.messages] == ["How are you?", "Ten."]


async def test_script_reminders_hold_for_questions_without_their_own(drive: StartSession) -> None:
    session = await drive("""
script: t
remind: [{after: 1 day, say: Hello?}]
phases:
- phase: p
  expire: {after: 3 days, then: skip}
  topics:
  - topic: t
    actions:
    - {ask: One?, id: one, output: [one]}
    - {ask: Two?, id: two, output: [two], remind: []}
""")
    assert session.timers == [("remind", "2026-03-05 12:00"), ("expire", "2026-03-07 12:00")]
    await session.reply("x")
    assert session.timers == [("expire", "2026-03-07 12:00")]


async def test_a_script_without_moments_stores_nothing_for_them(drive: StartSession) -> None:
    session = await drive("- {ask: Well?, id: well, output: [well]}")
    assert session.state.timing is None
    assert b"timing" not in session.turns[-1].saved

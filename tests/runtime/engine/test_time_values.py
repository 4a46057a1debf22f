"""Visits of topics and minutes spent in phases, as the conditions and texts of a script read them."""

from datetime import timedelta

from runtime.state.inputs import Rewind
from tests.support.runtime_session import StartSession

VISITS = """
cuebook: 1
script: visits
phases:
  - phase: talk
    topics:
      - topic: first
        actions:
          - {ask: "Again? ({{ visits('talk/first') }})", into: again, id: q}
          - {goto: first, when: visits('talk/first') < 3, id: back}
      - topic: last
        actions:
          - say: "{{ visits('talk/first') }} {{ visits('talk/last') }} {{ visits('talk') }} {{ visits('after') }}"
            id: s
  - phase: after
    topics:
      - topic: end
        actions: [{say: "{{ visits('after') }}", id: t}]
"""

MINUTES = """
cuebook: 1
script: minutes
timezone: Europe/Berlin
phases:
  - phase: talk
    topics:
      - topic: first
        actions:
          - {ask: One?, into: one, id: q1}
          - {wait: 2 days, id: sleep}
          - {ask: Two?, into: two, id: q2}
  - phase: after
    topics:
      - topic: end
        actions: [{say: "{{ minutes_spent('talk') }} {{ minutes_spent('after') }}", id: s}]
"""


async def test_visits_count_entries_of_topics_and_phases(drive: StartSession) -> None:
    session = await drive(VISITS)
    said = [session.said, *[(await session.reply("x")).said for _ in range(3)]]
    assert said == [["Again? (1)"], ["Again? (2)"], ["Again? (3)"], ["3 1 1 0", "1"]]


async def test_minutes_spent_leave_out_waits_for_a_time(drive: StartSession) -> None:
    session = await drive(MINUTES)
    await session.pass_time(minutes=7)
    await session.reply("x")
    await session.pass_time(days=2)
    await session.pass_time(seconds=150)
    await session.reply("y")
    assert session.said[-1] == "9 0"


async def test_minutes_spent_leave_out_what_a_rewind_removed(drive: StartSession) -> None:
    session = await drive(MINUTES)
    first = session.state
    await session.reply("x")
    session.now += timedelta(days=1)
    await session.turn(Rewind(first))
    await session.pass_time(minutes=3)
    await session.reply("x")
    await session.pass_time(days=2)
    await session.reply("y")
    assert session.said[-1] == "3 0"


async def test_scripts_without_these_functions_count_nothing(drive: StartSession) -> None:
    session = await drive("- {ask: Well?, id: q}")
    await session.reply("x")
    assert (session.state.entered, session.state.awake, session.state.last_at) == ({}, {}, None)


async def test_days_of_answers_are_those_of_the_session_zone(drive: StartSession) -> None:
    session = await drive(
        """
        cuebook: 1
        script: zones
        timezone: Pacific/Auckland
        actions:
          - {ask: When?, into: {var: day, type: date}}
          - {say: "{{ day }} {{ day == today }}"}
        """
    )
    assert session.now.hour == 12  # past midnight in Auckland
    await session.reply("today")
    assert session.said == [f"{session.now.date() + timedelta(days=1)} true"]

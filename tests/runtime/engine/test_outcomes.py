"""Milestones that a conversation reaches, and the outcome with which it ends."""

import pytest

from runtime.state.events import Ended, MilestoneReached
from tests.support.runtime_session import StartSession

SCRIPT = """
cuebook: 1
script: test
phases:
  - phase: main
    topics:
      - topic: consent
        milestone: consented
        actions:
          - if: true
            id: both
            milestone: informed
            then:
              - {ask: Do you agree?, into: {var: agrees, type: boolean}, rounds: 1, id: ask, milestone: asked, ON_FAIL}
          - {end: {reason: no consent, outcome: refused}, when: agrees is defined and not agrees, id: decline}
          - {goto: done, when: agrees is undefined, id: leave, milestone: left}
      - topic: done
        actions: [{say: Done.}]
"""


def script(on_fail: str = "on_fail: skip") -> str:
    return SCRIPT.replace("ON_FAIL", on_fail)


@pytest.mark.parametrize(
    ("reply", "on_fail", "reached", "outcome"),
    [
        ("yes", "on_fail: skip", ["asked", "informed", "consented"], "completed"),
        ("no", "on_fail: skip", ["asked", "informed"], "refused"),
        ("hm", "on_fail: skip", ["asked", "informed", "left"], "completed"),
        ("hm", "on_fail: goto done", [], "completed"),
        ("hm", "on_fail: end", [], ""),
        ("hm", "on_fail: {say: Hm., then: goto done}", [], "completed"),
        ("hm", "on_fail: {do: [{say: Hm.}], then: goto done}", [], "completed"),
        ("hm", "on_fail: {do: [{say: Hm.}], then: skip}", ["asked", "informed", "left"], "completed"),
    ],
)
async def test_a_milestone_is_reached_when_its_action_or_topic_ends(
    drive: StartSession, reply, on_fail, reached, outcome
) -> None:
    session = await drive(script(on_fail), saved=True)
    await session.reply(reply)
    assert [each.name for each in session.happened(MilestoneReached)] == reached
    assert (session.state.outcome, session.happened(Ended)[0].outcome) == (outcome, outcome)


async def test_a_question_that_expires_ends_as_abandoned(drive: StartSession) -> None:
    session = await drive("actions: [{ask: Well?, into: a, expire: {after: 1 day, then: end}}]")
    await session.pass_time(days=1)
    assert session.state.outcome == "abandoned"


@pytest.mark.parametrize("written", ["end: {outcome: transferred}", "end: {reason: later, outcome: transferred}"])
async def test_an_outcome_may_be_a_word_of_the_author(drive: StartSession, written) -> None:
    session = await drive(f"actions: [{{{written}}}]")
    assert session.state.outcome == "transferred"


@pytest.mark.parametrize("written", ["end: goodbye", "end: ''", "end: null"])
async def test_an_end_without_an_outcome_has_none(drive: StartSession, written) -> None:
    session = await drive(f"actions: [{{{written}}}]")
    assert (session.state.outcome, session.state.end_reason) == ("", "goodbye" if "goodbye" in written else "")

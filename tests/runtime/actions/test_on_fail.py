"""`on_fail` of questions: what is said and done without a valid answer, and where the conversation continues."""

import pytest

from runtime.state.events import Jumped
from tests.support.runtime_session import StartSession

QUESTIONS = {
    "ask": "{ask: Age?, into: {var: age, type: number}, rounds: 1, id: q, on_fail: ON_FAIL}",
    "choose": "{choose: Tea?, into: age, choices: [one, two], rounds: 1, id: q, on_fail: ON_FAIL}",
    "ai_ask": "{ai_ask: Age?, into: {var: age, type: number}, rounds: 1, id: q, on_fail: ON_FAIL}",
    "form": "{form: about, rounds: 1, id: q, on_fail: ON_FAIL}",
}


def script(kind: str, on_fail: str) -> str:
    return f"""
cuebook: 1
script: test
forms: [{{form: about, fields: [{{field: age, type: number, required: true}}]}}]
phases:
  - phase: main
    topics:
      - topic: first
        actions:
          - {QUESTIONS[kind].replace("ON_FAIL", on_fail)}
          - say: after {{{{ age }}}}
      - topic: second
        actions: [{{say: second}}]
"""


@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("", ["Never mind.", "So 18.", "after 18", "second"]),
        (", then: skip", ["Never mind.", "So 18.", "after 18", "second"]),
        (", then: goto second", ["Never mind.", "So 18.", "second"]),
        (", then: end", ["Never mind.", "So 18."]),
    ],
)
async def test_a_question_without_an_answer_says_does_and_continues(drive: StartSession, kind, then, said) -> None:
    on_fail = f"{{say: Never mind., do: [{{set: {{age: 18}}}}, {{say: 'So {{{{ age }}}}.'}}]{then}}}"
    session = await drive(script(kind, on_fail), saved=True)
    await session.reply("dunno")
    assert session.said == said
    assert session.state.status == "completed"
    assert session.state.end_reason == ("no valid answer to q" if "end" in then else "")


async def test_a_valid_answer_runs_none_of_it(drive: StartSession) -> None:
    session = await drive(script("ask", "{say: Never mind., do: [{set: {age: 18}}], then: end}"))
    await session.reply("30")
    assert session.said == ["after 30", "second"]


async def test_its_actions_may_ask(drive: StartSession) -> None:
    session = await drive(script("ask", "{do: [{ask: Really?, into: why, id: why}], then: goto second}"), saved=True)
    await session.reply("dunno")
    assert session.said == ["Really?"]
    await session.reply("yes")
    assert session.said == ["second"]
    assert session.happened(Jumped) == [Jumped("q", "main", "second")]


async def test_a_text_alone_is_said_before_the_conversation_continues(drive: StartSession) -> None:
    session = await drive(script("ask", "{say: Never mind.}"))
    await session.reply("dunno")
    assert session.said == ["Never mind.", "after ", "second"]

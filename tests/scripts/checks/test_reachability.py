"""Topics that only the end of a time leads to."""

import pytest

from tests.support.script_readers import ReadScript

TALK = """
cuebook: 1
script: talk
phases:
- phase: p
  topics:
  - topic: again
    actions:
    - {ask: Well?, into: x, id: well}
    - {goto: p/again}
  - topic: late
    actions:
    - {say: It is late., id: late}
"""
SKILL = TALK.replace("    - {ask: Well?, into: x, id: well}\n", "    - {call: asking, id: call}\n") + (
    "skills:\n- {skill: asking, actions: [{ask: Well?, into: x, id: well}]}\n"
)
EXPIRE = "expire: {after: 1 day, then: goto p/late}"


def unreachable(read: ReadScript, text: str) -> list[str]:
    reading = read(text)
    assert reading.script is not None, reading.problems
    return [problem.path for problem in reading.problems if problem.code == "TOPIC_UNREACHABLE"]


@pytest.mark.parametrize(
    ("before", "line"),
    [("phases:", ""), ("  topics:", "  "), ("    - {ask", "")],
    ids=["script", "phase", "question"],
)
def test_an_expiry_leads_to_a_topic(read: ReadScript, before: str, line: str) -> None:
    assert unreachable(read, TALK) == ["p/late"]
    if "ask" in before:
        expiring = TALK.replace("id: well}", f"id: well, {EXPIRE}}}")
    else:
        expiring = TALK.replace(before, f"{line}{EXPIRE}\n{before}", 1)
    assert unreachable(read, expiring) == []


def test_a_shared_expiry_counts_for_questions_only(read: ReadScript) -> None:
    quiet = TALK.replace("    - {ask: Well?, into: x, id: well}\n", "    - {ask: Well?, into: x, id: well, OWN}\n")
    own = quiet.replace("OWN", "expire: {after: 1 day, then: end}")
    assert unreachable(read, own.replace("phases:", f"{EXPIRE}\nphases:", 1)) == ["p/late"]


def test_a_message_without_a_reply_never_expires(read: ReadScript) -> None:
    own = "{ask: Well?, into: x, id: well, expire: {after: 1 day, then: end}}"
    spoken = TALK.replace("{ask: Well?, into: x, id: well}", own + "\n    - {say: Well., id: spoken}")
    assert spoken != TALK
    assert unreachable(read, spoken.replace("phases:", f"{EXPIRE}\nphases:", 1)) == ["p/late"]


def test_the_expiry_of_the_script_counts_in_skills(read: ReadScript) -> None:
    assert unreachable(read, SKILL) == ["p/late"]
    assert unreachable(read, SKILL.replace("phases:", f"{EXPIRE}\nphases:", 1)) == []


SKIPPED = """
cuebook: 1
script: talk
declare: [{var: returning, type: boolean, value: false}]
phases:
- phase: back
  when: returning
  topics: [{topic: hello, actions: [{say: Hello again., id: again}, {end: done, id: done}]}]
- phase: new
  topics: [{topic: hello, actions: [{say: Hello., id: hello}]}]
"""


def test_a_first_phase_may_be_skipped(read: ReadScript) -> None:
    problems = [(problem.code, problem.message) for problem in read(SKIPPED).problems]
    assert "TOPIC_UNREACHABLE" not in dict(problems)
    never = read(SKIPPED.replace("when: returning", "when: false")).problems
    assert [each.message for each in never if each.code == "TOPIC_UNREACHABLE"] == ["no path leads to phase back"]

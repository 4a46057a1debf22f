"""Counting with answers: one without a type is read as a number, and what cannot be worked out is no value."""

import pytest

from tests.support.runtime_session import StartSession

ASK = "- {ask: How old?, id: ask_age, output: [{get: age}]}\n"
NEXT = "- {ask: And then?, id: then, output: [{get: rest}]}\n"
USES = (
    "- {set: {next: age + 1}, id: use}",
    "- {set: {next: 2 * age}, id: use}",
    "- {say: '{{ (age | default(0)) - 1 }}', id: use}",
    "- {say: Well., id: use, when: age / 2 > 9}",
    "- {emit: {event: e, data: {it: -age}}, id: use}",
    "- {set: {next: age | round}, id: use}",
)


@pytest.mark.parametrize("use", USES)
async def test_an_answer_that_is_counted_with_is_asked_for_again(drive: StartSession, use) -> None:
    session = await drive(ASK + use + "\n" + NEXT)
    await session.reply("no idea")
    assert session.said == ["Sorry, I need a number here."]
    await session.reply("twenty")
    assert (session.said[-1], session.values["age"], session.warnings) == ("And then?", 20, [])


async def test_an_answer_that_nobody_counts_with_stays_a_text(drive: StartSession) -> None:
    session = await drive(ASK + "- {set: {both: age + age, more: age ~ 1}, id: use}\n" + NEXT)
    await session.reply("twenty")
    assert (session.values["both"], session.values["more"]) == ("twentytwenty", "twenty1")


async def test_the_answer_of_another_topic_is_its_own(drive: StartSession) -> None:
    session = await drive("""
        script: test
        phases:
        - phase: p
          topics:
          - topic: one
            actions: [{ask: How old?, id: a, output: [{get: age}]}, {ask: And?, id: b, output: [{get: more}]}]
          - topic: two
            actions: [{set: {age: 1}, id: c}, {set: {next: age + 1}, id: d}]
    """)
    await session.reply("twenty")
    assert session.values["age"] == "twenty"


@pytest.mark.parametrize(
    ("use", "warning"),
    [
        ("set: {next: old + 1}", "`+` does not support a text and a number (`old` is a text)"),
        ("set: {next: -old}", "`-` does not support a text (`old` is a text)"),
        ("set: {next: '[1, old] | sum'}", "sum supports numbers only (`old` is a text)"),
        ("set: {next: '[1, old] | max'}", "`max` does not support a list (`old` is a text)"),
        (
            "set: {next: old + zero}",
            "`+` does not support a text and a number (`old` is a text, `zero` is a number)",
        ),
        ("say: 'Next: {{ old + 1 }}'", "`+` does not support a text and a number (`old` is a text)"),
        ("say: yes, when: old - 1", "`-` does not support a text and a number (`old` is a text)"),
        ("emit: {event: e, data: {next: old + 1}}", "`+` does not support a text and a number (`old` is a text)"),
        ("foreach: old as each, do: [{say: x, id: x}]", "foreach goes through a list, not a text"),
    ],
)
async def test_what_cannot_be_worked_out_is_no_value(drive: StartSession, use, warning) -> None:
    session = await drive("- {set: {old: \"'very'\", zero: 0}, id: given}\n- {" + use + ", id: use}\n" + NEXT)
    assert session.warnings == [("expression_failed", f"line 8: {warning}")]
    assert session.said[-1] == "And then?"
    assert "next" not in session.values or session.values["next"] is None
    assert [each for each in session.said if "Next" in each] == (["Next: "] if use.startswith("say: 'N") else [])

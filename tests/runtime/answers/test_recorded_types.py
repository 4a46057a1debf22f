"""The type that is recorded with the value of a variable that nobody declared."""

import pytest

from runtime.state.events import VariableChanged
from runtime.state.inputs import FormInput
from scripts.model.variables import Output, taken_type
from tests.support.runtime_session import StartSession

QUESTIONS = """
- {choose: plan, id: plan, question: What now?, choices: [{walk: Walk}, {key: t, text: Talk, value: 3}]}
- {ask: How?, id: how, output: [{get: how, choices: [well, badly]}]}
- {ask: When?, id: when, output: [{get: day, type: date}]}
- {ask: Why?, id: why, output: [{get: why}, {set: again, value: why}]}
- {set: {copied: how}, id: copy}
"""


def types(session) -> dict[str, str]:
    return {each.name: each.type for each in session.happened(VariableChanged)}


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        (["walk", "well"], {"plan": "choice", "how": "choice"}),
        (["t", "badly"], {"plan": "number", "how": "choice"}),
    ],
)
async def test_a_value_has_the_type_of_what_took_it(drive: StartSession, replies, expected) -> None:
    session = await drive(QUESTIONS)
    found = {}
    for reply in [*replies, "2026-03-01", "no reason"]:
        await session.reply(reply)
        found |= types(session)
    assert {name: found[name] for name in expected} == expected
    assert (found["day"], found["why"], found["again"], found["copied"]) == ("date", "text", "text", "text")


@pytest.mark.parametrize(
    ("value", "output", "expected"),
    [
        ("in Rome", Output(get="how", choice_list=("well",), fallback="raw"), "text"),
        ("in Rome", Output(get="how", type="choice"), "text"),
        ("in Rome", Output(get="day", type="date", fallback="raw"), "text"),
        ("2026-03-01", Output(get="day"), "text"),
        (None, Output(get="day", type="date"), "null"),
    ],
)
def test_what_does_not_fit_its_output_is_text(value, output, expected) -> None:
    assert taken_type(value, output) == expected


async def test_fields_of_forms_are_of_their_types(drive: StartSession) -> None:
    session = await drive("""
script: form
forms:
  - form: about
    fields:
      - {field: how, choices: [well, badly]}
      - {field: born, type: date}
      - {field: name}
      - {field: known, type: date, computed: born}
phases: [{phase: p, topics: [{topic: t, actions: [{form: about, id: fill}]}]}]
    """)
    await session.turn(FormInput({"how": "well", "born": "1990-01-02", "name": "Ana"}))
    assert types(session) == {"how": "choice", "born": "date", "name": "text", "known": "date"}

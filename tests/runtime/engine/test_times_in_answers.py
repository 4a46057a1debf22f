"""Questions and forms that ask for times, moments and time zones."""

import pytest

from runtime.state.events import VariableChanged
from runtime.state.inputs import FormInput
from tests.support.runtime_session import StartSession

QUESTIONS = """
cuebook: 1
script: times
timezone: Europe/Berlin
actions:
  - ask: When do you get up?
    into: {var: up, type: time, min: "5:00", max: "11:00"}
  - ask: When is your appointment?
    into: {var: appointment, type: datetime, validate: [{unless: appointment > now, say: "That is over."}]}
  - ask: Where are you?
    into: {var: zone, type: timezone}
  - say: "{{ up }}, {{ appointment - hours(1) }}, {{ zone }}{% if up < '07:00' %}, early{% endif %}"
"""

FORM = """
cuebook: 1
script: call
forms:
  - form: call
    fields:
      - {field: at, label: At, type: time, required: true}
      - {field: zone, label: Zone, type: timezone, required: true}
      - {field: arrival, label: Arrival, type: datetime, min: "2026-01-01 00:00"}
actions:
  - form: call
  - say: "{{ at }} {{ zone }} {{ arrival }}"
"""


async def test_times_are_read_checked_and_recorded_with_their_types(drive: StartSession) -> None:
    session = await drive(QUESTIONS)
    await session.reply("at noon")
    assert session.said[-1] == "Sorry, I need a value in this range: 5:00 – 11:00."
    await session.reply("early")
    assert session.said[-1] == "Sorry, I need a time here, such as 9:30 or 9 pm."
    await session.reply("half past six")
    assert [(each.name, each.type, each.new) for each in session.happened(VariableChanged)] == [("up", "time", "06:30")]
    await session.reply("yesterday at 9")
    assert session.said[-1] == "That is over."
    await session.reply("tomorrow")
    assert session.said[-1] == "Sorry, I need a date and a time here, such as 2026-01-31 9:30."
    await session.reply("2099-07-01 9 pm")
    await session.reply("I am in Lisbon")
    assert session.said[-1] == "06:30, 2099-07-01T20:00:00+02:00, Europe/Lisbon, early"


async def test_fields_of_a_form_have_these_types(drive: StartSession) -> None:
    session = await drive(FORM)
    await session.turn(FormInput({"at": "25:00", "zone": "Berlin", "arrival": "2025-01-01T00:00"}))
    assert session.state.wait is not None and session.state.wait.form is not None
    assert set(session.state.wait.form.errors) == {"at", "zone", "arrival"}
    await session.turn(FormInput({"at": "9:05", "zone": "Europe/Berlin", "arrival": "2026-05-01T10:00"}))
    assert session.said[-1] == "09:05 Europe/Berlin 2026-05-01T10:00:00"


async def test_a_form_is_filled_in_with_words(drive: StartSession) -> None:
    session = await drive(FORM)
    await session.reply("At: half past nine, Zone: Paris, Arrival: 2026-05-01 10:00")
    assert session.said[-1] == "09:30 Europe/Paris 2026-05-01T10:00:00"


async def test_a_number_beside_other_questions_is_no_time(drive: StartSession) -> None:
    session = await drive(
        QUESTIONS.partition("actions:")[0]
        + "actions:\n  - ask: How many, and when?\n    into: [{var: n, type: number}, {var: at, type: time}]\n"
        + "  - say: '{{ n }} at {{ at }}'\n"
    )
    await session.reply("4")
    assert "at" not in session.state.progress.values
    await session.reply("9")
    assert session.said[-1] == "4 at 09:00"


@pytest.mark.parametrize(
    ("moment", "hour"),
    [("2026-03-29T02:30", "2026-03-29T04:30:00+02:00"), ("2026-10-25T02:30", "2026-10-25T02:30:00+01:00")],
    ids=["skipped", "doubled"],
)
async def test_a_moment_when_the_clocks_change(drive: StartSession, moment: str, hour: str) -> None:
    script = QUESTIONS.partition("actions:")[0] + (
        "actions:\n  - ask: When?\n    into: {var: at, type: datetime}\n  - say: '{{ at + hours(1) }}'\n"
    )
    session = await drive(script)
    await session.reply(moment)
    assert session.said[-1] == hour

"""`add`: a value is appended to a list."""

import pytest

from runtime.engine.engine import TurnFailed
from scripts.parse.read_script import Source, read_script
from tests.support.runtime_session import NewSession, StartSession

LIST = """
cuebook: 1
script: list
declare: [{var: seen, type: list}, {var: count, type: number, value: 1}]
actions:
  - {ask: Where have you been?, id: where, into: place}
  - {add: {seen: =place, kinds: [town, =count]}, id: keep}
  - {add: {seen: and more}, id: more}
  - {user_say: ok, id: ok}
"""


@pytest.mark.parametrize("saved", [False, True])
async def test_values_are_appended_in_order_also_to_unset_lists(prepare: NewSession, saved) -> None:
    session = await prepare(LIST, saved=saved).start()
    await session.reply("Rome")
    assert session.values["seen"] == ["Rome", "and more"]
    assert session.values["kinds"] == [["town", 1]]


async def test_a_value_that_is_no_list_fails_the_turn_and_stays(drive: StartSession) -> None:
    session = await drive(LIST.replace("{seen: and more}", "{count: 2}"))
    with pytest.raises(TurnFailed, match="`count` is 1, not a list"):
        await session.reply("Rome")


def test_a_variable_of_another_type_is_reported() -> None:
    reading = read_script(Source(LIST.replace("{seen: and more}", "{count: 2}")))
    (problem,) = [each for each in reading.problems if each.code == "TYPE_CLASH"]
    assert problem.message == "`add` needs a list, but `count` is a number"


def test_the_variable_counts_as_set() -> None:
    reading = read_script(Source(LIST.replace("- {user_say: ok, id: ok}", "- {say: '{{ kinds | length }}', id: told}")))
    assert not [each for each in reading.problems if each.code.startswith("VARIABLE_")]


def test_a_key_that_is_no_field_of_the_records_is_an_error() -> None:
    text = LIST.replace("into: place", "into: {add_to: seen, key: nam, fields: [name, town]}").replace(
        "=place", "=seen"
    )
    (problem,) = read_script(Source(text)).errors
    assert (problem.code, problem.message) == ("ENUM_VALUE_INVALID", "`nam` is no field of these records")
    assert "name" in problem.fix

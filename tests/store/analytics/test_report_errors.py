"""A slip in what a report is asked is an error with a way out, in SQL too; never an empty table."""

from collections.abc import Iterator

import duckdb
import pytest

from store.analytics.reporting import REPORTS, Report
from tests.support.random_sessions import Traffic


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with Traffic(1).model.written() as connection:
        yield connection


SLIPS = {
    "script": ("'intke'", "there is no script `intke`; did you mean `intake`?"),
    "version": ("9", "there is no version `9`; there are 1, 2"),
    "level": ("'topics'", "`level` is one of phase, topic"),
    "period": ("'year'", "`period` is one of day, week, month, not `year`"),
    "idle_days": ("-1", "`idle_days` is a number from 0, not -1"),
    "milestone": ("'ask_9'", "there is no milestone, action or topic `ask_9`; did you mean `ask_1`?"),
    "role": ("'bot'", "`role` is one of user, assistant, system, tool, not `bot`"),
    "hits_max": ("-1", "LIMIT/OFFSET cannot be negative"),
    "experiment": ("'greting'", "there is no experiment `greting`; did you mean `greeting`?"),
    "unit": ("'person'", "`unit` is one of session, user, not `person`"),
    "base": ("'z'", "there is no arm `z`; there are a, b, c"),
    "goal_phase": ("'parts'", "there is no phase `parts`; did you mean `part`?"),
    "goal_topic": ("'helo'", "there is no topic `helo`; did you mean `hello`?"),
    "goal_action": ("'ask_7'", "there is no action `ask_7`; did you mean `ask_1`?"),
    "goal_variable": ("'moody'", "there is no variable `moody`; did you mean `mood`?"),
    "goal_value": ("'low'", "`goal_value` is the value of a variable: name it as `goal_variable`"),
    "session": ("'00000000-0000-0000-0000-000000000001'", "there is no session `00000000-0000-0000-0000-000000000001`"),
    "turn": ("1000", "the session has no turn 1000; its turns are 0 to "),
    "since": None,
    "until": None,
    "zone": ("'Mars/Base'", "Unknown TimeZone 'Mars/Base'"),
    "words": None,
}
NEEDED = {"script": "'intake'", "words": "'river'", "session": f"'{Traffic(1).model.sessions[0].session_id}'"}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("report", "parameter"), [(report, each.name) for report in REPORTS for each in report.parameters]
)
def test_a_slip_is_an_error(connection: duckdb.DuckDBPyConnection, report: Report, parameter: str) -> None:
    slip = SLIPS[parameter]
    if slip is None:  # any time and any words may be asked for
        return
    value, says = slip
    given = {each.name: NEEDED[each.name] for each in report.parameters if each.needed} | {parameter: value}
    asked = ", ".join(f"{name} := {text}" for name, text in given.items())
    for select in ("FROM", "SELECT count(*) FROM"):
        with pytest.raises(duckdb.Error) as caught:
            connection.execute(f"{select} {report.name}({asked})").fetchall()
        assert says in str(caught.value)

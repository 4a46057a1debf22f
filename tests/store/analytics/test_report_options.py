"""A report is asked for by name; what is asked is checked, and no text of the caller's becomes SQL."""

from typing import Any

import duckdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.analytics.charts.chart import chart_of
from store.analytics.reporting import REPORTS, Report, report_named, statement
from store.interface.errors import ReportRefused
from tests.support.effort import repeats
from tests.support.paths import ROOT
from tests.support.random_sessions import Traffic

NEEDED = {"script": "intake", "words": "river", "session": str(Traffic(1).model.sessions[0].session_id)}
EVERY = pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
HOSTILE = ["'; DROP TABLE turns; --", "\\'", "$$", "'''", "--"]
CHINESE = msgspec.json.decode((ROOT / "api/analytics/report_texts.zh.json").read_bytes(), type=dict[str, Any])
"""The texts of the console."""
_BUILDING = {"chosen_sessions", "script_steps"}


@pytest.fixture(scope="module")
def connection() -> Any:
    with Traffic(1).model.written() as connection:
        yield connection


def needed(report: Report) -> dict[str, str]:
    return {each.name: NEEDED[each.name] for each in report.parameters if each.needed}


def test_every_report_of_a_file_is_listed(connection: duckdb.DuckDBPyConnection) -> None:
    found = connection.execute("SELECT function_name FROM duckdb_functions() WHERE function_type = 'table_macro'")
    there = {name for (name,) in found.fetchall() if not name.startswith(("duckdb_", "pragma_", "histogram", "which_"))}
    assert {report.name for report in REPORTS} | _BUILDING <= there


@EVERY
def test_a_report_is_listed_with_the_parameters_it_has(connection: duckdb.DuckDBPyConnection, report: Report) -> None:
    found = connection.execute(
        "SELECT parameters FROM duckdb_functions() WHERE function_name = ?", [report.name]
    ).fetchall()
    assert found == [([each.name for each in report.parameters],)]


@EVERY
def test_a_report_has_a_comment_in_the_file(connection: duckdb.DuckDBPyConnection, report: Report) -> None:
    found = connection.execute("SELECT comment FROM duckdb_functions() WHERE function_name = ?", [report.name])
    ((comment,),) = found.fetchall()
    assert comment.startswith(f"{report.title}. {report.says}")
    assert all(f"{each.name}: {each.says}" in comment for each in report.parameters)


@EVERY
def test_a_parameter_that_is_left_out_is_its_default(connection: duckdb.DuckDBPyConnection, report: Report) -> None:
    left_out = connection.execute(statement(report, needed(report))).fetchall()
    given = {each.name: str(each.default) for each in report.parameters if each.default is not None}
    assert connection.execute(statement(report, needed(report) | given)).fetchall() == left_out


@EVERY
def test_a_chart_shows_columns_that_the_report_has(connection: duckdb.DuckDBPyConnection, report: Report) -> None:
    chart = chart_of(report.name)
    if chart is None:
        return
    connection.execute(statement(report, needed(report)))
    columns = {name for name, *_ in connection.description or ()}
    single = ("series", "count", "lower", "upper", "share", "previous", "share_of_previous")
    named = {*chart.labels, *chart.values, *(getattr(chart, name) for name in single)} - {None}
    assert named <= columns
    assert chart.title == report.title


@EVERY
def test_a_report_is_described_in_chinese(connection: duckdb.DuckDBPyConnection, report: Report) -> None:
    connection.execute(statement(report, needed(report)))
    columns = {name for name, *_ in connection.description or ()}
    assert report.name in CHINESE["reports"]
    assert columns <= CHINESE["columns"].keys()
    assert {each.name for each in report.parameters} <= CHINESE["parameters"].keys()
    assert {choice for each in report.parameters for choice in each.choices} <= CHINESE["choices"].keys()


def test_nothing_is_described_in_chinese_that_there_is_not() -> None:
    parameters = {report.name: {each.name for each in report.parameters} for report in REPORTS}
    assert CHINESE["reports"].keys() == parameters.keys()
    assert CHINESE["parameters"].keys() == set().union(*parameters.values())
    for name, texts in CHINESE["reports"].items():
        assert texts["parameters"].keys() <= parameters[name]


@pytest.mark.parametrize(
    ("name", "asked", "says"),
    [
        ("funel", {}, "there is no report `funel`; did you mean `funnel`?"),
        ("xyz", {}, "there is no report `xyz`; there are funnel, drop_off, "),
        ("funnel", {}, "the report funnel needs `script`: id of the script"),
        ("funnel", {"script": " "}, "the report funnel needs `script`: id of the script"),
        (
            "funnel",
            {"script": "a", "levl": "topic"},
            "the report funnel has no parameter `levl`; did you mean `level`?",
        ),
        ("funnel", {"script": "a", "level": "turn"}, "`level` is one of phase, topic, action, not 'turn'"),
        ("funnel", {"script": "a", "version": "two"}, "`version` is a whole number from 0 to 2147483647, not 'two'"),
        ("funnel", {"script": "a", "version": "-1"}, "`version` is a whole number from 0 to 2147483647, not '-1'"),
        (
            "funnel",
            {"script": "a", "since": "soon"},
            "`since` is a date such as 2025-03-01, or a date and time, not 'soon'",
        ),
        ("activity", {"since": "2025-03-02", "until": "2025-03-01"}, "`until` is not after `since`"),
        ("activity", {"since": "2025-03-02", "until": "2025-03-02"}, "`until` is not after `since`"),
        ("completion", {"idle_days": "nan"}, "`idle_days` is a number from 0 to 1000000, not 'nan'"),
        ("session_at", {"session": "x'"}, '`session` is the id of a session, not "x\'"'),
        ("activity", {"zone": "Mars"}, "`zone` is a time zone such as Asia/Shanghai, not 'Mars'"),
        ("activity", {"zone": "../etc"}, "`zone` is a time zone such as Asia/Shanghai, not '../etc'"),
        ("completion", {"script": "a\0b"}, "`script` is text without the character NUL, not 'a\\x00b'"),
    ],
)
def test_an_invalid_option_is_refused_with_its_fix(name: str, asked: dict[str, str], says: str) -> None:
    with pytest.raises(ReportRefused) as refused:
        statement(report_named(name), asked)
    assert str(refused.value).startswith(says)


def test_a_report_is_a_select_that_an_analyst_could_write() -> None:
    asked = {
        "script": "o'clock",
        "level": "topic",
        "version": "2",
        "since": "2025-03-01",
        "until": "2025-03-02T10:00+01:00",
    }
    assert statement(report_named("funnel"), asked) == (
        "FROM funnel(script := 'o''clock', level := 'topic', version := 2, "
        "since := TIMESTAMPTZ '2025-03-01T00:00:00+00:00', until := TIMESTAMPTZ '2025-03-02T10:00:00+01:00')"
    )


def test_a_date_is_one_of_the_zone_of_the_report() -> None:
    asked = {"since": "2025-03-30", "until": "2025-03-31T00:00Z", "zone": "Europe/Berlin"}
    assert statement(report_named("activity"), asked) == (
        "FROM activity(since := TIMESTAMPTZ '2025-03-30T00:00:00+01:00', "
        "until := TIMESTAMPTZ '2025-03-31T00:00:00+00:00', zone := 'Europe/Berlin')"
    )


@settings(max_examples=repeats(30))
@given(text=st.text(max_size=40).filter(lambda text: "\0" not in text) | st.sampled_from(HOSTILE))
def test_a_text_is_a_text_whatever_is_in_it(text: str) -> None:
    sql = statement(report_named("completion"), {"script": text})
    literal = sql.removeprefix("FROM completion(script := ").removesuffix(")")
    with duckdb.connect(":memory:") as connection:
        assert connection.execute(f"SELECT {literal}").fetchall() == [(text,)]

"""Dates in expressions: durations, differences, comparisons across zones, and the functions of time."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scripts.expressions.expressions import compile_expression
from scripts.expressions.sandbox import ExpressionFailed, ExpressionInvalid
from tests.support.script_readers import Evaluate, ReadScript

BERLIN = ZoneInfo("Europe/Berlin")
NAMES = {
    "now": datetime(2026, 3, 28, 12, 0, tzinfo=BERLIN),  # the day before the clocks go forward
    "today": date(2026, 3, 28),
    "born": "1990-05-03",
    "appointment": "2026-04-01T09:00",
    "hours": 4,
    "bedtime": "22:30",
}
DAYS = st.dates(date(1900, 1, 1), date(2100, 1, 1))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("born + days(1)", "1990-05-04"),
        ("born - weeks(1)", "1990-04-26"),
        ("days(1) + born", "1990-05-04"),
        ("born + days(1) + hours(12)", "1990-05-04T12:00:00+02:00"),
        ("born + (days(2) - days(1))", "1990-05-04"),
        ("appointment - days(1)", "2026-03-31T09:00:00+02:00"),
        ("now + days(1)", "2026-03-29T12:00:00+02:00"),  # by the clock
        ("now + hours(24)", "2026-03-29T13:00:00+02:00"),  # elapsed
        ("today - born", 13_113),
        ("(today - born) // 365", 35),
        ("now - appointment", -3.875),
        ("days_since(born)", 13_113),
        ("days_since('2026-03-27T23:30:00Z')", 0),  # past midnight in Berlin
        ("minutes_since('2026-03-28T11:00')", 60),
        ("hours + 1", 5),
        ("today + hours(hours)", "2026-03-28T04:00:00+01:00"),
        ("(today + days(3)).day", 31),
    ],
)
def test_dates_count(evaluate: Evaluate, source: str, value: object) -> None:
    rendered = evaluate(source, **NAMES)
    assert (rendered.value, rendered.failures, rendered.unset) == (value, (), ())


@pytest.mark.parametrize(
    "source",
    [
        "appointment > now",
        "appointment < now + days(5)",
        "'2026-03-28T11:00:00Z' == now",
        "'2026-03-28T12:00+02:00' < '2026-03-28T11:00+00:00'",
        "born < today",
        "today in [today]",
        "now < '18:00'",
        "now == '12:00'",
        "'9:30' < now",
        "appointment == bedtime or appointment < bedtime",
    ],
)
def test_moments_are_compared_as_moments(evaluate: Evaluate, source: str) -> None:
    assert evaluate(source, **NAMES).value is True


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("today + 1", "`+` does not support a date and a number"),
        ("'tomorrow' + days(1)", "`+`: a duration is added to a date, or subtracted from one"),
        ("days('x')", "`days`: needs a number"),
        ("days(1.5)", "`days`: needs a whole number"),
        ("days(10000)", "`days`: a duration has at most 3,660 days"),
        ("'9999-12-31' + days(1)", "`+`: the date would be out of range"),
        ("days_since('tomorrow')", "`days_since`: needs a date such as 2026-01-31"),
        ("visits(3)", "`visits`: needs the id of a phase or topic: 'phase' or 'phase/topic'"),
        ("2 * days(1)", "`*` does not support a number and a duration"),
    ],
)
def test_unsuitable_operands_give_no_value(evaluate: Evaluate, source: str, failure: str) -> None:
    rendered = evaluate(source, **NAMES)
    assert (rendered.value, rendered.failures) == (None, (failure,))


@pytest.mark.parametrize("source", ["today - gone", "days_since(gone)", "today + days(gone)"])
def test_unset_names_are_reported(evaluate: Evaluate, source: str) -> None:
    rendered = evaluate(source, **NAMES)
    assert (rendered.value, rendered.unset, rendered.failures) == (None, ("gone",), ())


def test_durations_are_not_values(evaluate: Evaluate, render: Evaluate) -> None:
    with pytest.raises(ExpressionFailed, match="a variable cannot store a duration; add it to a date"):
        evaluate("days(3)", **NAMES)
    with pytest.raises(ExpressionFailed, match="a duration cannot be converted to text"):
        render("{{ days(3) }}", **NAMES)


@pytest.mark.parametrize("source", ["days()", "days(1, 2)", "days(n=1)"])
def test_time_functions_take_one_value(source: str) -> None:
    with pytest.raises(ExpressionInvalid, match="`days` takes one value, in parentheses"):
        compile_expression(source)


def test_time_functions_are_no_reads() -> None:
    compiled = compile_expression("appointment - days(lead) > today and visits('a/b') < 3")
    assert compiled.reads == {"appointment", "lead"}
    assert compiled.facts.counted == set()


@given(day=DAYS, number=st.integers(-3_000, 3_000))
def test_adding_and_subtracting_days_is_the_same_day(evaluate: Evaluate, day: date, number: int) -> None:
    shifted = evaluate("day + days(number)", day=day.isoformat(), number=number).value
    assert shifted == (day + timedelta(days=number)).isoformat()
    assert evaluate("shifted - days(number)", shifted=shifted, number=number).value == day.isoformat()
    assert evaluate("shifted - day", shifted=shifted, day=day.isoformat()).value == number


@example(moment=datetime(2008, 10, 26, 1, tzinfo=UTC), number=0)  # the second 2:00 of that night
@given(
    moment=st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    number=st.integers(-80_000, 80_000),
)
def test_elapsed_minutes_ignore_the_clocks(evaluate: Evaluate, moment: datetime, number: int) -> None:
    local = moment.astimezone(BERLIN)
    later = evaluate("at + minutes(number)", at=local, number=number, now=local).value
    assert datetime.fromisoformat(str(later)) - moment == timedelta(minutes=number)


def test_unknown_places_are_reported(read: ReadScript) -> None:
    reading = read(
        """
        cuebook: 1
        script: places
        actions:
          - {say: "{{ visits('main/mian') }} {{ minutes_spent('main') }} {{ minutes_spent('main/main') }}"}
        """
    )
    assert [str(each) for each in reading.problems if each.code == "GOTO_UNKNOWN"] == [
        "talk.yaml:5:11 GOTO_UNKNOWN `visits`: unknown phase or topic main/mian",
        "talk.yaml:5:11 GOTO_UNKNOWN `minutes_spent`: unknown phase or topic main/main",
    ]


@pytest.mark.parametrize(
    ("declared", "codes"),
    [("{var: born, type: date}", []), ("{var: born, type: number}", []), ("{var: born, type: text}", ["TYPE_CLASH"])],
)
def test_dates_and_numbers_have_differences(read: ReadScript, declared: str, codes: list[str]) -> None:
    reading = read(
        f"""
        cuebook: 1
        script: ages
        actions:
          - {{ask: When?, into: {declared}}}
          - {{ask: And when?, into: {{var: met, type: date}}}}
          - {{say: "{{{{ met - born }}}} days"}}
        """
    )
    assert [each.code for each in reading.problems if each.severity != "note"] == codes

"""When a moment comes, in time zones whose clocks change."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.timers.due import after_duration, after_quiet_hours, at_clock, due_moment, next_clock
from scripts.model.moments import (
    WEEKDAYS,
    Clock,
    DateValue,
    Duration,
    Moment,
    QuietHours,
    parse_clock,
    parse_duration,
)
from tests.support.effort import repeats

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata", "UTC"]
MOMENTS = st.datetimes(datetime(2011, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
CLOCKS = st.times().map(lambda each: each.replace(second=0, microsecond=0))
BERLIN = ZoneInfo("Europe/Berlin")
SPRING, AUTUMN = date(2026, 3, 29), date(2026, 10, 25)  # 02:00 becomes 03:00; 03:00 becomes 02:00


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "days", "seconds"),
    [("3 days", 3, 0), ("1 day", 1, 0), ("24 hours", 0, 86_400), ("2 weeks 30 minutes", 14, 1_800), ("5seconds", 0, 5)],
)
def test_a_duration_is_days_and_elapsed_time(text, days, seconds) -> None:
    assert parse_duration(text) == Duration(text, days, seconds)


@pytest.mark.parametrize("text", ["", "3", "days", "0 days", "-1 day", "3 fortnights", "1.5 hours", "4000000 days"])
def test_what_is_no_duration_is_refused(text) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize("text", ["24:00", "9:60", "9", "9.00", "9 am", ""])
def test_what_is_no_clock_time_is_refused(text) -> None:
    assert parse_clock(text) is None


def test_a_skipped_clock_time_is_the_next_valid_moment() -> None:
    assert at_clock(SPRING, time(2, 30), BERLIN) == utc("2026-03-29T01:00")
    assert at_clock(SPRING, time(3, 30), BERLIN) == utc("2026-03-29T01:30")


def test_a_clock_time_that_occurs_twice_is_the_first_one() -> None:
    assert at_clock(AUTUMN, time(2, 30), BERLIN) == utc("2026-10-25T00:30")
    moment = Moment(clock=Clock("2:30"))
    assert next_clock(utc("2026-10-25T00:30"), moment, BERLIN) == utc("2026-10-26T01:30")  # not again an hour later


def test_skipped_day_begins_with_the_next_one() -> None:
    apia = ZoneInfo("Pacific/Apia")
    assert at_clock(date(2011, 12, 30), time(9), apia) == at_clock(date(2011, 12, 31), time(0), apia)


def test_day_keeps_the_clock_time_and_24_hours_are_elapsed_time() -> None:
    before = utc("2026-03-28T11:00")
    assert after_duration(before, Duration("1 day", 1), BERLIN) == utc("2026-03-29T10:00")
    assert after_duration(before, Duration("24 hours", 0, 86_400), BERLIN) == utc("2026-03-29T11:00")


@pytest.mark.parametrize(
    ("until", "clock", "due"),
    [
        ("2026-07-01", None, "2026-06-30T22:00"),
        ("2026-07-01", Clock("9:00"), "2026-07-01T07:00"),
        ("2026-07-01T09:30", None, "2026-07-01T07:30"),
        ("2026-07-01T09:30Z", None, "2026-07-01T09:30"),
    ],
)
def test_a_date_counts_in_the_zone_of_the_session(until, clock, due) -> None:
    moment = Moment(until=DateValue(until), clock=clock)
    assert due_moment(moment, utc("2026-01-01T00:00"), BERLIN, until) == utc(due)


@pytest.mark.parametrize("until", ["", "soon", "31.01.2026"])
def test_a_date_that_is_none_never_comes(until) -> None:
    assert due_moment(Moment(until=DateValue("=day")), utc("2026-01-01T00:00"), BERLIN, until) is None


def test_a_moment_beyond_the_last_year_never_comes() -> None:
    moment = Moment(after=Duration("10 days", 10))
    assert due_moment(moment, utc("9999-12-30T00:00"), BERLIN) is None


def test_quiet_hours_delay_to_their_end_also_over_midnight() -> None:
    quiet = QuietHours(begin=Clock("21:00"), end=Clock("8:00"))
    assert after_quiet_hours(utc("2026-01-10T21:30"), quiet, BERLIN) == utc("2026-01-11T07:00")
    assert after_quiet_hours(utc("2026-01-10T03:00"), quiet, BERLIN) == utc("2026-01-10T07:00")
    assert after_quiet_hours(utc("2026-01-10T12:00"), quiet, BERLIN) == utc("2026-01-10T12:00")
    assert after_quiet_hours(utc("9999-12-31T22:00"), quiet, BERLIN) == utc("9999-12-31T22:00")
    assert after_quiet_hours(utc("9999-12-31T23:30"), quiet, BERLIN) == utc("9999-12-31T23:30")


@settings(max_examples=repeats(300), deadline=None)
@given(MOMENTS, CLOCKS, st.sampled_from(ZONES), st.sets(st.sampled_from(WEEKDAYS)))
def test_next_clock_time_is_later_and_is_what_the_clock_shows(start, clock, zone, days) -> None:
    moment = Moment(clock=Clock(f"{clock:%H:%M}"), days=tuple(days))
    due = next_clock(start, moment, ZoneInfo(zone))
    local = due.astimezone(ZoneInfo(zone))
    assert start < due <= start + timedelta(days=9)
    is_skipped = local.time() != clock
    assert not is_skipped or (due - timedelta(seconds=1)).astimezone(ZoneInfo(zone)).utcoffset() != local.utcoffset()
    assert not days or is_skipped or WEEKDAYS[local.weekday()] in days


@settings(max_examples=repeats(300), deadline=None)
@given(MOMENTS, CLOCKS, st.sampled_from(ZONES))
def test_a_daily_clock_time_fires_once_a_day(start, clock, zone) -> None:
    moment, found = Moment(clock=Clock(f"{clock:%H:%M}")), [start]
    for _ in range(10):
        found.append(next_clock(found[-1], moment, ZoneInfo(zone)))
    days = [each.astimezone(ZoneInfo(zone)).date() for each in found[1:]]
    assert len(set(days)) == len(days) or zone == "Pacific/Apia"
    assert found == sorted(set(found))


@settings(max_examples=repeats(300), deadline=None)
@given(MOMENTS, st.integers(1, 400), st.sampled_from(ZONES))
def test_days_keep_the_clock_time_unless_it_is_skipped(start, days, zone) -> None:
    local = start.astimezone(ZoneInfo(zone))
    due = after_duration(start, Duration(f"{days} days", days), ZoneInfo(zone)).astimezone(ZoneInfo(zone))
    assert due > start
    if due.time() != local.time():
        assert (due - timedelta(seconds=1)).astimezone(ZoneInfo(zone)).utcoffset() != due.utcoffset()

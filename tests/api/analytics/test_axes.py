"""Numbers are written as people read them, and axes have their marks at round ones."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.analytics.pictures.saying import said
from api.analytics.pictures.ticks import moments, round_ticks

SIZES = st.floats(-1e300, 1e300)
TIMES = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (None, "", "–"), (0, "", "0"), (1234567, "", "1,234,567"), (-12.5, "", "−12.5"), (3.14159, "", "3.14"),
        (0.01234, "", "0.0123"), (1e20, "", "1e+20"), (5, "sessions", "5"),
        (0.345, "%", "34.5 %"), (1, "%", "100 %"), (-0.02, "%", "−2 %"),
        (0, "s", "0 s"), (0.25, "s", "250 ms"), (12.34, "s", "12.3 s"), (59.99, "s", "60 s"), (125, "s", "2 min 5 s"),
        (3600, "s", "1 h"), (5400, "s", "1 h 30 min"), (86399, "s", "1 d"), (200_000, "s", "2 d 8 h"),
        (-90, "s", "−1 min 30 s"),
    ],
)  # fmt: skip
def test_a_number_is_said_with_its_unit(number: float | None, unit: str, text: str) -> None:
    assert said(number, unit) == text


@given(SIZES, SIZES, st.integers(2, 12), st.sampled_from(["", "%", "s"]), st.booleans())
def test_marks_are_in_equal_steps_around_all_numbers(first, second, count_max, unit, whole) -> None:
    low, high = min(first, second), max(first, second)
    marks = round_ticks(low, high, count_max, unit, whole=whole)
    assert 2 <= len(marks) <= count_max + 3
    span = marks[-1] - marks[0]
    assert marks[0] <= low + span * 1e-6
    assert marks[-1] >= high - span * 1e-6
    steps = [after - before for before, after in pairwise(marks)]
    assert not whole or unit == "%" or all(mark == int(mark) for mark in marks)
    assert max(steps) == pytest.approx(min(steps), rel=1e-6, abs=span * 1e-6)


@given(TIMES, TIMES, st.integers(2, 12), st.booleans())
def test_marks_are_at_moments_within_the_time(one, other, count_max, days) -> None:
    first, last = min(one, other), max(one, other)
    marks = moments(first, last, count_max, days=days)
    assert 1 <= len(marks) <= count_max + 2
    assert all(first <= at <= last for at, _ in marks)
    assert all(before < after for (before, _), (after, _) in pairwise(marks))
    assert len({name for _, name in marks}) == len(marks)


@pytest.mark.parametrize(
    ("first", "last", "names"),
    [
        ("2026-03-02T08:30", "2026-03-02T11:10", ["2026-03-02 09:00", "2026-03-02 10:00", "2026-03-02 11:00"]),
        ("2026-03-01T00:00", "2026-03-22T00:00", ["2026-03-02", "2026-03-09", "2026-03-16"]),
        ("2025-11-15T00:00", "2026-02-10T00:00", ["2025-12", "2026-01", "2026-02"]),
        ("2019-05-01T00:00", "2023-01-01T00:00", ["2020", "2021", "2022", "2023"]),
    ],
)
def test_marks_of_time_are_where_hours_weeks_months_and_years_begin(first: str, last: str, names: list[str]) -> None:
    ends = (datetime.fromisoformat(end).replace(tzinfo=UTC) for end in (first, last))
    assert [name for _, name in moments(*ends, 4)] == names

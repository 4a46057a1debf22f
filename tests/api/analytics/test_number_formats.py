"""Numbers are written as people read them."""

import pytest

from api.analytics.formats.readable import duration_unit, number_text


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
def test_a_number_has_its_unit(number: float | None, unit: str, text: str) -> None:
    assert number_text(number, unit) == text


@pytest.mark.parametrize(
    ("largest", "unit"),
    [(0, (1, "s")), (90, (1, "s")), (120, (60, "min")), (7200, (3600, "h")), (200_000, (86_400, "d"))],
)
def test_an_axis_of_durations_has_the_unit_of_the_largest(largest: float, unit: tuple[float, str]) -> None:
    assert duration_unit(largest) == unit

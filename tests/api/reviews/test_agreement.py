"""Krippendorff's alpha: equal to a published example, and to its definition computed in another way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.reviews.agreement import Level, alpha
from tests.support.pairwise_agreement import by_pairs

# K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: four observers, twelve units.
PUBLISHED = [
    [1, 1],
    [2, 2, 3, 2],
    [3, 3, 3, 3],
    [3, 3, 3, 3],
    [2, 2, 2, 2],
    [1, 2, 3, 4],
    [4, 4, 4, 4],
    [1, 1, 2, 1],
    [2, 2, 2, 2],
    [5, 5, 5],
    [1, 1],
    [3],
]


@pytest.mark.parametrize(("level", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_it_is_that_of_the_published_example(level: Level, value: float) -> None:
    assert alpha([[1, 1, 1], *PUBLISHED[1:]], level) == pytest.approx(value, abs=0.0005)


def test_full_agreement_is_1_and_systematic_disagreement_below_0() -> None:
    assert alpha([[1, 1], [2, 2], [5, 5]], "interval") == 1
    below = alpha([[1, 2], [2, 1], [1, 2]], "nominal")
    assert below is not None
    assert below < 0


@pytest.mark.parametrize("units", [[], [[1], [2]], [[3, 3], [3, 3]]], ids=["no unit", "one rater", "one value"])
def test_nothing_is_said_where_nothing_can_be_compared(units: list[list[float]]) -> None:
    assert alpha(units, "nominal") is None


@given(
    units=st.lists(st.lists(st.integers(1, 5), max_size=4), max_size=12),
    level=st.sampled_from(["nominal", "ordinal", "interval"]),
)
def test_it_equals_its_definition_over_pairs(units: list[list[int]], level: Level) -> None:
    expected = by_pairs(units, level)
    assert alpha(units, level) == (None if expected is None else pytest.approx(expected))

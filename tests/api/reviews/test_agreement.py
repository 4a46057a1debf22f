"""Krippendorff's alpha: equal to a published example, and to its definition computed in another way."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.reviews.agreement import Level, alpha

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


def test_full_agreement_is_one_and_systematic_disagreement_is_below_zero() -> None:
    assert alpha([[1, 1], [2, 2], [5, 5]], "interval") == 1
    below = alpha([[1, 2], [2, 1], [1, 2]], "nominal")
    assert below is not None
    assert below < 0


@pytest.mark.parametrize("units", [[], [[1], [2]], [[3, 3], [3, 3]]], ids=["no unit", "one rater", "one value"])
def test_nothing_is_said_where_nothing_can_be_compared(units: list[list[float]]) -> None:
    assert alpha(units, "nominal") is None


def by_pairs(units: list[list[int]], level: Level) -> float | None:
    """Compute alpha from its definition: the mean distance within units beside that of all pairs of values."""
    compared = [values for values in units if len(values) > 1]
    every = [value for values in compared for value in values]
    if len(set(every)) < 2:
        return None

    def distance(one: int, other: int) -> float:
        if level == "nominal":
            return float(one != other)
        if level == "interval":
            return float((one - other) ** 2)
        low, high = sorted((one, other))
        ranked = [1.0 if low < value < high else 0.5 * (value in (low, high)) for value in every]
        return sum(ranked) ** 2 if one != other else 0.0

    within = sum(
        2 * distance(one, other) / (len(values) - 1) for values in compared for one, other in combinations(values, 2)
    ) / len(every)
    between = sum(2 * distance(one, other) for one, other in combinations(every, 2)) / (len(every) * (len(every) - 1))
    return 1 - within / between


@given(
    units=st.lists(st.lists(st.integers(1, 5), max_size=4), max_size=12),
    level=st.sampled_from(["nominal", "ordinal", "interval"]),
)
def test_it_equals_its_definition_over_pairs(units: list[list[int]], level: Level) -> None:
    expected = by_pairs(units, level)
    assert alpha(units, level) == (None if expected is None else pytest.approx(expected))
